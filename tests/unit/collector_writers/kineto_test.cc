// Kineto files as the world writes them: absent arguments, impossible values, several processes,
// numbers used twice, broken gzip and broken text.
#include <zlib.h>

#include <set>

#include "collector/analysis/kineto_reader.h"
#include "collector/analysis/summary.h"
#include "collector/writers/writer.h"
#include "tests/unit/collector_writers/support.h"

namespace stepagent::analysis {
namespace {

using Json = nlohmann::ordered_json;
using ::stepagent::testing::Folder;

std::string Row(const std::string& cat, const std::string& name, int pid, int ts, int dur,
                const std::string& args) {
  return R"({"ph":"X","cat":")" + cat + R"(","name":")" + name + R"(","pid":)" +
         std::to_string(pid) + R"(,"tid":7,"ts":)" + std::to_string(ts) + R"(,"dur":)" +
         std::to_string(dur) + R"(,"args":{)" + args + "}}";
}

const std::string kPlace = R"("device":0,"context":1,"stream":7,)";

std::string Document(const std::vector<std::string>& rows, const std::string& head = "") {
  std::string out = "{" + head + R"("traceEvents":[)";
  for (size_t i = 0; i < rows.size(); ++i) out += (i == 0 ? "" : ",\n") + rows[i];
  return out + "]}";
}

KinetoReadResult Read(const Folder& folder, const std::string& text) {
  std::ofstream(folder / "in.json", std::ios::binary) << text;
  return ReadKinetoFile(folder / "in.json");
}

std::string Zip(const std::string& text) {
  z_stream z{};
  EXPECT_EQ(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&z, text.size()) + 64, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  z.avail_in = static_cast<uInt>(text.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data()), z.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&z, Z_FINISH), Z_STREAM_END);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

std::string NoteOf(const model::Cycle& cycle, const std::string& code) {
  for (const model::Note& note : cycle.notes) {
    if (note.code == code) return note.text;
  }
  return "";
}

bool Tells(const KinetoReadResult& read, const std::string& part) {
  return std::any_of(read.problems.begin(), read.problems.end(), [&](const std::string& line) {
    return line.find(part) != std::string::npos;
  });
}

// The rows of a converted file, by category.
Json Converted(const Folder& folder, const model::Cycle& cycle, const std::string& cat) {
  const auto written =
      writers::MakeWriter("chrome")->Write(cycle, {folder.path(), folder.path(), "out.0", {}});
  EXPECT_TRUE(written.ok) << written.error;
  const Json document = testing::ParseGzip(written.files.at(0).path);
  for (const Json& row : document.at("traceEvents")) {
    if (row.value("cat", "") == cat) return row;
  }
  return nullptr;
}

TEST(Kineto, WhatARowDoesNotTellIsNotMadeUpInAConvertedFile) {
  const Folder folder;
  const KinetoReadResult read =
      Read(folder, Document({Row("cuda_runtime", "cudaLaunchKernel", 9, 100, 5, ""),
                             Row("kernel", "k", 0, 110, 5, R"("device":0,"stream":7)"),
                             Row("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 0, 120, 5,
                                 R"("device":0,"stream":7)"),
                             Row("gpu_memset", "Memset (Device)", 0, 130, 5,
                                 R"("device":0,"stream":7)")}));
  ASSERT_TRUE(read.ok) << read.error;
  EXPECT_TRUE(read.problems.empty()) << read.problems.front();
  const Folder out;
  const Json kernel = Converted(out, read.cycle, "kernel").at("args");
  for (const char* key : {"grid", "block", "registers per thread", "shared memory", "context",
                          "correlation", "est. achieved occupancy %"}) {
    EXPECT_FALSE(kernel.contains(key)) << key;
  }
  EXPECT_EQ(kernel.at("stream"), 7);
  for (const char* cat : {"gpu_memcpy", "gpu_memset"}) {
    const Json args = Converted(Folder(), read.cycle, cat).at("args");
    EXPECT_FALSE(args.contains("bytes")) << cat;
    EXPECT_FALSE(args.contains("memory bandwidth (GB/s)")) << cat;
  }
  const Json call = Converted(Folder(), read.cycle, "cuda_runtime");
  EXPECT_FALSE(call.at("args").contains("correlation"));
  EXPECT_FALSE(call.at("args").contains("cbid"));
  const Json summary = Summarize(read.cycle);
  EXPECT_TRUE(summary.at("copies").at(0).at("bytes").is_null());
  EXPECT_TRUE(summary.at("sets").at(0).at("bytes").is_null());
  EXPECT_EQ(RenderSummaryText(summary, {}).find("0 B"), std::string::npos);
}

TEST(Kineto, WhatARowTellsIsKept) {
  const Folder folder;
  const KinetoReadResult read = Read(
      folder, Document({Row("kernel", "k", 0, 110, 5,
                            kPlace + R"("correlation":5,"grid":[0,1,1],"block":[128,1,1],)"
                                     R"("registers per thread":0,"shared memory":0)")}));
  const Json kernel = Converted(folder, read.cycle, "kernel").at("args");
  EXPECT_EQ(kernel.at("grid"), Json::array({0, 1, 1}));
  EXPECT_EQ(kernel.at("registers per thread"), 0);
  EXPECT_EQ(kernel.at("shared memory"), 0);
  EXPECT_EQ(kernel.at("context"), 1);
  EXPECT_EQ(kernel.at("correlation"), 5);
}

TEST(Kineto, ImpossibleValuesAreRefusedByName) {
  const Folder folder;
  const KinetoReadResult read = Read(
      folder,
      Document({Row("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 0, 100, 5,
                    kPlace + R"("correlation":1,"bytes":-5)"),
                Row("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 0, 110, 5,
                    kPlace + R"("correlation":2,"bytes":-6)"),
                Row("kernel", "far", 0, 120, 5,
                    R"("device":99999999,"context":1,"stream":7,"correlation":3)"),
                Row("kernel", "near", 0, 130, 5, kPlace + R"("correlation":4,"grid":[1,-1,1])")},
               R"("distributedInfo":{"rank":9,"world_size":8},)"));
  ASSERT_TRUE(read.ok) << read.error;
  EXPECT_TRUE(Tells(read, R"(row 1 (Memcpy HtoD (Pageable -> Device)): "bytes" is -5, allowed: 0 )"
                          "or more; the value is left out; 1 more like it"));
  EXPECT_TRUE(Tells(
      read, R"(row 3 (far): "device" is 99999999, allowed: 0 to 1023; the row is left out)"));
  EXPECT_TRUE(Tells(read, R"(row 4 (near): "grid" is -1)"));
  EXPECT_TRUE(Tells(read, R"(distributedInfo: "rank" is 9, allowed: 0 to 7; it is taken as it is)"));
  EXPECT_EQ(read.problems.size(), 4U);
  EXPECT_EQ(read.cycle.session.rank, 9);  // else two of them could not be told apart
  EXPECT_EQ(read.cycle.session.world_size, 8);
  ASSERT_EQ(read.cycle.kernels.size(), 1U);
  EXPECT_FALSE(read.cycle.shapes.at(read.cycle.kernels[0].shape).has_grid);
  EXPECT_TRUE(Summarize(read.cycle).at("copies").at(0).at("bytes").is_null());
  EXPECT_TRUE(
      Tells(Read(folder, Document({Row("kernel", "k", 0, 1, 1, kPlace + R"("correlation":1)")},
                                  R"("distributedInfo":{"rank":-3},)")),
            R"(distributedInfo: "rank" is -3)"));
}

std::vector<std::string> OneProcess(int pid, int at) {
  return {Row("user_annotation", "ProfilerStep#0", pid, at, 100, ""),
          Row("cuda_runtime", "cudaLaunchKernel", pid, at + 10, 5,
              R"("correlation":)" + std::to_string(pid)),
          Row("kernel", "k" + std::to_string(pid), 0, at + 20, 5,
              kPlace + R"("correlation":)" + std::to_string(pid))};
}

TEST(Kineto, OfSeveralProcessesOneIsReadAndTheOthersAreNamed) {
  const Folder folder;
  std::vector<std::string> rows = OneProcess(10, 1000);
  rows.push_back(Row("user_annotation", "mine", 10, 1001, 5, ""));
  for (const std::string& row : OneProcess(20, 1050)) rows.push_back(row);
  const KinetoReadResult read = Read(folder, Document(rows));
  EXPECT_TRUE(Tells(read, "host rows of 2 processes in one file: read is pid 10 (3 rows); left "
                          "out, with the work they launched: pid 20 (2 rows)"));
  EXPECT_NE(NoteOf(read.cycle, "several_processes"), "");
  EXPECT_EQ(read.cycle.session.pid, 10U);
  EXPECT_EQ(read.cycle.steps.size(), 1U);
  ASSERT_EQ(read.cycle.kernels.size(), 1U);
  EXPECT_EQ(read.cycle.Text(read.cycle.shapes[read.cycle.kernels[0].shape].name), "k10");
  EXPECT_EQ(read.cycle.kernels[0].step, 0);
}

TEST(Kineto, ANumberOfSeveralCallsJoinsNone) {
  const Folder folder;
  const std::vector<std::string> rows = {
      Row("user_annotation", "ProfilerStep#0", 9, 100, 100, ""),
      Row("cuda_runtime", "cudaLaunchKernel", 9, 110, 5, R"("correlation":5)"),
      Row("cuda_runtime", "cudaLaunchKernel", 9, 150, 5, R"("correlation":5)"),
      Row("cuda_runtime", "cudaLaunchKernel", 9, 160, 5, R"("correlation":6)"),
      // The driver's half of that call, which rounding let stick out.
      Row("cuda_driver", "cuLaunchKernel", 9, 164, 2, R"("correlation":6)"),
      Row("kernel", "twice", 0, 170, 5, kPlace + R"("correlation":5)"),
      Row("kernel", "once", 0, 180, 5, kPlace + R"("correlation":6)")};
  const KinetoReadResult read = Read(folder, Document(rows));
  EXPECT_TRUE(read.problems.empty());
  ASSERT_EQ(read.cycle.kernels.size(), 2U);
  EXPECT_EQ(read.cycle.kernels[0].call, model::kNoIndex);
  EXPECT_EQ(read.cycle.kernels[0].step, model::kNoStep);
  EXPECT_EQ(read.cycle.kernels[1].step, 0);
  EXPECT_NE(NoteOf(read.cycle, "ambiguous_correlation").find("1 rows"), std::string::npos);
  EXPECT_NE(NoteOf(read.cycle, "ambiguous_correlation").find("the first: 5"), std::string::npos);
  EXPECT_FALSE(Converted(folder, read.cycle, "kernel").at("args").contains("correlation"));
}

TEST(Kineto, WhatACallWaitedForIsReadAndKept) {
  const Folder folder;
  const KinetoReadResult read = Read(
      folder,
      Document(
          {Row("user_annotation", "ProfilerStep#0", 9, 100, 100, ""),
           Row("cuda_runtime", "cudaLaunchKernel", 9, 110, 5, R"("correlation":5)"),
           Row("kernel", "k", 0, 120, 5, kPlace + R"("correlation":5)"),
           Row("cuda_runtime", "cudaStreamSynchronize", 9, 130, 20, R"("correlation":6)"),
           Row("cuda_sync", "Stream Sync", 0, 131, 18, kPlace + R"("correlation":6)"),
           Row("cuda_runtime", "cudaDeviceSynchronize", 9, 160, 20, R"("correlation":7)"),
           Row("cuda_sync", "Context Sync", 0, 161, 18,
               R"("device":0,"context":1,"stream":-1,"correlation":7)"),
           Row("cuda_sync", "Event Sync", 0, 190, 2, R"("correlation":99,"stream":4294967295)"),
           Row("cuda_sync", "A kind of tomorrow", 0, 195, 2, R"("correlation":99)")}));
  EXPECT_TRUE(read.problems.empty()) << read.problems.front();
  ASSERT_EQ(read.cycle.syncs.size(), 3U);
  const model::Sync &stream = read.cycle.syncs[0], &context = read.cycle.syncs[1],
                    &event = read.cycle.syncs[2];
  EXPECT_EQ(read.cycle.calls.at(static_cast<size_t>(stream.call)).correlation, 6U);
  EXPECT_EQ(stream.stream, 7U);
  EXPECT_EQ(stream.step, 0);
  EXPECT_EQ(read.cycle.calls.at(static_cast<size_t>(context.call)).correlation, 7U);
  EXPECT_EQ(context.stream, std::nullopt);
  EXPECT_EQ(event.call, model::kNoIndex);
  EXPECT_EQ(event.step, model::kNoStep);
  EXPECT_EQ(event.stream, std::nullopt);
  // The device's work and its own time are what they were without these rows.
  EXPECT_EQ(Summarize(read.cycle).at("devices").at(0).at("busy_ns"), 5000);
  const Json args = Converted(folder, read.cycle, "cuda_sync").at("args");
  EXPECT_EQ(args.at("stream"), 7);
  EXPECT_EQ(args.at("context"), 1);
  EXPECT_EQ(args.at("correlation"), 6);
}

TEST(Kineto, AWaitSaysNothingThatItsFileDidNot) {
  const Folder folder;
  const KinetoReadResult read =
      Read(folder, Document({Row("cuda_runtime", "cudaEventSynchronize", 9, 130, 20, ""),
                             Row("cuda_sync", "Event Sync", 0, 190, 2, "")}));
  const Json args = Converted(folder, read.cycle, "cuda_sync").at("args");
  for (const char* unknown : {"context", "device", "correlation"}) {
    EXPECT_FALSE(args.contains(unknown)) << unknown;
  }
  const auto tables =
      writers::MakeWriter("sqlite")->Write(read.cycle, {folder.path(), folder.path(), "out.0", {}});
  EXPECT_TRUE(tables.ok) << tables.error;
  EXPECT_EQ(args.at("stream"), -1);
  EXPECT_EQ(args.at("wait_on_cuda_event_id"), -1);
}

std::set<std::string> ReadingsOf(const KinetoReadResult& read) {
  std::set<std::string> rules;
  const Json summary = Summarize(read.cycle);
  for (const Json& reading : summary.at("readings")) {
    rules.insert(reading.at("id").get<std::string>());
  }
  return rules;
}

// One step of 1000 us and a kernel on each stream, launched in it.
std::string SideBySide(const std::vector<int>& durations) {
  std::vector<std::string> rows{Row("user_annotation", "ProfilerStep#0", 9, 100, 1000, "")};
  for (size_t i = 0; i < durations.size(); ++i) {
    const std::string id = std::to_string(i + 1), correlation = "\"correlation\":" + id;
    rows.push_back(Row("cuda_runtime", "cudaLaunchKernel", 9, 101 + int(i), 1, correlation));
    rows.push_back(Row("kernel", "k" + id, 0, 105, durations[i],
                       R"("device":0,"context":1,"stream":)" + id + "," + correlation));
  }
  return Document(rows);
}

TEST(Kineto, KernelsSideBySideDoNotDominateEachOther) {
  const Folder folder;
  EXPECT_FALSE(
      ReadingsOf(Read(folder, SideBySide({980, 980, 980}))).contains("one_kernel_dominates"));
  EXPECT_TRUE(
      ReadingsOf(Read(folder, SideBySide({980, 200, 200}))).contains("one_kernel_dominates"));
}

TEST(Kineto, StepsOfNoLengthAreNotSlow) {
  const Folder folder;
  std::vector<std::string> rows{Row("kernel", "k", 0, 90, 5, kPlace + R"("correlation":1)")};
  for (int i = 0; i < 9; ++i) {
    rows.push_back(
        Row("user_annotation", "ProfilerStep#" + std::to_string(i), 9, 100 + 10 * i, 0, ""));
  }
  EXPECT_FALSE(ReadingsOf(Read(folder, Document(rows))).contains("first_step_slower"));
}

TEST(Kineto, ATimeBeforeItsClockBeganIsRefused) {
  const Folder folder;
  const KinetoReadResult read =
      Read(folder, Document({Row("user_annotation", "ProfilerStep#0", 9, -400, 100, ""),
                             Row("user_annotation", "ProfilerStep#1", 9, 100, 100, "")}));
  EXPECT_EQ(read.cycle.steps.size(), 1U);
  EXPECT_TRUE(Tells(read, "allowed: ts and dur of 0 or more"));
  EXPECT_TRUE(Tells(read, "`ProfilerStep#0` at ts -400"));
}

TEST(Kineto, GzipDamageIsNamedAsWhatItIs) {
  const Folder folder;
  std::vector<std::string> rows;
  for (int i = 0; i < 3000; ++i) {
    rows.push_back(Row("kernel", "k" + std::to_string(i * 7919 % 1000), 0, 100 + i, 1,
                       kPlace + R"("correlation":)" + std::to_string(i)));
  }
  const std::string whole = Zip(Document(rows));
  const KinetoReadResult good = Read(folder, whole);
  EXPECT_TRUE(good.problems.empty()) << good.problems.front();
  ASSERT_EQ(good.cycle.kernels.size(), 3000U);
  for (const size_t missing : {1U, 4U, 8U}) {
    const KinetoReadResult cut = Read(folder, whole.substr(0, whole.size() - missing));
    EXPECT_TRUE(Tells(cut, "the end of the gzip stream is missing")) << missing;
    EXPECT_EQ(cut.problems.size(), 1U);
    EXPECT_EQ(cut.cycle.kernels.size(), 3000U);
  }
  std::string wrong = whole;
  wrong[wrong.size() - 8] = static_cast<char>(wrong[wrong.size() - 8] ^ 1);
  const KinetoReadResult crc = Read(folder, wrong);
  EXPECT_TRUE(Tells(crc, "the gzip checksum does not match"));
  EXPECT_EQ(crc.problems.size(), 1U);
  EXPECT_EQ(crc.cycle.kernels.size(), 3000U);
  wrong = whole;
  wrong[wrong.size() - 2] = static_cast<char>(wrong[wrong.size() - 2] ^ 1);
  EXPECT_TRUE(Tells(Read(folder, wrong), "the gzip length does not match"));
  EXPECT_TRUE(Tells(Read(folder, whole.substr(0, whole.size() / 2)), "end of the gzip stream"));
  EXPECT_TRUE(Tells(Read(folder, whole + "tail"), "no gzip follow"));
  // Members one after the other are one file.
  const std::string text = Document(rows);
  const KinetoReadResult two =
      Read(folder, Zip(text.substr(0, 1000)) + Zip(text.substr(1000)) + std::string(10, '\0'));
  EXPECT_TRUE(two.problems.empty());
  EXPECT_EQ(two.cycle.kernels.size(), 3000U);
}

TEST(Kineto, ABadByteInANameCostsThatByteAlone) {
  for (const std::string& bad : {std::string("\xff"), std::string("\xe2\x82"), std::string(1, '\0'),
                                 std::string("\x1b"), std::string("\\d"), std::string("\\\x01")}) {
    const Folder folder;
    const KinetoReadResult read =
        Read(folder, Document({Row("kernel", "a" + bad + "b", 0, 100, 5, kPlace + "\"bytes\":1"),
                               Row("kernel", "gr\xc3\xbc\xc3\x9f", 0, 110, 5, kPlace + "\"x\":1")}));
    ASSERT_TRUE(read.ok) << read.error;
    EXPECT_TRUE(read.problems.empty()) << read.problems.front();
    ASSERT_EQ(read.cycle.kernels.size(), 2U);
    EXPECT_EQ(read.cycle.Text(read.cycle.shapes[1].name), "gr\xc3\xbc\xc3\x9f");
    const std::string name(read.cycle.Text(read.cycle.shapes[0].name));
    EXPECT_TRUE(name.starts_with("a") && name.ends_with("b")) << name;
    EXPECT_NE(NoteOf(read.cycle, "repaired_text"), "") << name;
  }
}

// A character may lie across the border of two blocks that are read one after the other.
TEST(Kineto, ValidTextIsLeftAloneWhereverItLies) {
  const Folder folder;
  std::string name;
  for (size_t shift = 0; shift < 4; ++shift) {
    name = std::string(shift, 'x');
    while (name.size() < 700'000) name += "\xf0\x9f\x98\x80\xe2\x82\xac\xc3\xa9\\n\\\\";
    const KinetoReadResult read =
        Read(folder, Document({Row("kernel", name, 0, 100, 5, kPlace + "\"x\":1")}));
    ASSERT_TRUE(read.ok) << read.error;
    EXPECT_TRUE(read.problems.empty());
    EXPECT_EQ(NoteOf(read.cycle, "repaired_text"), "");
  }
}

TEST(Kineto, NobodyCouldHaveAskedAFileForMore) {
  const Folder folder;
  const KinetoReadResult read = Read(folder, Document(OneProcess(10, 1000)));
  const std::string text = RenderSummaryText(read.cycle, 0);
  EXPECT_EQ(text.find("not asked for"), std::string::npos) << text;
  EXPECT_NE(text.find("memory: not in this file"), std::string::npos) << text;
}

}  // namespace
}  // namespace stepagent::analysis
