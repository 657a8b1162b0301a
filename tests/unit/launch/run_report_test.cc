// The launcher's last lines.
#include "collector/launch/run_report.h"

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/unit/launch/temp_folder.h"

namespace stepagent::launch {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

class RunReportTest : public testing::Test {
 protected:
  RunReportTest() {
    plan_.settings = proto::DefaultSettings();
    plan_.settings.out = folder_.path();
    plan_.run = "r1";
  }
  void AddSession(int64_t rank, const std::string& manifest, const std::string& summary = "{}") {
    SessionEntry session;
    session.run_folder = folder_.path() + "/r1";
    session.folder = session.run_folder + "/sessions/s" + std::to_string(rank);
    session.exe = "train";
    session.pid = 40 + rank;
    session.rank = rank;
    session.state = "closed";
    CycleEntry cycle;
    cycle.state = "written";
    cycle.ended = "schedule";
    cycle.files = {session.run_folder + "/traces/cycle-0000/t" + std::to_string(rank) +
                   ".0.pt.trace.json.gz"};
    session.cycles = {cycle};
    const std::string base = "r1/sessions/s" + std::to_string(rank) + "/cycle-0000/";
    folder_.Write(base + "manifest.json", manifest);
    folder_.Write(base + "summary.json", summary);
    outcome_.written.sessions.push_back(session);
  }
  std::vector<std::string> Lines() { return RunReport(plan_, outcome_); }

  TempFolder folder_;
  RunPlan plan_;
  RunOutcome outcome_;
};

TEST_F(RunReportTest, OneRowPerRankAndWhatToTypeNext) {
  AddSession(1, R"({"gpu":{"status":"collected"}})");
  AddSession(0, R"({"gpu":{"status":"unavailable","reason":"no device"}})");
  const auto lines = Lines();
  const std::string run = folder_.path() + "/r1";
  ASSERT_GE(lines.size(), 8U);
  EXPECT_EQ(lines[0], "traces in " + run);
  EXPECT_EQ(lines[1], "  rank 0  train (pid 40)  1 cycle; host only: no device");
  EXPECT_EQ(lines[2], "    " + run + "/traces/cycle-0000/t0.0.pt.trace.json.gz");
  EXPECT_EQ(lines[3], "  rank 1  train (pid 41)  1 cycle");
  EXPECT_THAT(lines, Contains("  stepagent report " + run));
  EXPECT_THAT(lines, Contains("  HTA, TensorBoard: " + run + "/traces/cycle-0000"));
}

TEST_F(RunReportTest, ManyFilesAreAFolderAndTheNewestCycleIsTheOneToOpen) {
  for (int64_t rank = 0; rank < 3; ++rank) {
    AddSession(rank, R"({"gpu":{"status":"collected"}})");
    SessionEntry& session = outcome_.written.sessions.back();
    CycleEntry second = session.cycles[0];
    second.index = 1;
    second.files = {session.run_folder + "/traces/cycle-0001/t" + std::to_string(rank) +
                    ".1.pt.trace.json.gz"};
    session.cycles.push_back(second);
  }
  const auto lines = Lines();
  const std::string traces = folder_.path() + "/r1/traces/cycle-000";
  EXPECT_EQ(lines[1], "  rank 0  train (pid 40)  2 cycles");
  EXPECT_EQ(lines[2], "  rank 1  train (pid 41)  2 cycles");
  EXPECT_EQ(lines[4], "    6 files in " + traces + "0 and cycle-0001");
  EXPECT_THAT(lines, Contains("  HTA, TensorBoard: " + traces + "1"));
  EXPECT_THAT(lines, Contains("  https://ui.perfetto.dev: " + traces + "1/t0.1.pt.trace.json.gz"));
  // One rank's own last cycle is no folder of all ranks.
  outcome_.written.sessions[0].cycles.pop_back();
  outcome_.written.sessions[1].cycles.pop_back();
  EXPECT_THAT(Lines(), Contains("  HTA, TensorBoard: " + traces + "0"));
}

TEST_F(RunReportTest, NamesWhatACycleLostAndWhatGivesItRoom) {
  AddSession(0, R"({"balance":{"kernel":{"dropped":null},"nvtx":{"dropped":0}}})");
  EXPECT_THAT(Lines(), Not(Contains(HasSubstr("lost records"))));
  AddSession(3, R"({"balance":{"nvtx":{"dropped":12}},"notes":[{"code":"other","text":"no"},
      {"code":"ring_full","text":"12 records came faster; --ring-memory gives buffers more room"},
      {"code":"lost_batches","text":"2 batches never reached the collector"}]})");
  AddSession(4, R"({"balance":{"nvtx":{"dropped":5},"kernel":{"dropped":2}}})");
  EXPECT_THAT(Lines(), Contains("  rank 3, cycle 0 lost records: 12 records came faster; "
                                "--ring-memory gives buffers more room; 2 batches never reached "
                                "the collector; --activities records less, so that fewer are "
                                "under way"));
  EXPECT_THAT(Lines(), Contains("  rank 4, cycle 0 lost records: 7 records; --activities records "
                                "less"));
  for (int64_t rank = 5; rank < 13; ++rank) AddSession(rank, R"({"balance":{"nvtx":{"dropped":1}}})");
  EXPECT_THAT(Lines(), Contains("  … and 2 more cycles lost records: stepagent report names each"));
}

