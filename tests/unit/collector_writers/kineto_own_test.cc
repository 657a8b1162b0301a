// What a trace file does not tell of a recording, and what our own files tell of it.
#include <sqlite3.h>

#include "collector/analysis/kineto_reader.h"
#include "collector/analysis/readings.h"
#include "collector/analysis/summary.h"
#include "collector/writers/manifest.h"
#include "collector/writers/writer.h"
#include "tests/golden/cycles.h"
#include "tests/unit/collector_writers/support.h"

namespace stepagent::analysis {
namespace {

using Json = nlohmann::ordered_json;
using ::stepagent::testing::CycleMaker;
using ::stepagent::testing::Folder;
using ::stepagent::testing::GoldenCycle;

constexpr const char* kForeign = R"({"traceEvents":[
{"ph":"X","cat":"user_annotation","name":"ProfilerStep#7","pid":9,"tid":7,"ts":0,"dur":1000},
{"ph":"X","cat":"cuda_driver","name":"cuModuleLoadData","pid":9,"tid":7,"ts":10,"dur":200,"args":{}},
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":9,"tid":7,"ts":300,"dur":5,
 "args":{"correlation":3}},
{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":310,"dur":500,
 "args":{"device":0,"stream":7,"correlation":3}}%s]})";

KinetoReadResult ReadText(const Folder& folder, const std::string& text) {
  std::ofstream(folder / "in.json", std::ios::binary) << text;
  return ReadKinetoFile(folder / "in.json");
}

std::string Foreign(const std::string& more = "") {
  std::string text = kForeign;
  return text.replace(text.find("%s"), 2, more);
}

std::string NoteOf(const model::Cycle& cycle, const std::string& code) {
  for (const model::Note& note : cycle.notes) {
    if (note.code == code) return note.text;
  }
  return "";
}

// The cycle's Chrome file, or the one of its parts, read back.
std::vector<KinetoReadResult> ReadBack(const model::Cycle& cycle) {
  const Folder folder;
  std::filesystem::create_directory(folder / "t");
  const auto written =
      writers::MakeWriter("chrome")->Write(cycle, {folder / "t", folder.path(), "out.0", {}});
  EXPECT_TRUE(written.ok) << written.error;
  std::vector<KinetoReadResult> parts;
  for (const writers::WrittenFile& file : written.files) {
    parts.push_back(ReadKinetoFile(file.path));
    EXPECT_TRUE(parts.back().ok) << parts.back().error;
    EXPECT_TRUE(parts.back().problems.empty()) << parts.back().problems.front();
  }
  return parts;
}

// One value of the first row of a table; "NULL" where it is NULL.
std::string Ask(const std::string& path, const std::string& column, const std::string& table) {
  sqlite3* db = nullptr;
  EXPECT_EQ(sqlite3_open_v2(path.c_str(), &db, SQLITE_OPEN_READONLY, nullptr), SQLITE_OK);
  sqlite3_stmt* statement = nullptr;
  const std::string sql = "SELECT " + column + " FROM " + table;
  EXPECT_EQ(sqlite3_prepare_v2(db, sql.c_str(), -1, &statement, nullptr), SQLITE_OK) << sql;
  EXPECT_EQ(sqlite3_step(statement), SQLITE_ROW) << sql;
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement, 0));
  std::string out = text == nullptr ? "NULL" : text;
  sqlite3_finalize(statement);
  sqlite3_close(db);
  return out;
}

TEST(ForeignKineto, WhatNobodyToldIsNullAndSaidOnce) {
  const Folder folder;
  const KinetoReadResult read = ReadText(folder, Foreign());
  ASSERT_TRUE(read.ok) << read.error;
  const Json summary = Summarize(read.cycle);
  for (const char* key : {"complete", "ended", "reason"}) {
    EXPECT_TRUE(summary.at("cycle").at(key).is_null()) << key;
  }
  for (const char* key : {"id", "run", "host", "rank", "rank_source", "agent_version"}) {
    EXPECT_TRUE(summary.at("session").at(key).is_null()) << key;
  }
  const Json& step = summary.at("steps").at("each").at(0);
  for (const char* key : {"complete", "contains_tracer_start", "partial"}) {
    EXPECT_TRUE(step.at(key).is_null()) << key;
  }
  EXPECT_EQ(summary.at("steps").at("counted"), 1) << "not known is no fault of the step's";
  EXPECT_TRUE(summary.at("streams").at(0).at("context").is_null());
  EXPECT_TRUE(summary.at("launches").at("queues").at(0).at("context").is_null());
  for (const char* group : {"before", "after"}) {
    EXPECT_EQ(summary.at("cost").at(group).at("reason"),
              "not measured: a Kineto file holds recorded steps only");
  }
  const std::string text = RenderSummaryText(summary, {});
  EXPECT_EQ(text.find("INCOMPLETE"), std::string::npos) << text;
  const size_t said = text.find("not in a Kineto file");
  EXPECT_NE(said, std::string::npos) << text;
  EXPECT_EQ(text.find("not in a Kineto file", said + 1), std::string::npos) << text;
}

