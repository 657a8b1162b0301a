#pragma once
// One session, from its checked frames to its files.
//
// Purpose: spool append -> builder -> when a cycle is closed: writers, manifest, summary,
// session.json, Written. The same code live and in recovery.
// Thread rule: On… and Finish from one thread at a time (the session's strand); cycles are written
// by the jobs handed to post_write, one after another. session.json is guarded by a mutex. Failure
// rule: a file that cannot be written is named, with errno, in session.json, in the log and to the
// agent; the session goes on with what is left.
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "batch.pb.h"
#include "session.pb.h"

#include "collector/ingest/cycle_output.h"
#include "collector/ingest/disk_guard.h"
#include "collector/ingest/loss_counts.h"
#include "collector/ingest/memory_budget.h"
#include "collector/ingest/run_table.h"
#include "collector/model/builder.h"
#include "collector/spool/raw_file.h"
#include "collector/spool/session_json.h"

namespace stepagent::ingest {

struct PipelineHooks {
  // Runs jobs in order, now or later. Empty: at once.
  std::function<void(std::function<void()>)> post_write;
  // Runs a job where frames are taken in, later. Empty: there frames come without a pause.
  std::function<void(std::function<void()>)> post_frame;
  std::function<void(const v1::Written&)> on_written;
  std::function<void(const v1::Throttle&)> on_throttle;
  std::function<void(const std::string& line)> on_problem;
  std::function<void(const model::Cycle&, const CycleOutput&)> on_cycle;
  // Replaceable in tests.
  std::function<CycleOutput(const model::Cycle&, const CyclePlace&)> write_cycle = WriteCycle;
  DiskGuard::Probe disk = SpaceOf;
  // What a batch or a Goodbye adds to the losses its agent tells; how a cycle went for its agent.
  std::function<void(const LossCounts&)> on_losses;
  std::function<void(const v1::CycleReport&)> on_report;
  std::function<void(uint32_t cycle)> on_deferred;
  // A frame that could not be kept in raw.steps, and why.
  std::function<void(const std::string& error)> on_append_error;
  std::shared_ptr<MemoryBudget> memory;  // null: no bound
};

class SessionPipeline : public std::enable_shared_from_this<SessionPipeline> {
 public:
  // A session that says Hello here; `frame` is the Hello as received. "" or why it cannot be;
  // *is_held: somebody else has its file at this moment.
  [[nodiscard]] static std::string Open(RunTable* runs, const std::string& out,
                                        const v1::Hello& hello, const spool::RawFrame& frame,
                                        int64_t now_unix_ns, PipelineHooks hooks, bool* is_held,
                                        std::shared_ptr<SessionPipeline>* pipeline);
  // A session whose collector is gone, from its folder. *is_live: it is not gone.
  [[nodiscard]] static std::string Recover(const std::string& session_dir, PipelineHooks hooks,
                                           bool* is_live,
                                           std::shared_ptr<SessionPipeline>* pipeline);
  ~SessionPipeline();

  // The session's Hello again, on a new connection: its settings may have changed.
  void OnHello(const spool::RawFrame& frame);
  // False: the frame is no batch of this session and was refused.
  [[nodiscard]] bool OnBatch(const spool::RawFrame& frame, int64_t now_ns);
  [[nodiscard]] bool OnGoodbye(const spool::RawFrame& frame);
  // How the session's process ended, from who started it; kept in the raw file for later readers.
  void OnTargetEnded(const v1::TargetEnded& ended);
  void CountRefused();
  // Nothing more will come. Cycles not written yet are written, then session.json says closed and
  // `done` is called, as the last job. `why` becomes the reason of cycles cut short without a word
  // from the agent.
  void Finish(const std::string& why = {}, std::function<void()> done = {});

