#include "collector/writers/perfetto_packets.h"

#include <algorithm>
#include <cctype>
#include <optional>

#include "collector/writers/chrome_header.h"
#include "collector/writers/json_text.h"

namespace stepagent::writers {
namespace {

constexpr size_t kFlushBytes = size_t{1} << 16;
// Ids of tracks and sequences are parts of this hash: short numbers are short varints, and 56 bits
// keep thousands of merged files apart.
constexpr uint64_t kTrackMask = (uint64_t{1} << 56) - 1;
constexpr uint32_t kSequenceMask = (1U << 20) - 1;

uint64_t Hash(std::string_view text, uint64_t seed) {  // FNV-1a, then mixed
  uint64_t h = 0xcbf29ce484222325 ^ seed * 0x9e3779b97f4a7c15;
  for (const char c : text) h = (h ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9;
  h = (h ^ h >> 27) * 0x94d049bb133111eb;
  return h ^ h >> 31;
}

// "GPU-xxxxxxxx-xxxx-…" to its 16 bytes; nullopt for anything else.
std::optional<std::string> UuidBytes(std::string_view text) {
  std::string digits, bytes;
  for (const char c : text.substr(std::min(text.size(), text.find('-')))) {
    if (c == '-') continue;
    if (std::isxdigit(static_cast<unsigned char>(c)) == 0) return std::nullopt;
    digits.push_back(c);
  }
  if (digits.size() != 32) return std::nullopt;
  for (size_t i = 0; i < digits.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

bool HasLoss(const model::Cycle& cycle) {
  return std::any_of(cycle.balance.begin(), cycle.balance.end(),
                     [](const model::Balance& b) { return b.dropped.value_or(0) > 0; });
}

}  // namespace

PerfettoPackets::PerfettoPackets(const model::Cycle& cycle, OutputFile& file, size_t part)
    : cycle_(cycle),
      file_(file),
      part_(part),
      sequence_(1 + static_cast<uint32_t>(Hash(cycle.session.id, cycle.index) & kSequenceMask)) {
  ProtoBuffer end;
  end.Uint(pf::kPacketSequenceId, sequence_);
  end.Uint(pf::kPacketSequenceFlags, pf::kFlagNeedsState);
  needs_state_ = end.view();
}

uint64_t PerfettoPackets::TrackUuid(std::string_view role, uint64_t number) const {
  const uint64_t process = Hash(cycle_.session.host + cycle_.session.id, cycle_.session.pid);
  return std::max<uint64_t>(Hash(role, process ^ Hash("number", number)) & kTrackMask, 1);
}

void PerfettoPackets::Begin() { packet_ = buffer_.Begin(pf::kTracePacket); }

void PerfettoPackets::Begin(model::TimeNs at) {
  Begin();
  ReachesTo(at);
  buffer_.Uint(pf::kPacketTimestamp, static_cast<uint64_t>(std::max<model::TimeNs>(at, 0)));
}

char* PerfettoPackets::BeginWhole(model::TimeNs at, size_t bytes) {
  ReachesTo(at);
  const auto stamp = static_cast<uint64_t>(std::max<model::TimeNs>(at, 0));
  const size_t texts = interned_.size();
  const size_t length = 1 + ProtoBuffer::VarintBytes(stamp) + bytes +
                        (texts == 0 ? 0 : 1 + ProtoBuffer::VarintBytes(texts) + texts) +
                        needs_state_.size();
  char* to = buffer_.Room(length + 16);
  static_assert(pf::kTracePacket < 16 && pf::kPacketTimestamp < 16, "tags of one byte");
  *to++ = static_cast<char>(pf::kTracePacket << 3 | 2);
  to = ProtoBuffer::PutVarint(to, length);
  *to++ = static_cast<char>(pf::kPacketTimestamp << 3);
  return ProtoBuffer::PutVarint(to, stamp);
}

void PerfettoPackets::EndWhole(char* at) {
  if (!interned_.empty()) {
    static_assert(pf::kPacketInternedData < 16, "a tag of one byte");
    *at++ = static_cast<char>(pf::kPacketInternedData << 3 | 2);
    at = ProtoBuffer::PutVarint(at, interned_.size());
    at = ProtoBuffer::PutRaw(at, interned_.view());
    interned_.Clear();
  }
  buffer_.Commit(ProtoBuffer::PutRaw(at, needs_state_));
  if (buffer_.size() >= kFlushBytes) Flush();
}

void PerfettoPackets::End(uint32_t flags) {
  if (!interned_.empty()) {
    const size_t data = buffer_.Begin(pf::kPacketInternedData);
    buffer_.Raw(interned_.view());
    buffer_.End(data);
    interned_.Clear();
  }
  buffer_.Uint(pf::kPacketSequenceId, sequence_);
  if (flags != 0) buffer_.Uint(pf::kPacketSequenceFlags, flags);
  buffer_.End(packet_);
  if (buffer_.size() >= kFlushBytes) Flush();
}

void PerfettoPackets::Flush() {
  file_.Write(buffer_.view());
  buffer_.Clear();
}

uint64_t PerfettoPackets::Intern(uint32_t space, std::string_view text) {
  Texts& known = texts_[space];
  if (const auto it = known.find(text); it != known.end()) return it->second;
  const uint64_t iid = known.size() + 1;
  known.emplace(text, iid);
  const size_t entry = interned_.Begin(space);
  interned_.Uint(pf::kIid, iid);
  interned_.Text(pf::kInternedName, ValidUtf8(text));
  interned_.End(entry);
  return iid;
}

void PerfettoPackets::WriteHeader() {
  WriteUuid();
  WriteAttributes();
  WriteGpus();
  WriteProcess();
  if (HasLoss(cycle_)) WriteLossMark();
}

// Stamps are on the session's clock, which a sequence of its own number knows by this snapshot; the
// trace's clock is the wall clock, so that files of several ranks lie on one line.
void PerfettoPackets::WriteClocks(model::TimeNs at, bool is_first) {
  const model::TimeNs session = std::max<model::TimeNs>(at, 0);
  const int64_t unix_ns = std::max<int64_t>(cycle_.session.base_unix_ns + session, 0);
  Begin();
  const size_t snapshot = buffer_.Begin(pf::kPacketClockSnapshot);
  const auto clock = [&](uint32_t id, int64_t ns) {
    const size_t one = buffer_.Begin(pf::kSnapshotClocks);
    buffer_.Uint(pf::kClockId, id);
    buffer_.Uint(pf::kClockTimestamp, static_cast<uint64_t>(ns));
    buffer_.End(one);
  };
  clock(pf::kClockRealtime, unix_ns);
  clock(pf::kClockSession, session);
  buffer_.Uint(pf::kSnapshotPrimary, pf::kClockRealtime);
  buffer_.End(snapshot);
  if (!is_first) return End(0);
  const size_t defaults = buffer_.Begin(pf::kPacketDefaults);
  buffer_.Uint(pf::kDefaultsClockId, pf::kClockSession);
  buffer_.End(defaults);
  buffer_.Uint(pf::kPacketFirstOnSequence, 1);
  End(pf::kFlagStateCleared);
}

void PerfettoPackets::WriteUuid() {
  Begin();
  const size_t uuid = buffer_.Begin(pf::kPacketTraceUuid);
  buffer_.Uint(pf::kUuidMsb, Hash(cycle_.session.host + cycle_.session.id, cycle_.index));
  const uint64_t number = uint64_t{cycle_.index} + (uint64_t{1 + part_} << 32);
  buffer_.Uint(pf::kUuidLsb, Hash(cycle_.session.id, number));
  buffer_.End(uuid);
  End(0);
}

void PerfettoPackets::Attribute(std::string_view key, std::string_view text) {
  if (text.empty()) return;
  const size_t attribute = buffer_.Begin(pf::kAttributesAttribute);
  buffer_.Text(pf::kAttributeKey, ValidUtf8(key));
  buffer_.Text(pf::kAttributeText, ValidUtf8(text));
  buffer_.End(attribute);
}

void PerfettoPackets::Attribute(std::string_view key, int64_t number) {
  const size_t attribute = buffer_.Begin(pf::kAttributesAttribute);
  buffer_.Text(pf::kAttributeKey, key);
  buffer_.Int(pf::kAttributeLong, number);
  buffer_.End(attribute);
}

void PerfettoPackets::WriteAttributes() {
  const model::SessionInfo& s = cycle_.session;
  Begin();
  const size_t attributes = buffer_.Begin(pf::kPacketTraceAttributes);
  Attribute("stepagent.version", s.agent_version);
  Attribute("stepagent.run", s.run);
  Attribute("stepagent.session", s.id);
  Attribute("stepagent.host", s.host);
  if (s.rank >= 0) Attribute("stepagent.rank", s.rank);
  if (s.world_size >= 0) Attribute("stepagent.world_size", s.world_size);
  Attribute("stepagent.cycle", cycle_.index);
  if (!cycle_.steps.empty()) {
    Attribute("stepagent.first_step", static_cast<int64_t>(cycle_.steps.front().index));
    Attribute("stepagent.last_step", static_cast<int64_t>(cycle_.steps.back().index));
  }
  if (cycle_.tells_end) {
    Attribute("stepagent.complete", cycle_.complete ? 1 : 0);
    Attribute("stepagent.ended", cycle_.ended);
  }
  Attribute("stepagent.reason", cycle_.reason);
  Attribute("stepagent.gpu_status", cycle_.gpu.status);
  Attribute("stepagent.gpu_reason", cycle_.gpu.reason);
  Attribute("stepagent.graph_level", cycle_.gpu.graph_level);
  for (const model::Note& note : cycle_.notes) Attribute("stepagent.note." + note.code, note.text);
  for (const auto& [key, value] : s.labels) Attribute("stepagent.label." + key, value);
  for (size_t i = 1; i < model::kActivityCount; ++i) {
    const uint64_t dropped = cycle_.balance[i].dropped.value_or(0);
    const std::string kind(model::ActivityName(static_cast<model::Activity>(i)));
    if (dropped > 0) Attribute("stepagent.dropped." + kind, static_cast<int64_t>(dropped));
  }
  buffer_.End(attributes);
  End(0);
}

// The place in the list is the gpu_id of the events: ordinals that are not there keep theirs.
void PerfettoPackets::WriteGpus() {
  int32_t last = -1;
  for (const model::DeviceInfo& device : cycle_.devices) last = std::max(last, device.ordinal);
  for (const model::Lane& lane : cycle_.lanes) last = std::max(last, lane.device);
  if (last < 0 || last > 1023) return;  // 1023: no machine has more; a wild number fills no disk
  Begin();
  const size_t info = buffer_.Begin(pf::kPacketGpuInfo);
  for (int32_t ordinal = 0; ordinal <= last; ++ordinal) WriteGpu(ordinal);
  buffer_.End(info);
  End(0);
}

void PerfettoPackets::WriteGpu(int32_t ordinal) {
  const model::DeviceInfo* device = nullptr;
  size_t same_name = 0;
  for (const model::DeviceInfo& d : cycle_.devices) {
    if (d.ordinal == ordinal) device = &d;
  }
  for (const model::DeviceInfo& d : cycle_.devices) {
    same_name += device != nullptr && d.name == device->name ? 1 : 0;
  }
  const size_t gpu = buffer_.Begin(pf::kGpuInfoGpus);
  std::string name = "GPU " + std::to_string(ordinal);
  if (device != nullptr && !device->name.empty()) {
    name = ValidUtf8(device->name) + (same_name > 1 ? " #" + std::to_string(ordinal) : "");
  }
  buffer_.Text(pf::kGpuName, name);
  if (device != nullptr) {
    buffer_.Text(pf::kGpuVendor, "NVIDIA");
    buffer_.Text(pf::kGpuModel, ValidUtf8(device->name));
    if (device->compute_major != 0) {
      buffer_.Text(pf::kGpuArchitecture, "sm_" + std::to_string(device->compute_major) +
                                             std::to_string(device->compute_minor));
    }
    if (const auto bytes = UuidBytes(device->uuid)) buffer_.Text(pf::kGpuUuid, *bytes);
  }
  buffer_.End(gpu);
}

void PerfettoPackets::WriteProcess() {
  const model::SessionInfo& s = cycle_.session;
  Begin();
  const size_t track = buffer_.Begin(pf::kPacketTrackDescriptor);
  buffer_.Uint(pf::kTrackUuid, process_uuid());
  const size_t process = buffer_.Begin(pf::kTrackProcess);
  buffer_.Uint(pf::kProcessPid, s.pid);
  const std::string& title = s.title.empty() ? s.exe : s.title;
  buffer_.Text(pf::kProcessName, ValidUtf8(title + HostOnlyMark(cycle_)));
  if (s.rank >= 0) buffer_.Text(pf::kProcessLabels, "rank " + std::to_string(s.rank));
  buffer_.End(process);
  buffer_.End(track);
  End(0);
}

// Readers count a gap. It comes with a cleared state, or they would refuse what follows it.
void PerfettoPackets::WriteLossMark() {
  Begin();
  buffer_.Uint(pf::kPacketPreviousDropped, 1);
  const size_t defaults = buffer_.Begin(pf::kPacketDefaults);
  buffer_.Uint(pf::kDefaultsClockId, pf::kClockSession);
  buffer_.End(defaults);
  End(pf::kFlagStateCleared);
}

}  // namespace stepagent::writers
