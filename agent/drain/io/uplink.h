#pragma once
// Uplink: the thread `stepagent-io`, the only user of sockets.
//
// Purpose: carry frames to the collector and control requests to the agent, from a private
// descriptor table so that the application can neither see, close nor inherit a socket of ours.
// Thread rule: Start/Submit/Take…/Finish on the thread `stepagent`; the io thread runs inside. The
// io thread never calls CUDA, CUPTI, stdio or a log. It bumps core::g_words->wake when there is
// something to take: a request, a written cycle, a line, a change of status.
// Failure rule: every loss is bounded and counted; a collector that is away, slow or stopped costs
// data, never the application. Reconnect backs off to 1 s .. 30 s with jitter.
//
// What happens to a frame: queued (beyond queue_bytes the newest is dropped and counted), sent
// whole once the collector's Welcome is there, kept over a lost connection and sent from its start
// on the next. Lost and counted: what is still queued when Finish gives up or the collector refuses
// us. What a killed collector had received but not yet written cannot be seen from here; it shows
// there, as a gap between the totals of the next batch and what is on its disk.
//
// Waking: `stepagent-io` sleeps in one poll without a timeout. It is woken through a signalfd in
// its own table by a thread-directed signal that it blocks: no descriptor exists on the waking side
// and no disposition changes. (io/wake_line.h says why not a connect.)
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "agent/drain/batch_builder.h"

namespace stepagent::drain::io {

struct UplinkConfig {
  std::string collector;       // address text ("@name" or path); "" none yet
  std::string control_folder;  // proto/address.h; "" abstract
  std::string session;
  std::string hello;                          // encoded Hello, sent first on each connection
  uint64_t queue_bytes = uint64_t{32} << 20;  // beyond: the newest batch is dropped and counted
  // One line for a person ("collector /path: …"), at most one per outage. Called on the thread
  // `stepagent`, inside Submit, TakeLosses or status.
  void (*report)(const char* line) = nullptr;
};

// A request from the command line, to be answered with Answer(id, …).
struct PendingRequest {
  uint64_t id;
  std::string payload;  // encoded ControlRequest
};
struct WrittenCycle {
  uint32_t cycle;
  bool complete;
  std::vector<std::string> files;
  std::string error;
};

// Where the drainer puts its batches; Uplink is the only one outside of tests.
class FrameSink {
 public:
  // False: the queue is full or closed; `content` was added to the losses.
  virtual bool Submit(uint8_t frame_type, std::string payload, uint64_t sequence,
                      const BatchContent& content) = 0;
  // Losses since the last call, per kind.
  [[nodiscard]] virtual BatchContent TakeLosses() = 0;

 protected:
  ~FrameSink() = default;
};

struct IoState;

class Uplink final : public FrameSink {
 public:
  Uplink() = default;
  Uplink(const Uplink&) = delete;
  Uplink& operator=(const Uplink&) = delete;

  // Makes the thread (all signals blocked, named, private descriptors) with its control socket.
  // False: no thread could be made; the agent stays without control.
  [[nodiscard]] bool Start(const UplinkConfig& config);
  // Address and hello may come later (first warmup); connecting begins then: at once, every few
  // milliseconds while a collector just started comes up, then with the back-off.
  void SetCollector(std::string address, std::string hello);
  // Nothing more to send for now (idle until the next window): the connection is closed once the
  // queue is empty, and nothing is tried again until the next Submit or SetCollector.
  void Release();
  // Queues a frame (kBatch or kGoodbye). False: the queue is full or closed; `content` was added to
  // the losses.
  bool Submit(uint8_t frame_type, std::string payload, uint64_t sequence,
              const BatchContent& content) override;
  [[nodiscard]] BatchContent TakeLosses() override;

  struct Status {
    bool connected = false, accepted = false, stopped_by_collector = false;
    std::string session_dir, run_dir, refusal, throttle_reason, last_error;
    uint64_t queued_bytes = 0;
    uint64_t bytes_sent = 0;
    // CLOCK_MONOTONIC when the collector began to be out of reach; 0 while it is not. One that was
    // just started is there within tens of ms: past half a second nobody need wait for it at exit.
    uint64_t failing_since_ns = 0;
  };
  [[nodiscard]] Status status();
  [[nodiscard]] std::vector<WrittenCycle> TakeWritten();
  [[nodiscard]] std::vector<PendingRequest> TakeRequests();
  void Answer(uint64_t request_id, std::string encoded_answer);

  // A process that became this one's child as an orphan (where this one is PID 1 or a subreaper): it
  // is waited for as soon as it ends, so that no zombie stays.
  void ReapOrphan(pid_t pid);

  // Sends what is queued (Goodbye last), at most `deadline_ns` from now; then the thread is left to
  // end by itself (never joined past the deadline). What was not sent is in the losses.
  void Finish(uint64_t deadline_ns);
  // In a forked child before it revives: the parent's state is left as it is, untouched.
  void ForgetAll();

 private:
  void ReportLines();

  std::shared_ptr<IoState> state_;
};

// Starts the run's collector if nobody listens at `address`: clone(VM and VFORK, exit signal 0) of
// a middle that clones the exec'ing collector and exits; no child the application can see, and no
// descriptor either: the look whether somebody listens is taken in the middle, whose table is its
// own. `program` is the path of stepcollector, *collector the process that was started, 0 when one was
// there. Empty string: started (or already there); else why
// not. Blocks until the collector's exec, a millisecond or so. Thread `stepagent`.
[[nodiscard]] std::string StartCollector(const std::string& program, const std::string& address,
                                         const std::string& out, const std::string& run,
                                         char* const* environment,
                                         pid_t* collector = nullptr);

}  // namespace stepagent::drain::io