// Ranks of an elastic launcher: both lots, told apart.
TEST_F(RunReportTest, RestartedRanksHaveATableOfTheirOwn) {
  const auto add = [&](int64_t rank, int64_t pid, int64_t begin_s) {
    const std::string at = std::to_string(begin_s * 1'000'000'000);
    AddSession(rank, "{}",
               R"({"session":{"id":"s)" + std::to_string(pid) + R"(","run":"r1","rank":)" +
                   std::to_string(rank) + R"(,"pid":)" + std::to_string(pid) +
                   R"(,"host":"h"},"cycle":{"index":0},"window":{"base_unix_ns":)" + at +
                   R"(,"end_ns":1000},"steps":{"count":0,"each":[]}})");
    SessionEntry& session = outcome_.written.sessions.back();
    session.pid = pid;
    std::filesystem::rename(session.folder, session.folder + "-" + std::to_string(pid));
    session.folder += "-" + std::to_string(pid);
  };
  for (const int64_t rank : {0, 1}) add(rank, 100 + rank, 1);
  for (const int64_t rank : {0, 1}) add(rank, 200 + rank, 9);
  EXPECT_THAT(Lines(), Contains("ranks in cycle 0, before a restart (1 of 2):"));
  EXPECT_THAT(Lines(), Contains("ranks in cycle 0, after a restart (2 of 2):"));
  EXPECT_THAT(Lines(), Contains(HasSubstr("rank 0 (restarted, pid 200), rank 1 (restarted, pid")));
}

TEST_F(RunReportTest, SaysWhatWasDeferredAndWhatWasNotWritten) {
  AddSession(0, R"({"gpu":{"status":"collected"}})");
  SessionEntry& session = outcome_.written.sessions[0];
  outcome_.written.late = {{session.folder, {0}}};
  EXPECT_THAT(Lines()[1], HasSubstr("1 cycle; cycle 0 needed more than the collector's memory"));
  outcome_.written.late.clear();
  session.cycles[0].state = "deferred";
  session.cycles[0].files.clear();
  session.cycles[0].error = "deferred: … `stepagent report /s` writes it …";
  EXPECT_EQ(
      Lines()[1],
      "  rank 0  train (pid 40)  1 cycle; cycle 0 deferred: … `stepagent report /s` writes it "
      "…");
  session.cycles[0].state = "failed";
  session.cycles[0].error = "/t: No space left on device";
  EXPECT_THAT(Lines()[1], HasSubstr("  0 of 1 cycle written; cycle 0 was not written: /t: No "));
}

// The disk was full: session.json could not be rewritten, folders and manifests tell more.
TEST_F(RunReportTest, CountsCyclesByWhatIsThere) {
  AddSession(0, R"({"gpu":{"status":"collected"}})");
  outcome_.written.sessions[0].formats = "chrome,sqlite";
  const std::string second = "r1/sessions/s0/cycle-0001/";
  folder_.Write(second + "manifest.json", R"({"files":[{"format":"sqlite"},{"format":"chrome"}]})");
  EXPECT_THAT(Lines()[1], HasSubstr("(pid 40)  1 of 2 cycles written"));  // its summary is missing
  folder_.Write(second + "summary.json", "{}");
  EXPECT_THAT(Lines()[1], HasSubstr("(pid 40)  2 cycles"));
  folder_.Write(second + "manifest.json", R"({"files":[{"format":"sqlite"}]})");
  EXPECT_THAT(Lines()[1], HasSubstr("(pid 40)  1 of 2 cycles written"));
  folder_.Write(second + "manifest.json", R"({"files":[{"format":"sqlite"},{"format":"chrome"}]})");
  folder_.Write("r1/sessions/s0/cycle-0002/steps.csv", "");
  EXPECT_THAT(Lines()[1], HasSubstr("(pid 40)  2 of 3 cycles written"));
}

TEST_F(RunReportTest, NamesRanksThatLeftNothing) {
  AddSession(0, "{}");
  AddSession(2, "{}");
  EXPECT_THAT(Lines(), Not(Contains(HasSubstr("warmup: no cycle"))));
  for (SessionEntry& session : outcome_.written.sessions) session.world_size = 6;
  EXPECT_THAT(Lines(), Contains(HasSubstr("  ranks 1, 3-5 ended before their warmup: no cycle")));
  for (SessionEntry& session : outcome_.written.sessions) session.ranks = "0-3";
  EXPECT_THAT(Lines(), Contains(HasSubstr("  ranks 1, 3 ended before their warmup: no cycle")));
  for (SessionEntry& session : outcome_.written.sessions) session.ranks = "0-2";
  EXPECT_THAT(Lines(), Contains(HasSubstr("  rank 1 ended before its warmup: no cycle")));
  outcome_.written.sessions[1].cycles.clear();
  EXPECT_THAT(Lines(), Contains("  rank 2 ended before its first active step: no cycle"));
  SessionEntry& second = outcome_.written.sessions[1];
  const int64_t pid = second.pid;
  second.state = "open", second.pid = getpid();  // outlives the command
  EXPECT_THAT(Lines(), Not(Contains(HasSubstr("first active step"))));
  second.state = "closed", second.pid = pid;
  plan_.is_task = true;  // the others may be on their way
  EXPECT_THAT(Lines(), Not(Contains(HasSubstr("no cycle"))));
}

TEST_F(RunReportTest, NamesRanksAskedForThatThereAreNot) {
  AddSession(0, "{}");
  SessionEntry& only = outcome_.written.sessions[0];
  only.ranks = "0,9-11";
  EXPECT_THAT(Lines(), Not(Contains(HasSubstr("--ranks"))));  // nobody was told how many there are
  only.world_size = 8;
  EXPECT_THAT(Lines(), Contains("  ranks 9-11 of --ranks are none of the run's: it has 8 ranks"));
}

TEST_F(RunReportTest, RanksThatMatchNoProcessAreTheReason) {
  plan_.settings.ranks = std::vector<uint32_t>{7};
  outcome_.seen_ranks = {0, 1, 2, 4};
  EXPECT_EQ(Lines()[1],
            "  --ranks 7 leaves out every process that was seen (ranks 0-2, 4): --ranks 0-2,4, or "
            "leave --ranks (STEPAGENT_RANKS) out");
  for (const std::set<int64_t>& seen : {std::set<int64_t>{}, {-1}, {3, 7}}) {
    outcome_.seen_ranks = seen;  // none that was told one, or one that was asked for
    EXPECT_THAT(Lines()[1], Not(HasSubstr("--ranks")));
  }
}

TEST_F(RunReportTest, WithoutAStepSourceItOffersTheRangesSeen) {
  plan_.is_whole = true;
  AddSession(0, "{}", R"({"ranges":[{"name":"load","domain":"","count":3,"total_ns":7},
      {"name":"a@b","domain":"torch","count":40},{"name":null,"count":9},{"name":"load","domain":null,"count":2}]})");
  const auto lines = Lines();
  EXPECT_THAT(lines, Contains("no step source was given; ranges seen, as values of --step, the "
                              "likeliest first:"));
  EXPECT_THAT(lines, Contains("  --step 'nvtx:a\\@b@torch'   (40 times)"));
  EXPECT_THAT(lines, Contains("  --step nvtx:load   (5 times)"));
}

