#include "agent/drain/session_messages.h"

#include <protozero/pbf_message.hpp>

#include "agent/drain/fields.h"
#include "agent/drain/message_writer.h"
#include "proto/frame.h"
#include "proto/limits.h"

namespace stepagent::drain {
namespace {

template <typename Message>
using Builder = protozero::pbf_builder<Message>;

template <typename Message>
void PutMap(Builder<Message>* parent, Message field,
            const std::map<std::string, std::string>& map) {
  for (const auto& [map_key, map_value] : map) {
    Builder<wire::MapEntry> entry(*parent, field);
    entry.add_string(wire::MapEntry::key, ValidUtf8(map_key, proto::kMaxNameBytes));
    entry.add_string(wire::MapEntry::value, ValidUtf8(map_value, kMaxTextBytes));
  }
}

// A list keeps its empty entries: an empty argument is an argument.
template <typename Message>
void PutList(Builder<Message>* message, Message field, const std::vector<std::string>& list,
             size_t max_bytes = proto::kMaxNameBytes) {
  size_t room = kMaxListEntries;
  for (const std::string& text : list) {
    if (room-- == 0) return;
    message->add_string(field, ValidUtf8(text, max_bytes));
  }
}

void PutIdentity(Builder<wire::Hello>* hello, const BatchIdentity& identity) {
  Builder<wire::Identity> message(*hello, wire::Hello::identity);
  PutText(&message, wire::Identity::run, identity.run);
  PutText(&message, wire::Identity::session, identity.session);
  PutText(&message, wire::Identity::host, identity.host);
  PutSigned(&message, wire::Identity::rank, identity.rank);
}

void PutClock(Builder<wire::Hello>* hello, const HelloData& data) {
  Builder<wire::ClockInfo> message(*hello, wire::Hello::clock);
  PutText(&message, wire::ClockInfo::host, data.clock_host);
  PutInt(&message, wire::ClockInfo::base_unix_ns, data.base_unix_ns);
  PutInt(&message, wire::ClockInfo::base_mono_ns, data.base_mono_ns);
}

void PutSchedule(Builder<wire::Hello>* hello, const ScheduleData& data) {
  using enum wire::Schedule;
  Builder<wire::Schedule> message(*hello, wire::Hello::schedule);
  PutUint(&message, skip_first, data.skip_first);
  PutUint(&message, wait, data.wait);
  PutUint(&message, warmup, data.warmup);
  PutUint(&message, active, data.active);
  PutUint(&message, repeat, data.repeat);
  PutBool(&message, skip_first_wait, data.skip_first_wait);
}

void PutStatus(Builder<wire::ControlAnswer>* answer, const AgentStatusData& data) {
  using enum wire::AgentStatus;
  Builder<wire::AgentStatus> message(*answer, wire::ControlAnswer::status);
  PutUint(&message, pid, data.pid);
  PutText(&message, title, data.title);
  PutText(&message, exe, data.exe);
  PutSigned(&message, rank, data.rank);
  PutText(&message, session, data.session);
  PutText(&message, run, data.run);
  PutUint(&message, phase, data.phase);
  PutUint(&message, step, data.step);
  PutUint(&message, cycle, data.cycle);
  PutUint(&message, records, data.records);
  PutText(&message, last_error, data.last_error);
  PutText(&message, session_dir, data.session_dir);
  if (!data.gpus.empty()) message.add_packed_uint32(gpus, data.gpus.begin(), data.gpus.end());
  PutUint(&message, busy_count, data.busy_count);
  PutList(&message, written, data.written);
  PutText(&message, step_source, data.step_source);
  for (const NameCountRow& row : data.top_ranges) {
    Builder<wire::NameCount> range(message, top_ranges);
    PutBytes(&range, wire::NameCount::name, row.name);
    PutBytes(&range, wire::NameCount::domain, row.domain);
    PutUint(&range, wire::NameCount::count, row.count);
    PutUint(&range, wire::NameCount::registered, row.registered);
  }
  PutBool(&message, has_cuda, data.has_cuda);
  PutUint(&message, cycles_written, data.cycles_written);
  PutBool(&message, signal_off, data.signal_off);
  PutBool(&message, awaits_files, data.awaits_files);
  PutUint(&message, cycles_lost, data.cycles_lost);
}

// Reads one message of hostile bytes: `field(reader)` takes a known field or returns false, which
// skips it; anything malformed, a wrong wire type included, ends in nullopt.
template <typename Message, typename Data, typename F>
std::optional<Data> Decode(std::string_view bytes, F&& take_field) {
  if (bytes.size() > proto::kMaxControlBytes) return std::nullopt;
  try {
    Data data;
    protozero::pbf_message<Message> reader(bytes.data(), bytes.size());
    while (reader.next()) {
      if (!take_field(&reader, &data)) reader.skip();
    }
    return data;
  } catch (const protozero::exception&) {
    return std::nullopt;
  } catch (const std::bad_alloc&) {
    return std::nullopt;
  }
}

constexpr auto kVarint = protozero::pbf_wire_type::varint;
constexpr auto kBytes = protozero::pbf_wire_type::length_delimited;

// Each takes the field if it has the wire type it should; protozero only asserts that it does.
template <typename Reader>
bool TakeUint(Reader* reader, uint64_t* value) {
  if (reader->wire_type() != kVarint) return false;
  *value = reader->get_uint64();
  return true;
}
template <typename Reader, typename T>
bool TakeSmall(Reader* reader, T* value) {
  uint64_t wide;
  if (!TakeUint(reader, &wide)) return false;
  *value = static_cast<T>(wide);
  return true;
}
template <typename Reader>
bool TakeText(Reader* reader, std::string* text) {
  if (reader->wire_type() != kBytes) return false;
  const protozero::data_view view = reader->get_view();
  text->assign(view.data(), view.size() < kMaxTextBytes ? view.size() : kMaxTextBytes);
  return true;
}
template <typename Reader>
bool TakeListEntry(Reader* reader, std::vector<std::string>* list) {
  if (list->size() >= kMaxListEntries) return false;
  std::string text;
  if (!TakeText(reader, &text)) return false;
  list->push_back(std::move(text));
  return true;
}
template <typename Reader>
bool TakeMapEntry(Reader* reader, std::map<std::string, std::string>* map) {
  if (reader->wire_type() != kBytes || map->size() >= kMaxListEntries) return false;
  protozero::pbf_message<wire::MapEntry> entry(reader->get_view());
  std::string key, value;
  while (entry.next()) {
    std::string* target = entry.tag() == wire::MapEntry::key     ? &key
                          : entry.tag() == wire::MapEntry::value ? &value
                                                                 : nullptr;
    if (target == nullptr || !TakeText(&entry, target)) entry.skip();
  }
  (*map)[key] = value;
  return true;
}

}  // namespace

std::string EncodeHello(const HelloData& data) {
  using enum wire::Hello;
  std::string bytes;
  Builder<wire::Hello> hello(bytes);
  PutUint(&hello, protocol, proto::kProtocol);
  PutUint(&hello, protocol_min, proto::kProtocolMin);
  PutText(&hello, agent_version, data.agent_version);
  PutIdentity(&hello, data.identity);
  PutUint(&hello, pid, data.pid);
  PutUint(&hello, ppid, data.ppid);
  PutText(&hello, exe, data.exe);
  PutText(&hello, exe_path, data.exe_path);
  PutText(&hello, title, data.title);
  PutList(&hello, argv, data.argv);
  PutText(&hello, rank_source, data.rank_source);
  PutSigned(&hello, world_size, data.world_size);
  PutSigned(&hello, local_rank, data.local_rank);
  if (data.cuda_visible_devices) {
    PutText(&hello, cuda_visible_devices, *data.cuda_visible_devices);
    hello.add_bool(has_cuda_visible_devices, true);
  }
  PutClock(&hello, data);
  if (data.schedule) PutSchedule(&hello, *data.schedule);
  PutText(&hello, step_source, data.step_source);
  PutText(&hello, step_extent, data.step_extent);
  PutMap(&hello, settings, data.settings);
  PutMap(&hello, labels, data.labels);
  PutText(&hello, out, data.out);
  PutText(&hello, run_dir, data.run_dir);
  PutList(&hello, formats, data.formats);
  PutList(&hello, redact, data.redact);
  PutList(&hello, activities, data.activities);
  PutList(&hello, require, data.require);
  PutUint(&hello, process_start_ticks, data.process_start_ticks);
  PutList(&hello, rank_conflicts, data.rank_conflicts);
  PutUint(&hello, max_traces, data.max_traces);
  PutUint(&hello, max_bytes, data.max_bytes);
  PutBool(&hello, launcher_watches, data.launcher_watches);
  return bytes;
}

std::string EncodeGoodbye(std::string_view ended, std::string_view losses, uint64_t last_sequence,
                          std::string_view all_steps) {
  std::string bytes;
  Builder<wire::Goodbye> goodbye(bytes);
  PutText(&goodbye, wire::Goodbye::ended, ended);
  PutBytes(&goodbye, wire::Goodbye::losses, losses);
  PutUint(&goodbye, wire::Goodbye::last_sequence, last_sequence);
  PutBytes(&goodbye, wire::Goodbye::all_steps, all_steps);
  return bytes;
}

std::string EncodeControlAnswer(const ControlAnswerData& data) {
  std::string bytes;
  Builder<wire::ControlAnswer> answer(bytes);
  PutUint(&answer, wire::ControlAnswer::verdict, static_cast<uint64_t>(data.verdict));
  PutText(&answer, wire::ControlAnswer::reason, data.reason);
  PutStatus(&answer, data.status);
  return bytes;
}

std::optional<WelcomeData> DecodeWelcome(std::string_view bytes) {
  return Decode<wire::Welcome, WelcomeData>(bytes, [](auto* reader, WelcomeData* data) {
    switch (reader->tag()) {
      case wire::Welcome::accepted:
        return TakeSmall(reader, &data->accepted);
      case wire::Welcome::reason:
        return TakeText(reader, &data->reason);
      case wire::Welcome::protocol:
        return TakeSmall(reader, &data->protocol);
      case wire::Welcome::session_dir:
        return TakeText(reader, &data->session_dir);
      case wire::Welcome::run_dir:
        return TakeText(reader, &data->run_dir);
      case wire::Welcome::collector_version:
        return TakeText(reader, &data->collector_version);
    }
    return false;
  });
}

std::optional<WrittenData> DecodeWritten(std::string_view bytes) {
  return Decode<wire::Written, WrittenData>(bytes, [](auto* reader, WrittenData* data) {
    switch (reader->tag()) {
      case wire::Written::cycle:
        return TakeSmall(reader, &data->cycle);
      case wire::Written::complete:
        return TakeSmall(reader, &data->complete);
      case wire::Written::files:
        return TakeListEntry(reader, &data->files);
      case wire::Written::error:
        return TakeText(reader, &data->error);
    }
    return false;
  });
}

std::optional<ThrottleData> DecodeThrottle(std::string_view bytes) {
  return Decode<wire::Throttle, ThrottleData>(bytes, [](auto* reader, ThrottleData* data) {
    switch (reader->tag()) {
      case wire::Throttle::stop:
        return TakeSmall(reader, &data->stop);
      case wire::Throttle::reason:
        return TakeText(reader, &data->reason);
    }
    return false;
  });
}

std::optional<ControlRequestData> DecodeControlRequest(std::string_view bytes) {
  using Data = ControlRequestData;
  return Decode<wire::ControlRequest, Data>(bytes, [](auto* reader, Data* data) {
    switch (reader->tag()) {
      case wire::ControlRequest::protocol:
        return TakeSmall(reader, &data->protocol);
      case wire::ControlRequest::verb: {
        uint64_t number;
        if (!TakeUint(reader, &number)) return false;
        data->verb = number <= static_cast<uint64_t>(Data::Verb::kToggle)
                         ? static_cast<Data::Verb>(number)
                         : Data::Verb::kNone;
        return true;
      }
      case wire::ControlRequest::steps:
        return TakeUint(reader, &data->steps);
      case wire::ControlRequest::duration_ns:
        return TakeUint(reader, &data->duration_ns);
      case wire::ControlRequest::settings:
        return TakeMapEntry(reader, &data->settings);
      case wire::ControlRequest::at_step:
        return TakeUint(reader, &data->at_step);
      case wire::ControlRequest::by_signal:
        return TakeSmall(reader, &data->by_signal);
    }
    return false;
  });
}

}  // namespace stepagent::drain
