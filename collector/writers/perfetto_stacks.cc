#include "collector/writers/perfetto_stacks.h"

#include <charconv>

#include "collector/writers/stack_frames.h"

namespace stepagent::writers {
namespace {

// Readers take the bytes themselves and spell them out.
std::string BytesOfHex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    uint8_t byte = 0;
    std::from_chars(&hex[i], &hex[i] + 2, byte, 16);
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

}  // namespace

PerfettoStacks::PerfettoStacks(const model::Cycle& cycle, PerfettoPackets& packets)
    : cycle_(cycle), packets_(packets), iids_(cycle.stacks.size(), 0) {}

uint64_t PerfettoStacks::Iid(const model::Call& call) {
  const std::vector<model::Frame>* stack = StackOf(cycle_, call);
  if (stack == nullptr || stack->empty()) return 0;
  uint64_t& iid = iids_[static_cast<size_t>(call.stack)];
  if (iid != 0) return iid;
  iid = ++stacks_;
  std::vector<uint64_t> frames;  // each may write entries of its own
  for (auto it = stack->rbegin(); it != stack->rend(); ++it) frames.push_back(FrameIid(*it));
  ProtoBuffer& out = packets_.interned();
  const size_t entry = out.Begin(pf::kInternedCallstacks);
  out.Uint(pf::kIid, iid);
  for (const uint64_t frame : frames) out.Uint(pf::kCallstackFrames, frame);
  out.End(entry);
  return iid;
}

uint64_t PerfettoStacks::FrameIid(const model::Frame& frame) {
  const FrameKey key{frame.name,   frame.module, frame.address,
                     frame.source, frame.line,   frame.build_id};
  const auto [it, is_new] = frames_.try_emplace(key, frames_.size() + 1);
  if (!is_new) return it->second;
  const uint64_t function = packets_.Intern(pf::kInternedFunctionNames, FrameName(cycle_, frame));
  const uint64_t mapping = MappingIid(frame);
  const uint64_t source =
      frame.source == 0 ? 0 : packets_.Intern(pf::kInternedSources, cycle_.Text(frame.source));
  ProtoBuffer& out = packets_.interned();
  const size_t entry = out.Begin(pf::kInternedFrames);
  out.Uint(pf::kIid, it->second);
  out.Uint(pf::kFrameFunction, function);
  out.Uint(pf::kFrameMapping, mapping);
  if (frame.address != 0) out.Uint(pf::kFrameAddress, frame.address);
  if (source != 0) out.Uint(pf::kFrameSource, source);
  if (frame.line != 0) out.Uint(pf::kFrameLine, frame.line);
  out.End(entry);
  return it->second;
}

// Readers refuse a frame without a mapping: what lies in no file gets one without a path.
uint64_t PerfettoStacks::MappingIid(const model::Frame& frame) {
  const auto [it, is_new] =
      mappings_.try_emplace({frame.module, frame.build_id}, mappings_.size() + 1);
  if (!is_new) return it->second;
  const uint64_t build_id = frame.build_id.empty() ? 0 : BuildIdIid(frame.build_id);
  const uint64_t path =
      frame.module == 0 ? 0 : packets_.Intern(pf::kInternedPaths, cycle_.Text(frame.module));
  ProtoBuffer& out = packets_.interned();
  const size_t entry = out.Begin(pf::kInternedMappings);
  out.Uint(pf::kIid, it->second);
  if (build_id != 0) out.Uint(pf::kMappingBuildId, build_id);
  if (path != 0) out.Uint(pf::kMappingPath, path);
  out.End(entry);
  return it->second;
}

uint64_t PerfettoStacks::BuildIdIid(const std::string& hex) {
  const auto [it, is_new] = build_ids_.try_emplace(hex, build_ids_.size() + 1);
  if (!is_new) return it->second;
  ProtoBuffer& out = packets_.interned();
  const size_t entry = out.Begin(pf::kInternedBuildIds);
  out.Uint(pf::kIid, it->second);
  out.Text(pf::kInternedName, BytesOfHex(hex));
  out.End(entry);
  return it->second;
}

}  // namespace stepagent::writers