TEST_F(RunReportTest, OffersTheOutermostRangeThatRepeatsFirst) {
  plan_.is_whole = true;
  AddSession(0, "{}", R"({"ranges":[
      {"name":"main","domain":"","count":1,"total_ns":9000,"level":0},
      {"name":"layer","domain":"","count":500,"total_ns":4000,"level":2},
      {"name":"prefetch","domain":"","count":900,"total_ns":100,"level":0},
      {"name":"train_step","domain":"","count":50,"total_ns":8000,"level":1},
      {"name":"iteration","domain":"","count":50,"total_ns":5000,"level":0},
      {"name":"old","domain":"","count":700}]})");
  std::vector<std::string> offered;
  for (const std::string& line : Lines())
    if (line.starts_with("  --step ")) offered.push_back(line);
  EXPECT_EQ(offered,
            (std::vector<std::string>{
                "  --step nvtx:iteration   (50 times)", "  --step nvtx:prefetch   (900 times)",
                "  --step nvtx:train_step   (50 times)", "  --step nvtx:layer   (500 times)",
                "  --step nvtx:old   (700 times)", "  --step nvtx:main   (1 times)"}));
}

TEST_F(RunReportTest, NothingRecordedSaysWhy) {
  EXPECT_EQ(Lines(), (std::vector<std::string>{"nothing was recorded",
                                               "  no process of the run came to a first warmup"}));
  outcome_.program_warning = "/x: not traceable: secure mode";
  EXPECT_EQ(Lines()[1], "  /x: not traceable: secure mode");
}

