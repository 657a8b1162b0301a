// What the doctor makes of a trial that went by too fast to be looked at.
#include <gtest/gtest.h>

#include "collector/cli/doctor_findings.h"
#include "collector/cli/doctor_results.h"

namespace stepagent::cli {
namespace {

std::string ProcessesFound(const Trial& trial) {
  for (const Check& check : CommandFindings(Ground(), trial))
    if (check.id == "processes") return check.found;
  return "";
}

// One look may meet a process before the loader has mapped anything.
TEST(DoctorProcesses, OneLookIsNoProofThatTheLibraryIsNotThere) {
  Trial trial;
  TrialProcess process;
  process.seen.pid = 12;
  process.seen.title = "short";
  process.looks = 1;
  trial.processes = {process};
  EXPECT_EQ(ProcessesFound(trial), "12 short [too short to be looked into]");
  trial.processes[0].looks = 2;
  EXPECT_EQ(ProcessesFound(trial), "12 short [without the library]");
}

TEST(DoctorProcesses, OneThatRecordedIsKnownByItsSession) {
  Trial trial;
  TrialProcess process;
  process.seen.pid = 12;
  process.seen.title = "short";
  process.looks = 1;
  trial.processes = {process};
  launch::SessionEntry session;
  session.pid = 12;
  AddResults({session}, &trial);
  EXPECT_EQ(ProcessesFound(trial), "12 short [agent]");
  session.pid = 13;
  session.title = "shorter";
  AddResults({session}, &trial);
  EXPECT_EQ(ProcessesFound(trial), "12 short [agent]; 13 shorter [agent]");
}

}  // namespace
}  // namespace stepagent::cli
