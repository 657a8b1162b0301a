// Reads a Kineto JSON trace event by event, in constant memory.
//
// Thread rule: one thread.
// Failure rule: text that is no JSON throws std::runtime_error with the position; events that lack
// what they need are the receiver's to judge.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <istream>
#include <string>

namespace stepagent::replay {

struct KinetoEvent {
  std::string ph, cat, name;
  int64_t pid = 0, tid = 0;
  int64_t begin_ns = 0, duration_ns = 0;
  int64_t correlation = -1;
  int64_t bytes = 0;
  int64_t device = 0, stream = -1;
  int64_t shared_bytes = 0;
  std::array<int64_t, 3> grid{1, 1, 1}, block{1, 1, 1};
};

void ReadKineto(std::istream& in, const std::function<void(const KinetoEvent&)>& receive);

// Microseconds as decimal text to nanoseconds, without a detour through floating point: a double
// cannot hold a Unix time in microseconds to the nanosecond.
int64_t MicrosecondsToNs(const std::string& text);

}  // namespace stepagent::replay
