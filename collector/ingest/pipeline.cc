#include "collector/ingest/pipeline.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "collector/ingest/cycle_amend.h"
#include "collector/model/batch_head.h"
#include "collector/model/session_info.h"
#include "collector/spool/folders.h"
#include "collector/spool/names.h"
#include "collector/symbols/symbolize.h"
#include "proto/crc32c.h"
#include "proto/visible_devices.h"

namespace stepagent::ingest {
namespace {

constexpr size_t kMaxProblems = 100;

// Relative to the run folder, as files are named in every document of ours.
std::string Relative(const std::string& path, const std::string& run_dir) {
  const std::string prefix = run_dir + "/";
  return path.rfind(prefix, 0) == 0 ? path.substr(prefix.size()) : path;
}

}  // namespace

SessionPipeline::SessionPipeline(const v1::Hello& hello, PipelineHooks hooks,
                                 std::shared_ptr<Run> run)
    : hooks_(std::move(hooks)),
      run_(std::move(run)),
      builder_(std::make_unique<model::CycleBuilder>(hello)),
      disk_(run_->path, hooks_.disk),
      visible_devices_(hello.cuda_visible_devices()) {
  TakeHello(hello);
}

// Who it is stays what it was; what was asked for may change.
void SessionPipeline::TakeHello(const v1::Hello& hello) {
  const std::lock_guard lock(mutex_);
  const model::SessionInfo before = state_.session;
  state_.session = model::SessionFromHello(hello);
  if (!before.id.empty()) {
    state_.session.rank = before.rank;
    state_.session.rank_source = before.rank_source;
  }
  if (state_.session.formats.empty()) state_.session.formats = {"chrome"};
  max_bytes_ = hello.max_bytes();
  state_.rank_conflicts.assign(hello.rank_conflicts().begin(), hello.rank_conflicts().end());
}

void SessionPipeline::OnHello(const spool::RawFrame& frame) {
  v1::Hello hello;
  const bool is_ours =
      hello.ParseFromString(frame.payload) && hello.identity().session() == state_.session.id;
  if (!is_ours || frame.payload == hello_frame_.payload) return;
  hello_frame_ = frame;
  Append(hello_frame_);
  TakeHello(hello);
  builder_->Update(hello);
  SaveState();
}

SessionPipeline::~SessionPipeline() {
  if (hooks_.memory) hooks_.memory->Forget(this);
}

std::string SessionPipeline::Open(RunTable* runs, const std::string& out, const v1::Hello& hello,
                                  const spool::RawFrame& frame, int64_t now_unix_ns,
                                  PipelineHooks hooks, bool* is_held,
                                  std::shared_ptr<SessionPipeline>* pipeline) {
  std::shared_ptr<Run> run;
  std::string error = runs->Find(out, hello.run_dir(), hello.identity().run(), now_unix_ns, &run);
  if (!error.empty()) return error;
  std::shared_ptr<SessionPipeline> made(new SessionPipeline(hello, std::move(hooks), run));
  made->runs_ = runs;
  SessionFolder folder;
  error = runs->Enter(run.get(), &made->state_.session, &folder);
  if (!error.empty()) return error;
  made->session_dir_ = folder.path;
  made->JoinMemory();
  made->with_pid_ = folder.has_duplicate_rank;
  made->state_.rank_holder = folder.rank_holder;
  if (folder.is_resumed) {
    error = made->Replay(is_held);
  } else {
    made->hello_frame_ = frame;
    error = made->StartNew();
  }
  if (!error.empty()) return error;
  if (folder.is_resumed) made->OnHello(frame);
  made->SaveState();
  *pipeline = std::move(made);
  return {};
}

std::string SessionPipeline::StartNew() {
  const std::string path = session_dir_ + "/" + std::string(spool::kRawName);
  std::string error = raw_.Create(path);
  if (!error.empty()) return error;
  Append(hello_frame_);
  return {};
}

void SessionPipeline::Append(const spool::RawFrame& frame) {
  // Without the Hello at its head (the disk was full then) nothing in the file could be read.
  const bool needs_hello = raw_.bytes() == 0 && &frame != &hello_frame_;
  std::string error;
  if (needs_hello) error = raw_.Append(hello_frame_.header, hello_frame_.payload.data());
  if (error.empty()) error = raw_.Append(frame.header, frame.payload.data());
  const std::lock_guard lock(mutex_);
  state_.raw_bytes = raw_.bytes();
  if (error.empty()) {
    run_->bytes += proto::kFrameHeaderBytes + frame.payload.size();
    last_append_error_.clear();
    return;
  }
  ++state_.lost_frames;
  had_write_error_ = true;
  if (hooks_.on_append_error) hooks_.on_append_error(error);
  if (error == last_append_error_) return;  // said already
  last_append_error_ = error;
  if (state_.problems.size() < kMaxProblems) state_.problems.push_back(error);
  if (hooks_.on_problem) hooks_.on_problem(error);
}

void SessionPipeline::Throttle(const std::string& reason) {
  if (is_throttled_ || reason.empty()) return;
  is_throttled_ = true;
  v1::Throttle throttle;
  throttle.set_stop(true);
  throttle.set_reason(reason);
  if (hooks_.on_throttle) hooks_.on_throttle(throttle);
  Problem(reason);
}

void SessionPipeline::Problem(const std::string& line) {
  Keep(line);
  if (hooks_.on_problem) hooks_.on_problem(line);
}

// In session.json, once: a raw file that is read again has the same damage again.
void SessionPipeline::Keep(const std::string& line) {
  const std::lock_guard lock(mutex_);
  const std::vector<std::string>& known = state_.problems;
  if (std::find(known.begin(), known.end(), line) != known.end()) return;
  if (known.size() < kMaxProblems) state_.problems.push_back(line);
}

void SessionPipeline::CountRefused() {
  const std::lock_guard lock(mutex_);
  ++state_.refused_frames;
}

bool SessionPipeline::OnBatch(const spool::RawFrame& frame, int64_t now_ns) {
  model::BatchHead head;
  const v1::Batch& batch = head.fields;
  const bool is_ours =
      model::ReadBatchHead(frame.payload, &head) && batch.identity().session() == state_.session.id;
  if (!is_ours) {
    CountRefused();
    return false;
  }
  Append(frame);
  // A failed append alone stops nothing: the disk may have room again for the next cycle.
  Throttle(disk_.Check(now_ns, run_->bytes, max_bytes_));
  builder_->Add(head, frame.payload);
  if (runs_ != nullptr && batch.contexts_size() + batch.devices_size() > 0) {
    runs_->SetDevice(run_.get(), state_.session.id,
                     proto::PhysicalDevice(builder_->progress().device, visible_devices_));
  }
  NoteBegun(batch);
  TellFigures(batch);
  Dispatch(builder_->TakeClosed());
  AmendAll();
  TellLetGo();
  KeepWithinMemory();
  return true;
}

// session.json tells at once that a cycle is being recorded.
void SessionPipeline::NoteBegun(const v1::Batch& batch) {
  bool has_begun = false;
  for (const auto& event : batch.cycle_events()) {
    if (event.kind() != v1::CycleEvent::ACTIVE_BEGIN) continue;
    const std::lock_guard lock(mutex_);
    EntryOf(event.cycle()).state = "recording";
    has_begun = true;
  }
  if (has_begun) SaveState();
}

bool SessionPipeline::OnGoodbye(const spool::RawFrame& frame) {
  v1::Goodbye goodbye;
  if (!goodbye.ParseFromString(frame.payload)) {
    CountRefused();
    return false;
  }
  Append(frame);
  builder_->Add(goodbye);
  AmendAll();
  TellLosses(goodbye.losses());
  said_goodbye_ = true;
  return true;
}

void SessionPipeline::OnTargetEnded(const v1::TargetEnded& ended) {
  if (is_finished_ || said_goodbye_ || knows_end_) return;
  spool::RawFrame frame;
  frame.payload = ended.SerializeAsString();
  frame.header.type = static_cast<uint8_t>(proto::FrameType::kTargetEnded);
  frame.header.payload_bytes = static_cast<uint32_t>(frame.payload.size());
  frame.header.crc32c = proto::Crc32c(frame.payload.data(), frame.payload.size());
  Append(frame);
  builder_->Add(ended);
  knows_end_ = true;
}

void SessionPipeline::Finish(const std::string& why, std::function<void()> done) {
  if (is_finished_) return;
  is_finished_ = true;
  std::vector<model::Cycle> rest = builder_->TakeRemaining();
  for (model::Cycle& cycle : rest) {
    if (cycle.ended == "killed" && !why.empty() && !knows_end_) cycle.reason = why;
  }
  Dispatch(std::move(rest));
  AmendAll();
  Settle();  // without a cycle, too: the number it held for the time being may be another's
  TellLetGo();
  Post([self = shared_from_this(), done = std::move(done)] {
    {
      const std::lock_guard lock(self->mutex_);
      self->state_.is_open = false;
    }
    self->SaveState();
    self->raw_.Close();
    if (self->hooks_.memory) self->hooks_.memory->Forget(self.get());
    if (done) done();
  });
}

void SessionPipeline::Post(std::function<void()> job) {
  if (hooks_.post_write) {
    hooks_.post_write(std::move(job));
  } else {
    job();
  }
}

void SessionPipeline::Dispatch(std::vector<model::Cycle> cycles) {
  for (model::Cycle& cycle : cycles) {
    AmendBefore(cycle.index);
    if (IsWritten(Place(), cycle.index)) {  // an earlier collector did
      last_rewritten_ = cycle.index;
      continue;
    }
    if (WasDeferred(cycle.index)) continue;
    Settle();
    {
      const std::lock_guard lock(mutex_);
      ++pending_cycles_;
      EntryOf(cycle.index).state = "writing";
    }
    AddPending(static_cast<int64_t>(NeedOf(cycle)));
    auto shared = std::make_shared<model::Cycle>(std::move(cycle));
    Post([self = shared_from_this(), shared] { self->WriteOne(std::move(*shared)); });
  }
}

void SessionPipeline::AmendBefore(uint32_t next) {
  std::vector<model::LaterSteps> told = builder_->TakeLaterSteps();
  later_steps_.insert(later_steps_.end(), std::make_move_iterator(told.begin()),
                      std::make_move_iterator(told.end()));
  std::vector<model::LaterSteps> rest;
  for (model::LaterSteps& later : later_steps_) {
    later.cycle < next ? Amend(std::move(later)) : rest.push_back(std::move(later));
  }
  later_steps_ = std::move(rest);
}

// Whoever wrote a cycle amended it before the next one, so that in a replay only the last can lack
// what was told since.
void SessionPipeline::Amend(model::LaterSteps later) {
  if (last_rewritten_ == later.cycle) {
    replayed_later_ = std::move(later);
    return;
  }
  const auto need = static_cast<int64_t>(later.all_steps.each.size() * sizeof(model::StepDuration));
  AddPending(need);
  auto shared = std::make_shared<model::LaterSteps>(std::move(later));
  Post([self = shared_from_this(), shared, need] {
    const std::string error = AmendCycle(*shared, self->Place());
    if (!error.empty()) self->Problem(error);
    self->AddPending(-need);
  });
}

void SessionPipeline::AmendReplayed() {
  last_rewritten_.reset();
  if (auto later = std::exchange(replayed_later_, std::nullopt)) Amend(*std::move(later));
}

// The first cycle decides the rank of a session that had none, and with it the folder's name.
void SessionPipeline::Settle() {
  if (rank_is_final_ || runs_ == nullptr) return;
  rank_is_final_ = true;
  if (state_.session.rank_source != "assigned") return;
  const int32_t rank = runs_->FinalRank(run_.get(), state_.session);
  if (rank == state_.session.rank) return;
  const std::lock_guard lock(mutex_);
  model::SessionInfo renamed = state_.session;
  renamed.rank = rank;
  const std::string path = run_->path + "/sessions/" + spool::SessionName(renamed);
  const bool is_free = !spool::IsRealFolder(path);
  if (is_free && std::rename(session_dir_.c_str(), path.c_str()) == 0) {
    session_dir_ = path;
    state_.session.rank = rank;
  }
}

void SessionPipeline::WriteOne(model::Cycle cycle) {
  const CyclePlace place = Place();
  WriteFacts facts{.has_duplicate_rank = place.with_pid, .raw_cut_bytes = raw_cut_bytes_};
  {
    const std::lock_guard lock(mutex_);
    facts.rank_holder = state_.rank_holder;
    facts.rank_conflicts = state_.rank_conflicts;
    cycle.session.rank = state_.session.rank;
    cycle.session.rank_source = state_.session.rank_source;
    if (cycle.session.formats.empty()) cycle.session.formats = {"chrome"};
  }
  const auto need = static_cast<int64_t>(NeedOf(cycle));
  AddWriteNotes(facts, &cycle);
  symbols::Symbolize(&cycle);
  RemoveLeftovers(cycle, place);
  const CycleOutput output = hooks_.write_cycle(cycle, place);
  Record(cycle, output);
  AddPending(-need);
  SaveState();
  v1::Written written;
  written.set_cycle(cycle.index);
  written.set_complete(cycle.complete);
  for (const std::string& file : output.files) written.add_files(file);
  written.set_error(output.error);
  if (hooks_.on_written) hooks_.on_written(written);
  if (hooks_.on_cycle) hooks_.on_cycle(cycle, output);
}

void SessionPipeline::Record(const model::Cycle& cycle, const CycleOutput& output) {
  run_->bytes += output.bytes;
  {
    const std::lock_guard lock(mutex_);
    --pending_cycles_;
    spool::CycleEntry& entry = EntryOf(cycle.index);
    entry.state = output.error.empty() ? "written" : "failed";
    entry.ended = cycle.ended;
    entry.complete = cycle.complete;
    entry.error = output.error;
    std::vector<std::string> files;
    for (const std::string& file : output.files) files.push_back(Relative(file, run_->path));
    entry.SetFiles(files);
    had_write_error_ = had_write_error_ || !output.error.empty();
  }
  if (!output.error.empty()) {
    Problem("cycle " + std::to_string(cycle.index) + ": " + output.error);
  }
}

spool::CycleEntry& SessionPipeline::EntryOf(uint32_t cycle) {
  for (auto entry = state_.cycles.rbegin(); entry != state_.cycles.rend(); ++entry) {
    if (entry->index == cycle) return *entry;
  }
  state_.cycles.push_back({.index = cycle});
  return state_.cycles.back();
}

void SessionPipeline::SaveState() {
  const std::lock_guard lock(mutex_);
  state_.has_duplicate_rank = with_pid_;
  const std::string error = spool::WriteSessionJson(state_, session_dir_);
  if (error.empty()) return;
  had_write_error_ = true;
  if (hooks_.on_problem) hooks_.on_problem(error);
}

CyclePlace SessionPipeline::Place() const {
  const std::lock_guard lock(mutex_);
  return {.run_dir = run_->path, .session_dir = session_dir_, .with_pid = with_pid_};
}
bool SessionPipeline::had_write_error() const {
  const std::lock_guard lock(mutex_);
  return had_write_error_;
}
size_t SessionPipeline::pending_cycles() const {
  const std::lock_guard lock(mutex_);
  return pending_cycles_;
}
std::string SessionPipeline::session_dir() const {
  const std::lock_guard lock(mutex_);
  return session_dir_;
}

}  // namespace stepagent::ingest
