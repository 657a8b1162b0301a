// What single formats promise beyond the sums that the golden test compares.
#include "collector/writers/folded_profile.h"
#include "collector/writers/writer.h"
#include "gtest/gtest.h"
#include "sqlite3.h"
#include "tests/golden/cycles.h"
#include "tests/unit/collector_writers/support.h"

namespace stepagent::testing {
namespace {

writers::WriteResult Write(const std::string& format, const model::Cycle& cycle,
                           const Folder& folder) {
  return writers::MakeWriter(format)->Write(cycle, {folder.path(), folder.path(), "stem.0", {}});
}

// The first column of the first row.
std::string Ask(const std::string& path, const char* sql) {
  sqlite3* db = nullptr;
  EXPECT_EQ(sqlite3_open_v2(path.c_str(), &db, SQLITE_OPEN_READONLY, nullptr), SQLITE_OK);
  std::string answer;
  const auto keep = [](void* to, int, char** values, char**) {
    *static_cast<std::string*>(to) = values[0] == nullptr ? "NULL" : values[0];
    return 1;
  };
  sqlite3_exec(db, sql, keep, &answer, nullptr);
  sqlite3_close(db);
  return answer;
}

TEST(Formats, KnowTheirNames) {
  for (const std::string_view format : writers::KnownFormats()) {
    EXPECT_EQ(writers::MakeWriter(format)->format(), format);
  }
  EXPECT_EQ(writers::MakeWriter("pdf"), nullptr);
}

TEST(Formats, ReplaceNothingAndLeaveNothing) {
  for (const std::string_view format : writers::KnownFormats()) {
    Folder folder;
    const model::Cycle cycle = GoldenCycle("train");
    const auto first = Write(std::string(format), cycle, folder);
    ASSERT_TRUE(first.ok) << first.error;
    const std::string before = ReadFile(first.files[0].path);
    const size_t count = folder.FileCount();
    const auto second = Write(std::string(format), cycle, folder);
    EXPECT_FALSE(second.ok) << format;
    EXPECT_NE(second.error.find(first.files[0].path), std::string::npos) << second.error;
    EXPECT_EQ(ReadFile(first.files[0].path), before);
    EXPECT_EQ(folder.FileCount(), count) << format;
  }
}

TEST(Formats, SayWhereTheyCannotWrite) {
  for (const std::string_view format : writers::KnownFormats()) {
    const auto result = writers::MakeWriter(format)->Write(
        GoldenCycle("train"), {"/nonexistent/a", "/nonexistent/a", "stem.0", {}});
    EXPECT_FALSE(result.ok);
    EXPECT_NE(result.error.find("/nonexistent/a"), std::string::npos) << result.error;
    EXPECT_NE(result.error.find("No such file"), std::string::npos) << result.error;
  }
}

TEST(Sqlite, KeepsUnknownApartFromZero) {
  Folder folder;
  model::Cycle cycle = GoldenCycle("host_only");
  ASSERT_TRUE(Write("sqlite", cycle, folder).ok);
  const std::string path = folder / "trace.sqlite";
  EXPECT_EQ(Ask(path, "select kernels from STEPAGENT_STEP"), "NULL");
  EXPECT_EQ(Ask(path, "select dropped from STEPAGENT_LOSS where kind = 'kernel'"), "NULL");
  EXPECT_EQ(Ask(path, "select gpuReason from STEPAGENT_CYCLE"), "no driver library in the process");
  EXPECT_EQ(Ask(path, "select count(*) from sqlite_master where name like '%KIND_KERNEL'"), "0");
}

TEST(Sqlite, JoinsWorkToItsCall) {
  Folder folder;
  ASSERT_TRUE(Write("sqlite", GoldenCycle("wide_correlation"), folder).ok);
  EXPECT_EQ(Ask(folder / "trace.sqlite",
                "select count(*) from CUPTI_ACTIVITY_KIND_KERNEL k join CUPTI_ACTIVITY_KIND_RUNTIME"
                " r on r.correlationId = k.correlationId"),
            "2");
}

TEST(Folded, FramesOfAStackComeBeforeRanges) {
  Folder folder;
  CycleMaker m;
  m.AddDevice(0);
  const uint32_t thread = m.Thread(4242, "python");
  m.Step(0, 1000, 9000, thread);
  m.Range("train;step", thread, 1000, 9000);
  const int32_t plain =
      m.Call("cudaLaunchKernel_v7000", model::CallClass::kLaunch, thread, 2000, 2100, 1);
  const int32_t deep =
      m.Call("cudaLaunchKernel_v7000", model::CallClass::kLaunch, thread, 3000, 3100, 2);
  model::Frame leaf, root;
  leaf.module = m.Text("/lib/libfoo.so"), leaf.address = 0x10;
  root.name = m.Text("main");
  m.cycle.stacks.push_back({leaf, root});
  m.cycle.calls[static_cast<size_t>(deep)].stack = 0;
  const uint32_t lane = m.Lane(0, 1, 7), shape = m.Shape("void k<int>(int)");
  m.Kernel(shape, lane, 4000, 5000, plain);
  m.Kernel(shape, lane, 5000, 7000, deep);
  m.Kernel(shape, lane, 7000, 7500, -1);
  ASSERT_TRUE(Write("folded", m.Finish(), folder).ok);
  EXPECT_EQ(ReadFile(folder / "trace.folded"),
            "(launch not seen);k 500\n"
            "main;libfoo.so+0x10;cudaLaunchKernel;k 2000\n"
            "train_step;cudaLaunchKernel;k 1000\n");
  EXPECT_EQ(ReadFile(folder / "trace.api_ns.folded"),
            "main;libfoo.so+0x10;cudaLaunchKernel 100\n"
            "train_step;cudaLaunchKernel 100\n");
}

// Trace files need not tell a copy's size: that is no size of 0.
TEST(Pprof, CopiesOfUnknownSizeAreLeftOutOfTheBytesAndCounted) {
  CycleMaker m;
  m.AddDevice(0);
  const uint32_t thread = m.Thread(4242, "python");
  m.Step(0, 1000, 9000, thread);
  const int32_t call = m.Call("cudaMemcpyAsync", model::CallClass::kMemcpy, thread, 2000, 2100, 1);
  const uint32_t lane = m.Lane(0, 1, 7);
  m.Copy(1, lane, 3000, 3100, 64, call);
  m.Copy(1, lane, 4000, 4100, 0, call);
  model::Cycle cycle = m.Finish();
  for (const bool is_known : {true, false}) {
    const Folder folder;
    cycle.copies.at(1).has_bytes = is_known;
    uint64_t bytes = 0, without_bytes = 0;
    const writers::Profile profile(cycle);
    for (const auto& [key, values] : profile.samples()) {
      bytes += values.bytes;
      without_bytes += values.without_bytes;
    }
    EXPECT_EQ(bytes, 64U);
    EXPECT_EQ(without_bytes, is_known ? 0U : 1U);
    ASSERT_TRUE(Write("pprof", cycle, folder).ok);
    const std::string text = Gunzip(ReadFile(folder / "trace.pb.gz"));
    const size_t said = text.find("bytes: 1 of 2 copies and sets have no known size");
    EXPECT_EQ(said == std::string::npos, is_known);
  }
}

TEST(Perfetto, SaysThatRecordsWereLost) {
  Folder folder;
  model::Cycle cycle = GoldenCycle("train");
  ASSERT_TRUE(Write("perfetto", cycle, folder).ok);
  const std::string whole = ReadFile(folder / "trace.pftrace");
  EXPECT_EQ(whole.find("stepagent.dropped.kernel"), std::string::npos);
  cycle.balance[static_cast<size_t>(model::Activity::kKernel)].dropped = 7;
  Folder second;
  ASSERT_TRUE(Write("perfetto", cycle, second).ok);
  const std::string lossy = ReadFile(second / "trace.pftrace");
  EXPECT_NE(lossy.find("stepagent.dropped.kernel"), std::string::npos);
  // previous_packet_dropped is field 42.
  EXPECT_NE(lossy.find(std::string("\xd0\x02\x01", 3)), std::string::npos);
  EXPECT_EQ(whole.find(std::string("\xd0\x02\x01", 3)), std::string::npos);
}

}  // namespace
}  // namespace stepagent::testing
