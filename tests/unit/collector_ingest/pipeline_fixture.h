#pragma once
// An agent's end of a session pipeline, for tests.
//
// Thread rule: one owner. Failure rule: what the pipeline says is kept.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "collector/ingest/frame_reader.h"
#include "collector/ingest/pipeline.h"
#include "tests/support/batch_factory.h"
#include "tests/unit/collector_ingest/temporary_folder.h"

namespace stepagent::ingest {

namespace fs = std::filesystem;
using test::BatchFactory;
using test::ReadFile;
using test::TemporaryFolder;

inline constexpr int64_t kMs = 1'000'000;
inline constexpr int64_t kNow = 1'767'323'045'000'000'000;  // 2026-01-02T03:04:05Z

inline spool::RawFrame ToFrame(const std::string& bytes) {
  FrameReader reader;
  reader.Feed(bytes.data(), bytes.size());
  spool::RawFrame frame;
  EXPECT_EQ(reader.Next(&frame), FrameReader::Result::kFrame);
  return frame;
}

struct Agent {
  std::shared_ptr<SessionPipeline> pipeline;
  std::vector<v1::Written> written;
  std::vector<std::string> throttles, problems;

  std::string Open(RunTable* runs, const std::string& out, const BatchFactory& factory,
                   DiskGuard::Probe disk = SpaceOf) {
    PipelineHooks hooks;
    hooks.on_written = [this](const v1::Written& w) { written.push_back(w); };
    hooks.on_throttle = [this](const v1::Throttle& t) { throttles.push_back(t.reason()); };
    hooks.on_problem = [this](const std::string& line) { problems.push_back(line); };
    hooks.disk = std::move(disk);
    bool is_held = false;
    return SessionPipeline::Open(runs, out, factory.Hello(), ToFrame(factory.HelloFrame()), kNow,
                                 std::move(hooks), &is_held, &pipeline);
  }
  void Feed(const std::string& bytes) { EXPECT_TRUE(pipeline->OnBatch(ToFrame(bytes), kNow)); }
};

inline std::vector<std::string> FilesBelow(const std::string& path) {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(path)) {
    if (entry.is_regular_file()) names.push_back(fs::relative(entry.path(), path).string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

inline nlohmann::json ReadJson(const std::string& path) {
  return nlohmann::json::parse(ReadFile(path));
}

}  // namespace stepagent::ingest