TEST(ForeignKineto, AFileThatIsNotWholeIsNotComplete) {
  const Folder folder;
  const std::string whole = Foreign();
  const KinetoReadResult read = ReadText(folder, whole.substr(0, whole.size() - 2));
  ASSERT_TRUE(read.ok) << read.error;
  const Json cycle = Summarize(read.cycle).at("cycle");
  EXPECT_EQ(cycle.at("complete"), false);
  EXPECT_EQ(cycle.at("ended"), "error");
}

TEST(ForeignKineto, ConvertedItHasNullAndNoEmptyText) {
  const Folder folder;
  const KinetoReadResult read = ReadText(folder, Foreign());
  const auto sqlite =
      writers::MakeWriter("sqlite")->Write(read.cycle, {folder.path(), folder.path(), "out.0", {}});
  ASSERT_TRUE(sqlite.ok) << sqlite.error;
  const std::string path = sqlite.files.at(0).path;
  for (const char* column : {"session", "run", "host", "complete", "ended", "reason", "gpuReason",
                             "graphLevel", "stepSource", "rank"}) {
    EXPECT_EQ(Ask(path, column, "STEPAGENT_CYCLE"), "NULL") << column;
  }
  EXPECT_EQ(Ask(path, "pid", "STEPAGENT_CYCLE"), "9");
  for (const char* column : {"complete", "containsTracerStart", "partial"}) {
    EXPECT_EQ(Ask(path, column, "STEPAGENT_STEP"), "NULL") << column;
  }
  EXPECT_EQ(Ask(path, "contextId", "CUPTI_ACTIVITY_KIND_KERNEL"), "NULL");
  EXPECT_EQ(Ask(path, "count(*)", "STEPAGENT_CYCLE WHERE ended = '' OR run = ''"), "0");
  const auto chrome =
      writers::MakeWriter("chrome")->Write(read.cycle, {folder.path(), folder.path(), "out.0", {}});
  const Json own = testing::ParseGzip(chrome.files.at(0).path).at("stepagent");
  for (const char* key : {"complete", "ended", "version", "run", "session", "graph_level"}) {
    EXPECT_FALSE(own.contains(key)) << key;
  }
}

