// The victims by themselves: no agent, on the host and on the simulated device.
#include <gtest/gtest.h>

#include <ostream>
#include <string>

#include "run_program.h"

namespace stepagent::apps {
namespace {

struct Case {
  const char* name;
  const char* command;
  int status;
  const char* output;  // exact, or null
};

void PrintTo(const Case& victim, std::ostream* out) { *out << victim.command; }

class HostVictim : public testing::TestWithParam<Case> {};
class SimulatedVictim : public testing::TestWithParam<Case> {};

void ExpectCase(const Case& victim, const std::string& libraries) {
  const Outcome run = Execute(victim.command, libraries);
  EXPECT_EQ(run.status, victim.status) << victim.command << "\n" << run.output;
  if (victim.output != nullptr) {
    EXPECT_EQ(run.output, victim.output) << victim.command;
  }
}

TEST_P(HostVictim, Behaves) {
#ifdef STEPAGENT_TSAN
  if (GetParam().name == std::string("ExitMainEnds")) {
    GTEST_SKIP() << "under the thread sanitizer a process whose main thread has ended hangs";
  }
#endif
  ExpectCase(GetParam(), "");
}

TEST_P(SimulatedVictim, Behaves) {
  if (!HasSimulator()) GTEST_SKIP() << "the simulated libraries are not built";
  ExpectCase(GetParam(), SimulatedLibraries());
}

std::string CaseName(const testing::TestParamInfo<Case>& info) { return info.param.name; }

// A signal's death is the shell's 128 + signal, since the shell runs the program as its child.
constexpr Case kHostCases[] = {
    {"NvtxLoop", "nvtx_loop all 3", 0, "nvtx_loop: all, 3 steps done\n"},
    {"NvtxReturnsWithoutTool", "nvtx_loop ascii 1 --returns", 0,
     "push -2\npush inner -2\npop inner -2\npop -2\nnvtx_loop: ascii, 1 steps done\n"},
    {"ForkStorm", "fork_storm --children 50 --steps-only", 0,
     "fork_storm: 50 children, 0 hung, 0 failed\n"},
    {"CloseAll", "close_all 3", 0, "close_all: 3 rounds, own bytes only\n"},
    {"CloseAllStd", "close_all 3 0 --std", 0, ""},
    {"ExitReturn", "exit_ways return 2", 5, "2 steps, leaving by return\n"},
    {"ExitUnderscore", "exit_ways _exit 2", 5, "2 steps, leaving by _exit\n"},
    {"ExitQuick", "exit_ways quick_exit 2", 5, "2 steps, leaving by quick_exit\n"},
    {"ExitAbort", "exit_ways abort 2 2>/dev/null; exit $?", 134, nullptr},
    {"ExitSegv", "exit_ways segv 2 2>/dev/null; exit $?", 139, nullptr},
    {"ExitTerm", "exit_ways term 2 2>/dev/null; exit $?", 143, nullptr},
    {"ExitKill", "exit_ways kill 2 2>/dev/null; exit $?", 137, nullptr},
    {"ExitExec", "exit_ways exec 2", 5, "2 steps, leaving by exec\n3 steps, leaving by return\n"},
    {"ExitThread", "exit_ways thread_exit 2", 5, "2 steps, leaving by thread_exit\n"},
    {"ExitMainEnds", "exit_ways main_ends 2", 0,
     "2 steps, leaving by main_ends\nlast thread ends\n"},
    {"ExitBusyThread", "exit_ways busy_thread 2", 5, "2 steps, leaving by busy_thread\n"},
    {"ExitAtexit", "exit_ways atexit_nvtx 2", 5, "2 steps, leaving by atexit_nvtx\n"},
    {"ExitKey", "exit_ways key_nvtx 2", 5, "2 steps, leaving by key_nvtx\n"},
    {"ManyThreads", "many_threads --short 200 --alive 64", 0,
     "many_threads: 200 short, 64 alive\n"},
    {"ManyThreadsCancelled", "many_threads --short 0 --alive 16 --cancel --blocked", 0,
     "many_threads: 0 short, 16 alive, cancelled\n"},
    {"SignalBefore", "signal_mix before", 0, "before: 10 handled, disposition: own handler\n"},
    {"SignalAfter", "signal_mix after", 0, "after: 10 handled, disposition: own handler\n"},
    {"SignalIgnore", "signal_mix ignore", 0, "ignore: 0 handled, disposition: ignored\n"},
    {"SignalReset", "signal_mix reset", 0, "reset: 0 handled, disposition: default\n"},
    {"SignalFd", "signal_mix signalfd", 0, "signalfd: 10 received\n"},
    {"SignalWait", "signal_mix sigwait", 0, "sigwait: 10 received\n"},
    {"SignalBlocked", "signal_mix blocked", 0, "blocked: pending\n"},
    {"SignalStorm", "signal_mix storm", 0, "storm: 10000 sent, own handler ran, alive\n"},
    {"SignalEintr", "signal_mix eintr", 0,
     "nanosleep: -1 Interrupted system call\nread: -1 Interrupted system call\n"
     "poll: -1 Interrupted system call\nalarms: 3\n"},
    {"EnvFds", "env_fds --only threads", 0, nullptr},
    {"SpawnVfork", "spawn_ways vfork 2", 0,
     "parent: 2 steps\nchild: 2 steps\nvfork: status 0\ncanary: alive\nparent again: 2 steps\n"},
    {"SpawnDaemon", "spawn_ways daemon 2", 0,
     "parent: 2 steps\ngrandchild: 2 steps\ndaemon: status 0\ngrandchild: done\n"
     "parent again: 2 steps\n"},
    {"SpawnThreeForks", "spawn_ways three_forks 1", 0,
     "parent: 1 steps\nforked child: 1 steps\nfork: status 0\nforked child: 1 steps\n"
     "fork: status 0\nforked child: 1 steps\nfork: status 0\nparent again: 1 steps\n"},
    {"EarlyRange", "early_range", 0, "early_range: 7 steps\n"},
    {"PluginHost", "plugin_host", 0, "plugin_host: 10 rounds\n"},
    {"StaticProgram", "static_program", 7, "static_program\n"},
    {"SandboxDeniesSockets", "sandboxed --deny socket,memfd --after 3 --steps 6", 0,
     "sandboxed: 6 steps\n"},
    {"SandboxFewFiles", "sandboxed --nofile 16 -- env_fds --only threads --self --steps 1", 0,
     nullptr},
    {"HostileNames", "hostile_names", 0, "hostile_names: 5 steps\n"},
};
INSTANTIATE_TEST_SUITE_P(Victims, HostVictim, testing::ValuesIn(kHostCases), CaseName);

constexpr Case kSimulatedCases[] = {
    {"ForkStorm", "fork_storm --children 50", 0, "fork_storm: 50 children, 0 hung, 0 failed\n"},
    {"RivalAlone", "rival_cupti --at 3 --until 8 --steps 10", 0,
     "rival: subscribe at a step: 0\nrival: enable kernels: 0\nrival: unsubscribe: 0\n"
     "rival: 5 kernel records of 10 steps\n"},
    {"RivalEarly", "rival_cupti --early --steps 4", 0, nullptr},
    {"GraphBuilt", "graph_heavy --nodes 50 --steps 5", 0,
     "graph_heavy: 5 launches of 50 kernels\n"},
    {"GraphCaptured", "graph_heavy --nodes 50 --steps 5 --capture", 0,
     "graph_heavy: 5 launches of 50 kernels\n"},
    {"MultiDevice", "STEPAGENT_SIM_DEVICES=3 multi_device 3 4", 0,
     "multi_device: 3 devices, 4 steps\n"},
    {"NeverEnding", "never_ending_kernel 2 6", 0,
     "never_ending_kernel: 6 steps, one kernel left running\n"},
    {"DriverDlsym", "driver_paths dlsym 4", 0, "driver_paths: dlsym, 12 launches\n"},
    {"DriverProcAddress", "driver_paths proc_address 4", 0,
     "driver_paths: proc_address, 12 launches\n"},
    {"DriverPerThread", "driver_paths per_thread 4", 0, "driver_paths: per_thread, 12 launches\n"},
    {"ProfilerRuntime", "profiler_api 2 4 6", 0, "profiler_api: start 0, stop 0, 6 steps\n"},
    {"ProfilerDriver", "profiler_api 2 4 6 --driver", 0,
     "profiler_api: start 0, stop 0, 6 steps\n"},
    {"RuntimeLoop", "runtime_loop --mixed --failing", 0, "runtime_loop: 12 steps done\n"},
};
INSTANTIATE_TEST_SUITE_P(Victims, SimulatedVictim, testing::ValuesIn(kSimulatedCases), CaseName);

}  // namespace
}  // namespace stepagent::apps
