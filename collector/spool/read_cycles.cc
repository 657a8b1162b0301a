// ReadCycles: a raw file into cycles, without a folder, a server or a writer.
#include <algorithm>
#include <deque>

#include "session.pb.h"

#include "collector/ingest/run_table.h"
#include "collector/model/batch_head.h"
#include "collector/model/builder.h"
#include "collector/spool/first_hello.h"
#include "collector/spool/raw_file.h"
#include "collector/spool/recover.h"

namespace stepagent::spool {

namespace {

std::string Times(uint64_t n, const char* what) {
  return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
}

}  // namespace

std::vector<std::string> ProblemsOf(const RawReport& report, const std::string& path) {
  std::vector<std::string> lines;
  if (!report.hello_problem.empty()) lines.push_back(report.hello_problem);
  if (report.damaged_frames > 0) {
    lines.push_back(path + ": damaged in " + Times(report.damaged_frames, "place") + ": " +
                    std::to_string(report.damaged_bytes) +
                    " bytes passed over, what they held is lost");
  }
  if (report.foreign_frames > 0) {
    lines.push_back(path + ": " + Times(report.foreign_frames, "frame") +
                    " passed over: with a right checksum, but nothing of this session that can be "
                    "read");
  }
  if (report.cut_bytes > 0) {
    lines.push_back(path + ": " + std::to_string(report.cut_bytes) +
                    " bytes after the last whole frame are lost");
  }
  return lines;
}

void RawReport::Count(const RawReader& reader, const FirstHello& first) {
  hello_problem = first.problem;
  damaged_frames = reader.damaged_frames();
  damaged_bytes = reader.damaged_bytes();
  cut_bytes = reader.cut_bytes();
  if (!first.is_mended) return;
  // What the stretch at the begin held is not lost, and said already.
  const uint64_t bytes = proto::kFrameHeaderBytes + first.payload.size();
  if (damaged_bytes >= bytes) damaged_bytes -= bytes;
  if (damaged_bytes == 0) damaged_frames = 0;
  if (reader.whole_bytes() == 0 && cut_bytes >= bytes) cut_bytes -= bytes;
}

namespace {

// Takes the frames of one session, in order.
class Frames {
 public:
  Frames(const FirstHello& first, const std::string& path,
         const std::function<void(model::Cycle)>& on_cycle, RawReport* report,
         const std::function<void(const model::LaterSteps&)>& on_later)
      : session_(first.hello.identity().session()),
        folder_rank_(ingest::RankInName(path)),
        has_rank_(first.hello.identity().rank() >= 0),
        builder_(first.hello),
        on_cycle_(on_cycle),
        report_(report),
        on_later_(on_later) {}

  void Take(RawFrame frame) {
    ++report_->frames;
    const auto type = static_cast<proto::FrameType>(frame.header.type);
    bool is_ours = true;
    if (type == proto::FrameType::kHello) {
      is_ours = TakeHello(frame.payload);
    } else if (type == proto::FrameType::kBatch) {
      is_ours = TakeBatch(std::move(frame.payload));
    } else if (type == proto::FrameType::kGoodbye) {
      v1::Goodbye goodbye;
      is_ours = goodbye.ParseFromString(frame.payload);
      if (is_ours) builder_.Add(goodbye), report_->said_goodbye = true;
      Give({});
    } else if (type == proto::FrameType::kTargetEnded) {
      v1::TargetEnded ended;
      is_ours = ended.ParseFromString(frame.payload);
      if (is_ours) builder_.Add(ended);
    } else {
      is_ours = false;
    }
    if (!is_ours) ++report_->foreign_frames;
  }
  void End() { Give(builder_.TakeRemaining()); }

 private:
  // One at the head is known; a later one changes settings, no more.
  bool TakeHello(const std::string& payload) {
    v1::Hello hello;
    if (!hello.ParseFromString(payload) || hello.identity().session() != session_) return false;
    has_rank_ = hello.identity().rank() >= 0;
    builder_.Update(hello);
    return true;
  }
  bool TakeBatch(std::string payload) {
    model::BatchHead head;
    if (!model::ReadBatchHead(payload, &head) || head.fields.identity().session() != session_) {
      return false;
    }
    builder_.Add(head, std::move(payload));
    Give(builder_.TakeClosed());
    return true;
  }
  void Give(std::vector<model::Cycle> cycles) {
    for (model::Cycle& cycle : cycles) {
      if (!has_rank_) cycle.session.rank = std::max(folder_rank_, 0);
      if (!has_rank_) cycle.session.rank_source = "assigned";
      TellBefore(cycle.index);
      on_cycle_(std::move(cycle));
    }
    TellBefore(UINT32_MAX);
  }
  void TellBefore(uint32_t next) {
    for (model::LaterSteps& later : builder_.TakeLaterSteps()) later_.push_back(std::move(later));
    while (!later_.empty() && later_.front().cycle < next) {
      if (on_later_) on_later_(later_.front());
      later_.pop_front();
    }
  }

  const std::string session_;
  const int32_t folder_rank_;
  bool has_rank_;
  model::CycleBuilder builder_;
  const std::function<void(model::Cycle)>& on_cycle_;
  RawReport* report_;
  const std::function<void(const model::LaterSteps&)>& on_later_;
  std::deque<model::LaterSteps> later_;  // whose cycles are not given yet
};

}  // namespace

std::string ReadCycles(const std::string& raw_path,
                       const std::function<void(model::Cycle)>& on_cycle, RawReport* report,
                       const std::function<void(const model::LaterSteps&)>& on_later) {
  FirstHello first;
  std::string error = FindHello(raw_path, &first);
  if (!error.empty()) return error;
  RawReader reader;
  error = reader.Open(raw_path);
  if (!error.empty()) return error;
  RawFrame frame;
  Frames frames(first, raw_path, on_cycle, report, on_later);
  while (reader.Next(&frame)) {
    // A Hello whose header calls it something else was read already.
    if (reader.frame_at() != 0 || !first.is_mended) frames.Take(std::move(frame));
  }
  report->Count(reader, first);
  frames.End();
  return {};
}

}  // namespace stepagent::spool
