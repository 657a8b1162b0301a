#pragma once
// Uplink: the thread `stepagent-io`, the only user of sockets.
//
// Purpose: carry frames to the collector and control requests to the agent, from a private descriptor
// table so that the application can neither see, close nor inherit a socket of ours.
// Thread rule: Start/Stop/Submit/Take… on the thread `stepagent`; the io thread runs inside. The io
// thread never calls CUDA, CUPTI, stdio or a log.
// Failure rule: every loss is bounded and counted; a collector that is away, slow or stopped costs
// data, never the application. Reconnect backs off from 1 s to 30 s.
#include <cstdint>
#include <string>
#include <vector>

#include "agent/drain/batch_builder.h"

namespace stepagent::drain::io {

struct UplinkConfig {
  std::string collector;        // address text ("@name" or path); "" none yet
  std::string control_folder;   // proto/address.h; "" abstract
  std::string session;
  std::string hello;            // encoded Hello, sent first on each connection
  uint64_t queue_bytes = uint64_t{32} << 20;   // beyond: the newest batch is dropped and counted
};

// A request from the command line, to be answered with Answer(id, …).
struct PendingRequest {
  uint64_t id;
  std::string payload;          // encoded ControlRequest
};
struct WrittenCycle {
  uint32_t cycle;
  bool complete;
  std::vector<std::string> files;
  std::string error;
};

class Uplink {
 public:
  // Makes the thread (all signals blocked, named, private descriptors) with its control socket.
  // False: no thread could be made; the agent stays without control.
  [[nodiscard]] bool Start(const UplinkConfig& config);
  // Address and hello may come later (first warmup); connecting begins then.
  void SetCollector(std::string address, std::string hello);
  // Queues a frame. False: the queue is full or closed; `content` was added to the losses.
  bool Submit(uint8_t frame_type, std::string payload, uint64_t sequence,
              const BatchContent& content);
  // Losses since the last call, per kind: dropped batches, batches unsent at disconnect.
  [[nodiscard]] BatchContent TakeLosses();

  struct Status {
    bool connected = false, accepted = false, stopped_by_collector = false;
    std::string session_dir, run_dir, refusal, throttle_reason, last_error;
    uint64_t queued_bytes = 0;
    uint64_t bytes_sent = 0;
  };
  [[nodiscard]] Status status();
  [[nodiscard]] std::vector<WrittenCycle> TakeWritten();
  [[nodiscard]] std::vector<PendingRequest> TakeRequests();
  void Answer(uint64_t request_id, std::string encoded_answer);

  // Sends what is queued (Goodbye last), at most `deadline_ns` from now; then the thread is left to
  // end by itself (never joined past the deadline).
  void Finish(uint64_t deadline_ns);
  void ForgetAll();   // in a forked child before it revives

 private:
  struct Impl;
  Impl* impl_ = nullptr;
};

// Starts the run's collector if nobody listens at `address`: clone(VM and VFORK, exit signal 0) of a
// middle that clones the exec'ing collector and exits; no child the application can see. `program`
// is the path of stepcollector. Empty string: started (or already there); else why not.
[[nodiscard]] std::string StartCollector(const std::string& program, const std::string& address,
                                         const std::string& out, const std::string& run,
                                         char* const* environment);

}  // namespace stepagent::drain::io
