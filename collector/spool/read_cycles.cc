// ReadCycles: a raw file into cycles, without a folder, a server or a writer.
#include <algorithm>
#include <memory>

#include "session.pb.h"

#include "collector/ingest/run_table.h"
#include "collector/model/batch_head.h"
#include "collector/model/builder.h"
#include "collector/spool/raw_file.h"
#include "collector/spool/recover.h"

namespace stepagent::spool {

std::vector<std::string> ProblemsOf(const RawReport& report, const std::string& path) {
  std::vector<std::string> lines;
  if (report.damaged_frames > 0) {
    lines.push_back(path + ": damaged in " + std::to_string(report.damaged_frames) +
                    (report.damaged_frames == 1 ? " place: " : " places: ") +
                    std::to_string(report.damaged_bytes) + " bytes passed over, what they held is lost");
  }
  if (report.cut_bytes > 0) {
    lines.push_back(path + ": " + std::to_string(report.cut_bytes) +
                    " bytes after the last whole frame are lost");
  }
  return lines;
}

std::string ReadCycles(const std::string& raw_path,
                       const std::function<void(model::Cycle)>& on_cycle, RawReport* report) {
  RawReader reader;
  std::string error = reader.Open(raw_path);
  if (!error.empty()) return error;
  RawFrame frame;
  std::unique_ptr<model::CycleBuilder> builder;
  const int32_t folder_rank = ingest::RankInName(raw_path);
  bool has_rank = true;
  const auto give = [&](std::vector<model::Cycle> cycles) {
    for (model::Cycle& cycle : cycles) {
      if (!has_rank) cycle.session.rank = std::max(folder_rank, 0);
      if (!has_rank) cycle.session.rank_source = "assigned";
      on_cycle(std::move(cycle));
    }
  };
  while (reader.Next(&frame)) {
    ++report->frames;
    const auto type = static_cast<proto::FrameType>(frame.header.type);
    if (type == proto::FrameType::kHello) {
      v1::Hello hello;
      const bool is_readable = hello.ParseFromString(frame.payload);
      if (!is_readable && builder == nullptr) return raw_path + ": its Hello is not readable";
      if (!is_readable) continue;  // a later one changes settings, no more
      has_rank = hello.identity().rank() >= 0;
      if (builder != nullptr) builder->Update(hello);
      if (builder == nullptr) builder = std::make_unique<model::CycleBuilder>(hello);
    } else if (type == proto::FrameType::kBatch && builder != nullptr) {
      model::BatchHead head;
      if (!model::ReadBatchHead(frame.payload, &head)) continue;
      builder->Add(head, std::move(frame.payload));
      give(builder->TakeClosed());
    } else if (type == proto::FrameType::kGoodbye && builder != nullptr) {
      v1::Goodbye goodbye;
      if (!goodbye.ParseFromString(frame.payload)) continue;
      builder->Add(goodbye);
      report->said_goodbye = true;
    } else if (type == proto::FrameType::kTargetEnded && builder != nullptr) {
      v1::TargetEnded ended;
      if (ended.ParseFromString(frame.payload)) builder->Add(ended);
    }
  }
  report->damaged_frames = reader.damaged_frames();
  report->damaged_bytes = reader.damaged_bytes();
  report->cut_bytes = reader.cut_bytes();
  if (builder == nullptr) return raw_path + ": does not begin with a session's Hello";
  give(builder->TakeRemaining());
  return {};
}

}  // namespace stepagent::spool