TEST(ForeignKineto, ModulesThatLoadAreSeenByTheirCalls) {
  const Folder folder;
  const Json readings = Summarize(ReadText(folder, Foreign()).cycle).at("readings");
  ASSERT_FALSE(readings.empty());
  const auto loads = std::find_if(readings.begin(), readings.end(), [](const Json& reading) {
    return reading.at("id") == "steps_not_steady";
  });
  ASSERT_NE(loads, readings.end()) << readings;
  EXPECT_EQ(loads->at("evidence").at("loading_ns"), 200'000);
  EXPECT_EQ(loads->at("evidence").at("where").at("row"), "calls, thread 7");
  // Rows of CUPTI's own word say it better, and are not added to.
  const std::string row =
      R"(,{"ph":"X","cat":"overhead","name":"Lazy Function Loading","pid":-1,"tid":7,"ts":20,"dur":150})";
  const KinetoReadResult told = ReadText(folder, Foreign(row));
  EXPECT_TRUE(told.problems.empty());
  ASSERT_EQ(told.cycle.overheads.size(), 1U);
  const Json summary = Summarize(told.cycle);
  for (const Json& reading : summary.at("readings")) {
    if (reading.at("id") == "steps_not_steady") {
      EXPECT_EQ(reading.at("evidence").at("loading_ns"), 150'000);
    }
  }
}

TEST(OwnChrome, WhatItsHeadHoldsIsReadBack) {
  model::Cycle cycle = GoldenCycle("train");
  cycle.index = 3;
  cycle.session.labels = {{"batch", "64"}, {"mode", "a; b: c"}};
  cycle.session.agent_version = "1.2.3+4";
  cycle.session.step_source = "nvtx:train_step";
  cycle.gpu.graph_level = "node";
  cycle.complete = false, cycle.ended = "request", cycle.reason = "asked; for";
  cycle.notes = {{"unclosed_ranges", "2 ranges; one of them: long"}, {"lost_batches", "one; two"}};
  cycle.steps[1].partial = true, cycle.steps[0].contains_tracer_start = true;
  const model::Cycle read = ReadBack(cycle).at(0).cycle;
  EXPECT_EQ(read.index, 3U);
  EXPECT_EQ(read.session.labels, cycle.session.labels);
  EXPECT_EQ(read.session.agent_version, "1.2.3+4");
  EXPECT_EQ(read.session.step_source, "nvtx:train_step");
  EXPECT_EQ(read.session.id, cycle.session.id);
  EXPECT_EQ(read.session.run, cycle.session.run);
  EXPECT_EQ(read.gpu.graph_level, "node");
  EXPECT_EQ(read.gpu.driver_version, cycle.gpu.driver_version);
  EXPECT_FALSE(read.complete);
  EXPECT_EQ(read.ended, "request");
  EXPECT_EQ(read.reason, "asked; for");
  EXPECT_EQ(NoteOf(read, "unclosed_ranges"), "2 ranges; one of them: long");
  EXPECT_EQ(NoteOf(read, "lost_batches"), "one; two");
  EXPECT_EQ(NoteOf(read, "not_in_a_kineto_file"), "");
  EXPECT_NE(NoteOf(read, "read_from_a_trace_file"), "");
  ASSERT_EQ(read.steps.size(), cycle.steps.size());
  for (size_t i = 0; i < cycle.steps.size(); ++i) {
    EXPECT_EQ(read.steps[i].process_index, cycle.steps[i].process_index);
    EXPECT_EQ(read.steps[i].partial, cycle.steps[i].partial);
    EXPECT_EQ(read.steps[i].contains_tracer_start, cycle.steps[i].contains_tracer_start);
  }
  const std::string text = RenderSummaryText(read, 8);
  EXPECT_NE(text.find("cycle 3\n"), std::string::npos) << text;
  EXPECT_NE(text.find("batch=64"), std::string::npos) << text;
  // And once more: nothing is lost on the way.
  model::Cycle again = ReadBack(read).at(0).cycle;
  EXPECT_EQ(again.session.labels, cycle.session.labels);
  EXPECT_EQ(again.ended, "request");
}

TEST(OwnChrome, ARangeKeepsItsDomain) {
  CycleMaker m;
  const uint32_t thread = m.Thread(100, "main");
  m.Step(0, 1'000'000, 2'000'000, thread);
  m.Range("forward", thread, 1'100'000, 1'900'000, "my domain");
  m.cycle.ranges.back().cut_at_end = true;
  const model::Cycle read = ReadBack(m.Finish()).at(0).cycle;
  ASSERT_EQ(read.ranges.size(), 1U);
  EXPECT_EQ(read.Text(read.ranges[0].domain), "my domain");
  EXPECT_TRUE(read.ranges[0].cut_at_end);
  EXPECT_FALSE(read.ranges[0].cut_at_begin);
}

TEST(OwnChrome, OfATraceInPartsThePartIsNamed) {
  CycleMaker m;
  m.AddDevice(0);
  const uint32_t thread = m.Thread(100, "main"), lane = m.Lane(0, 1, 7), shape = m.Shape("k");
  uint32_t correlation = 0;
  for (int step = 0; step < 6; ++step) {
    const model::TimeNs at = 1'000'000 + step * 1'000'000;
    m.Step(static_cast<uint64_t>(step), at, at + 900'000, thread);
    for (int k = 0; k < 20; ++k) {
      const int32_t call = m.Call("cudaLaunchKernel", model::CallClass::kLaunch, thread,
                                  at + 1000 * k, at + 1000 * k + 500, ++correlation);
      m.Kernel(shape, lane, at + 100'000 + 1000 * k, at + 100'900 + 1000 * k, call);
    }
  }
  model::Cycle cycle = m.Finish();
  cycle.session.settings["max-trace-bytes"] = "60000";
  cycle.session.formats = {"chrome"};
  cycle.complete = true, cycle.ended = "schedule";
  const std::vector<KinetoReadResult> parts = ReadBack(cycle);
  ASSERT_GT(parts.size(), 1U);
  size_t steps = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Json summary = Summarize(parts[i].cycle);
    EXPECT_EQ(summary.at("cycle").at("part").at("number"), i + 1);
    EXPECT_EQ(summary.at("cycle").at("part").at("of"), parts.size());
    EXPECT_EQ(summary.at("cycle").at("complete"), true);
    const Json& each = summary.at("steps").at("each");
    ASSERT_FALSE(each.empty());
    steps += each.size();
    const std::string text = RenderSummaryText(summary, {});
    const std::string named = ", part " + std::to_string(i + 1) + " of " +
                              std::to_string(parts.size()) + " (steps " +
                              each.front().at("index").dump() + " to " +
                              each.back().at("index").dump() + ")\n";
    EXPECT_NE(text.find(named), std::string::npos) << named << text;
  }
  EXPECT_EQ(steps, 6U);
}

TEST(OwnChrome, AHostOnlyFileSaysWhy) {
  const model::Cycle cycle = GoldenCycle("host_only");
  const model::Cycle read = ReadBack(cycle).at(0).cycle;
  EXPECT_EQ(read.gpu.status, "unavailable");
  EXPECT_EQ(read.gpu.reason, cycle.gpu.reason);
}

// Somebody's hands: what is there is taken, and nothing else is made up.
TEST(OwnChrome, AChangedHeadIsTakenAsFarAsItIsReadable) {
  const Folder folder;
  std::string text = Foreign();
  text.replace(0, 1, R"({"stepagent":{"cycle":99999999999,"complete":3,"notes":"trace_part: part x of","gpu_status":"?"},)");
  const KinetoReadResult read = ReadText(folder, text);
  ASSERT_TRUE(read.ok) << read.error;
  const Json summary = Summarize(read.cycle);
  EXPECT_TRUE(summary.at("cycle").at("ended").is_null());
  EXPECT_TRUE(summary.at("cycle").at("complete").is_null());
  EXPECT_FALSE(summary.at("cycle").contains("part"));
  EXPECT_EQ(summary.at("gpu").at("status"), "collected");
}

}  // namespace
}  // namespace stepagent::analysis