TEST_F(RunReportTest, AFolderThatCannotBeMadeIsSaid) {
  folder_.Write("file", "");
  plan_.settings.out = folder_.path() + "/file";
  EXPECT_THAT(Lines()[1], HasSubstr(plan_.settings.out + ": cannot be created: "));
  EXPECT_THAT(Lines()[1], HasSubstr("--out DIR"));
}

TEST_F(RunReportTest, AFolderThatWasRemovedMeanwhileIsTheReason) {
  const std::string run = folder_.path() + "/r1";
  const std::vector<std::string> removed{
      "nothing is left of what was recorded",
      "  " + run + " was removed while the program ran: leave it until the end, or give --out DIR"};
  outcome_.saw_folder = true;
  EXPECT_EQ(Lines(), removed);
  outcome_.saw_folder = false;
  outcome_.collector = {CollectorWord::State::kAnswered, "", run, 0};  // it has a session there
  EXPECT_EQ(Lines(), removed);
  folder_.Write("r1/x", "");
  EXPECT_EQ(Lines()[0], "nothing was recorded");
}

TEST_F(RunReportTest, SaysWhatANamedCollectorHas) {
  using State = CollectorWord::State;
  plan_.settings.collector = "/run/c";
  outcome_.collector = {State::kNobody, "/run/c: No such file or directory", "", 0};
  EXPECT_EQ(Lines()[1],
            "  no collector listens at /run/c: No such file or directory: start one "
            "(stepcollector --socket /run/c --out DIR), or leave out --collector");
  outcome_.collector = {State::kOthers, "", "", 4711};
  EXPECT_THAT(Lines()[1], HasSubstr("is user 4711's and takes nothing of user"));
  outcome_.collector = {State::kSilent, "no answer in time", "", 0};
  EXPECT_THAT(Lines()[1], HasSubstr("did not answer (no answer in time)"));
  outcome_.collector = {State::kAnswered, "", "", 0};
  EXPECT_EQ(Lines()[1],
            "  the collector at /run/c has no session of this run: no process came to a first "
            "warmup");
  outcome_.collector = {State::kAnswered, "", "/elsewhere/r1", 0};
  EXPECT_THAT(Lines()[1], HasSubstr("writes into /elsewhere/r1"));
}

