// The half of SessionPipeline that begins with a raw file instead of a connection.
#include <algorithm>

#include "collector/ingest/pipeline.h"
#include "collector/ingest/recovery_state.h"
#include "collector/model/batch_head.h"
#include "collector/spool/first_hello.h"
#include "collector/spool/folders.h"
#include "collector/spool/names.h"
#include "collector/spool/recover.h"

namespace stepagent::ingest {

std::string SessionPipeline::Recover(const std::string& session_dir, PipelineHooks hooks,
                                     bool* is_live, std::shared_ptr<SessionPipeline>* pipeline) {
  const std::string raw = session_dir + "/" + std::string(spool::kRawName);
  spool::FirstHello first;
  std::string error = spool::FindHello(raw, &first);
  if (!error.empty()) return error;
  auto run = std::make_shared<Run>();
  const size_t slash = session_dir.rfind("/sessions/");
  run->path = slash == std::string::npos ? session_dir : session_dir.substr(0, slash);
  run->name = run->path.substr(run->path.rfind('/') + 1);
  std::shared_ptr<SessionPipeline> made(new SessionPipeline(first.hello, std::move(hooks), run));
  made->session_dir_ = session_dir;
  error = made->Replay(is_live);
  if (!error.empty()) return error;
  *pipeline = std::move(made);
  return {};
}

// What an earlier collector decided stays so: rank, name, cycles written.
void SessionPipeline::TakeOldState() {
  const OldState old = ReadOldState(session_dir_);
  if (state_.session.rank < 0) {
    state_.session.rank = std::max(RankInName(session_dir_), 0);
    state_.session.rank_source = "assigned";
  }
  rank_is_final_ = true;
  // A number that was its for the time being only, when its collector died, may be another's.
  const bool has_twin =
      state_.session.rank_source == "assigned" && HasRankTwin(session_dir_, state_.session);
  with_pid_ = old.has_duplicate_rank || has_twin || with_pid_;
  state_.rank_holder = old.rank_holder;
  state_.cycles = old.cycles;
  state_.problems = old.problems;
}

std::string SessionPipeline::Replay(bool* is_live) {
  const std::string path = session_dir_ + "/" + std::string(spool::kRawName);
  std::string error = raw_.Resume(path, is_live);
  if (!error.empty()) return error;
  TakeOldState();
  spool::FirstHello first;
  error = spool::FindHello(path, &first);
  // A file of which nothing can be read is gone on with at its head.
  if (error.empty() && first.hello.identity().session() != state_.session.id) {
    return path + ": belongs to another session";
  }
  spool::RawReader reader;
  error = reader.Open(path);
  if (!error.empty()) return error;
  spool::RawFrame frame;
  spool::RawReport report;
  while (reader.Next(&frame)) {
    const bool was_read = reader.frame_at() == 0 && first.is_mended;
    if (!was_read && !ReplayFrame(&frame)) ++report.foreign_frames;
  }
  AmendReplayed();
  report.Count(reader, first);
  raw_cut_bytes_ = reader.cut_bytes();
  // What is cut off here is gone from the file: session.json alone says so from now on. A collector
  // that goes on after a kill has it mostly, and need not say so at once.
  spool::RawReport cut;
  std::swap(cut.cut_bytes, report.cut_bytes);
  for (const std::string& line : spool::ProblemsOf(cut, path)) Keep(line);
  for (const std::string& line : spool::ProblemsOf(report, path)) Problem(line);
  raw_.CutAt(reader.whole_bytes());
  state_.raw_bytes = reader.whole_bytes();
  run_->bytes += reader.whole_bytes();
  return {};
}

// False: nothing of this session's that can be read.
bool SessionPipeline::ReplayFrame(spool::RawFrame* frame) {
  const auto type = static_cast<proto::FrameType>(frame->header.type);
  if (type == proto::FrameType::kBatch) {
    model::BatchHead head;
    if (!model::ReadBatchHead(frame->payload, &head) ||
        head.fields.identity().session() != state_.session.id) {
      return false;
    }
    builder_->Add(head, std::move(frame->payload));
    losses_.Raise(head.fields.losses());  // an earlier collector counted them
    Dispatch(builder_->TakeClosed());
    AmendAll();
    TellLetGo();
    KeepWithinMemory();
    return true;
  }
  if (type == proto::FrameType::kGoodbye) {
    v1::Goodbye goodbye;
    if (!goodbye.ParseFromString(frame->payload)) return false;
    builder_->Add(goodbye), said_goodbye_ = true;
    AmendAll();
    return true;
  }
  if (type == proto::FrameType::kTargetEnded) {
    v1::TargetEnded ended;
    if (!ended.ParseFromString(frame->payload)) return false;
    builder_->Add(ended), knows_end_ = true;
    return true;
  }
  v1::Hello hello;
  const bool is_ours = type == proto::FrameType::kHello && hello.ParseFromString(frame->payload) &&
                       hello.identity().session() == state_.session.id;
  if (!is_ours) return false;
  hello_frame_ = *frame;
  TakeHello(hello);
  builder_->Update(hello);
  return true;
}

}  // namespace stepagent::ingest
