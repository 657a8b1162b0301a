#include "collector/analysis/kineto_values.h"

#include <limits>
#include <utility>

namespace stepagent::analysis {
namespace {

constexpr int64_t kMost32 = std::numeric_limits<uint32_t>::max();
constexpr int64_t kMost64 = std::numeric_limits<int64_t>::max() - 1;

// Peer devices may be -1, which is Kineto's "not known".
constexpr KinetoArg kArgs[] = {
    {"correlation", &KinetoEvent::correlation, 0, kMost32, false},
    {"stream", &KinetoEvent::stream, 0, kMost64, true},
    {"device", &KinetoEvent::device, 0, kMostDevice, true},
    {"context", &KinetoEvent::context, 0, kMost32, false},
    {"cbid", &KinetoEvent::cbid, 0, kMost32, false},
    {"bytes", &KinetoEvent::bytes, 0, kMost64, false},
    {"fromDevice", &KinetoEvent::from_device, -1, kMostDevice, false},
    {"toDevice", &KinetoEvent::to_device, -1, kMostDevice, false},
    {"inDevice", &KinetoEvent::device, 0, kMostDevice, true},
    {"graph id", &KinetoEvent::graph_id, 0, kMost32, false},
    {"graph node id", &KinetoEvent::graph_node_id, 0, kMost64, false},
    {"registers per thread", &KinetoEvent::registers, 0, kMost32, false},
    {"shared memory", &KinetoEvent::shared_bytes, 0, kMost32, false},
    {"process_step", &KinetoEvent::process_step, 0, kMost64, false},
    {"wait_on_cuda_event_id", &KinetoEvent::waited_event, 0, kMost32, false}};

}  // namespace

const KinetoArg* FindKinetoArg(std::string_view key) {
  for (const KinetoArg& arg : kArgs) {
    if (arg.key == key) return &arg;
  }
  return nullptr;
}

bool KinetoEvent::*FindKinetoFlag(std::string_view key) {
  constexpr std::pair<std::string_view, bool KinetoEvent::*> kFlags[] = {
      {"complete", &KinetoEvent::is_complete},
      {"contains_tracer_start", &KinetoEvent::contains_tracer_start},
      {"partial", &KinetoEvent::is_partial},
      {"start_end", &KinetoEvent::is_start_end},
      {"cut_at_begin", &KinetoEvent::is_cut_at_begin},
      {"cut_at_end", &KinetoEvent::is_cut_at_end},
      {"failed", &KinetoEvent::is_failed},
      {"captured", &KinetoEvent::is_captured}};
  for (const auto& [name, flag] : kFlags) {
    if (name == key) return flag;
  }
  return nullptr;
}

std::string AllowedText(int64_t least, int64_t most) {
  return std::to_string(least) +
         (most == kMost64 ? std::string(" or more") : " to " + std::to_string(most));
}

void RefusedValues::Add(std::string_view key, int64_t value, const std::string& allowed,
                        const std::string& where, std::string_view consequence) {
  const auto it = by_key_.try_emplace(std::string(key)).first;
  if (++it->second.count > 1) return;
  const bool is_past_64_bits = value == std::numeric_limits<int64_t>::max();
  it->second.first = where + ": \"" + std::string(key) + "\" is " +
                     (is_past_64_bits ? std::string("beyond 64 bits") : std::to_string(value)) +
                     ", allowed: " + allowed + "; " + std::string(consequence);
}

std::vector<std::string> RefusedValues::Lines() const {
  std::vector<std::string> lines;
  for (const auto& [key, refused] : by_key_) {
    lines.push_back(refused.first);
    if (refused.count > 1) {
      lines.back() += "; " + std::to_string(refused.count - 1) + " more like it";
    }
  }
  return lines;
}

}  // namespace stepagent::analysis
