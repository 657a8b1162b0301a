#pragma once
// IoState: what the threads `stepagent` and `stepagent-io` share.
//
// Purpose: every member that both touch is here, under one mutex; what only the io thread touches
// is in IoThread, Connection and ControlServer.
// Thread rule: under `mutex`, but for `ended`. Application threads never come here.
// Failure rule: every list is bounded.
#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "agent/drain/io/uplink.h"
#include "agent/drain/io/wake_line.h"

namespace stepagent::drain::io {

// What the collector and the command line may pile up while `stepagent` does not take it; the
// newest is dropped beyond (a cycle written but not told of is still in session.json).
inline constexpr size_t kMaxWritten = 1024;
inline constexpr size_t kMaxRequests = 64;
inline constexpr size_t kMaxLines = 8;

struct OutFrame {
  uint8_t type;
  std::string payload;
  uint64_t sequence;
  BatchContent content;
};

inline void AddContent(BatchContent* sum, const BatchContent& content) {
  for (uint32_t kind = 0; kind < kActivityKinds; ++kind) {
    sum->records[kind] += content.records[kind];
  }
}

struct IoState {
  explicit IoState(const UplinkConfig& config)
      : queue_limit(config.queue_bytes),
        control_folder(config.control_folder),
        session(config.session),
        report(config.report),
        collector(config.collector),
        hello(config.hello),
        is_wanted(!config.collector.empty()) {}

  const uint64_t queue_limit;
  const std::string control_folder, session;
  void (*const report)(const char* line);

  std::mutex mutex;
  // stepagent -> io
  std::string collector, hello;
  uint64_t collector_version = 0;  // bumped by SetCollector
  bool is_wanted;                  // a connection is, even with nothing queued
  bool is_finishing = false;
  bool is_abandoned = false;        // Finish has given up: end, touch no counts
  bool is_over = false;             // the io thread takes nothing more (io -> stepagent)
  uint64_t finish_deadline_ns = 0;  // CLOCK_MONOTONIC
  std::deque<OutFrame> queue;
  BatchContent sending;       // of the frame that was taken off the queue
  BatchContent given_up;      // what was being sent when Finish gave up: counted as lost by then
  uint64_t queued_bytes = 0;  // of the queue and of the frame being sent
  std::vector<std::pair<uint64_t, std::string>> answers;
  WakeLine wake;
  pid_t orphan = 0;  // to be waited for when it ends; 0 none
  // io -> stepagent
  Uplink::Status status;
  BatchContent losses;
  std::vector<WrittenCycle> written;
  std::vector<PendingRequest> requests;
  std::vector<std::string> lines;

  std::atomic<uint32_t> ended{0};  // futex: the io thread is done

  // Under `mutex`: what was not sent whole is lost. Once, by whoever gives up first.
  void LoseQueued() {
    if (is_abandoned) return;
    AddContent(&losses, sending);
    given_up = sending;
    for (const OutFrame& frame : queue) AddContent(&losses, frame.content);
    sending = BatchContent{};
    queue.clear();
    queued_bytes = 0;
  }
};

}  // namespace stepagent::drain::io