  [[nodiscard]] bool HasOpenCycle() const { return builder_->progress().is_cycle_open; }
  [[nodiscard]] bool said_goodbye() const { return said_goodbye_; }
  [[nodiscard]] bool had_write_error() const;
  [[nodiscard]] uint64_t raw_cut_bytes() const { return raw_cut_bytes_; }
  // Cycles handed to post_write and not done yet.
  [[nodiscard]] size_t pending_cycles() const;
  [[nodiscard]] std::string session_dir() const;
  [[nodiscard]] const Run& run() const { return *run_; }
  // What the session is at, for anybody's thread.
  struct Live {
    enum class State : uint8_t { kWait, kWarmup, kActive };
    State state = State::kWait;
    uint64_t step = 0;       // the last one seen, by the process's count
    uint64_t raw_bytes = 0;  // in its raw file
    int32_t rank = -1;
    // The agent's, as of its last batch.
    uint64_t ring_bytes = 0, ring_bytes_waiting = 0, cupti_buffers = 0;
  };
  [[nodiscard]] Live live() const;
  // As the process itself counts: of its own pid namespace.
  [[nodiscard]] uint32_t pid() const { return state_.session.pid; }

 private:
  SessionPipeline(const v1::Hello& hello, PipelineHooks hooks, std::shared_ptr<Run> run);
  [[nodiscard]] std::string StartNew();
  [[nodiscard]] std::string Replay(bool* is_live);
  [[nodiscard]] bool ReplayFrame(spool::RawFrame* frame);
  void TakeOldState();
  void Append(const spool::RawFrame& frame);
  void TakeHello(const v1::Hello& hello);
  void NoteBegun(const v1::Batch& batch);
  void TellFigures(const v1::Batch& batch);
  void JoinMemory();
  void KeepWithinMemory();
  void TellLetGo();
  void Defer(uint32_t cycle);
  [[nodiscard]] bool WasDeferred(uint32_t cycle) const;
  void TellLosses(const v1::LossReport& report);
  void Throttle(const std::string& reason);
  void Problem(const std::string& line);
  void Keep(const std::string& line);
  void Settle();
  void Dispatch(std::vector<model::Cycle> cycles);
  // Of cycles before `next`.
  void AmendBefore(uint32_t next);
  void AmendAll() { AmendBefore(UINT32_MAX); }
  void AmendReplayed();
  void Amend(model::LaterSteps later);
  void WriteOne(model::Cycle cycle);
  void Record(const model::Cycle& cycle, const CycleOutput& output);
  void AddPending(int64_t bytes);
  void SaveState();
  spool::CycleEntry& EntryOf(uint32_t cycle);
  void Post(std::function<void()> job);
  [[nodiscard]] CyclePlace Place() const;

  PipelineHooks hooks_;
  RunTable* runs_ = nullptr;  // null in recovery
  std::shared_ptr<Run> run_;
  std::unique_ptr<model::CycleBuilder> builder_;
  spool::RawWriter raw_;
  spool::RawFrame hello_frame_;
  DiskGuard disk_;
  uint64_t max_bytes_ = 0;
  std::string visible_devices_;
  std::atomic<bool> said_goodbye_{false};
  std::atomic<Live::State> live_state_{Live::State::kWait};
  std::atomic<uint64_t> live_step_{0};
  std::atomic<uint64_t> live_ring_bytes_{0}, live_ring_waiting_{0}, live_cupti_buffers_{0};
  LossCounts losses_;  // told so far
  bool is_throttled_ = false, is_finished_ = false, knows_end_ = false;
  uint64_t raw_cut_bytes_ = 0;
  std::string last_append_error_;
  std::vector<model::LaterSteps> later_steps_;  // whose cycles are not given yet
  // In a replay: the last cycle that an earlier collector wrote, and what was told of it since.
  std::optional<uint32_t> last_rewritten_;
  std::optional<model::LaterSteps> replayed_later_;

  mutable std::mutex mutex_;  // below: shared with the writing jobs
  std::string session_dir_;
  bool with_pid_ = false, rank_is_final_ = false, had_write_error_ = false;
  spool::SessionState state_;
  size_t pending_cycles_ = 0;
  uint64_t pending_bytes_ = 0;  // what their records need
};

}  // namespace stepagent::ingest