TEST_F(RunReportTest, ASocketOfAnotherUserIsSaid) {
  outcome_.collector = {CollectorWord::State::kOthers, "", "", 4711};
  EXPECT_THAT(Lines()[1], HasSubstr("a process of user 4711 holds this run's socket"));
}

TEST_F(RunReportTest, AWarmupAloneIsNoRecording) {
  AddSession(0, "{}");
  outcome_.written.sessions[0].cycles.clear();
  EXPECT_EQ(
      Lines()[1],
      "  a process came to a warmup and no cycle of it is here: the run ended before its first "
      "active step, or before the agent had sent it (then it said so above)");
}

TEST_F(RunReportTest, SaysHowACycleEndedUnlessAsPlanned) {
  AddSession(0, "{}");
  outcome_.written.sessions[0].cycles[0].ended = "exit";
  EXPECT_EQ(Lines()[1], "  rank 0  train (pid 40)  1 cycle; cycle 0 ended by: exit");
  plan_.is_whole = true;
  EXPECT_EQ(Lines()[1], "  rank 0  train (pid 40)  1 cycle");
}

TEST_F(RunReportTest, SaysWhatKilledIt) {
  AddSession(0, R"x({"cycle":{"ended":"killed","reason":"killed by signal 9 (SIGKILL)"}})x");
  outcome_.written.sessions[0].cycles[0].ended = "killed";
  EXPECT_EQ(Lines()[1],
            "  rank 0  train (pid 40)  1 cycle; cycle 0 ended by: killed (killed by signal 9 "
            "(SIGKILL))");
}

TEST_F(RunReportTest, HostileDocumentsDoNoHarm) {
  for (const char* text :
       {"", "[]", R"({"gpu":3,"notes":{"a":1},"kinds":[]})",
        R"({"gpu":{"status":null,"reason":5},"notes":[null,3,{"code":5}],"kinds":null})",
        R"({"ranges":5})", R"({"ranges":[[],{"name":"x","domain":4,"count":"y"}]})"}) {
    plan_.is_whole = true;
    plan_.settings.require = proto::ActivityBit(1);
    outcome_.written.sessions.clear();
    AddSession(0, text, text);
    EXPECT_FALSE(Lines().empty()) << text;
    EXPECT_EQ(MissingKinds(plan_, outcome_.written.sessions), proto::ActivityBit(1)) << text;
  }
}

TEST_F(RunReportTest, RequiredKindsMustBeInEveryCycle) {
  plan_.settings.require = proto::ActivityBit(1) | proto::ActivityBit(6);
  EXPECT_EQ(MissingKinds(plan_, {}), plan_.settings.require);
  AddSession(0, R"({"kinds":{"kernel":{"enabled":true,"error":null},"nvtx":{"enabled":true}}})");
  EXPECT_EQ(MissingKinds(plan_, outcome_.written.sessions), 0U);
  AddSession(1, R"({"kinds":{"kernel":{"enabled":true,"error":"x"},"nvtx":{"enabled":true}}})");
  EXPECT_EQ(MissingKinds(plan_, outcome_.written.sessions), proto::ActivityBit(1));
}

}  // namespace
}  // namespace stepagent::launch
