// StartCollector: a collector that is nobody's child.
//
// The application must not notice: no fork handlers, no SIGCHLD, nothing that its wait() could
// reap, no descriptor. So: clone with a shared memory image (no page is copied) and an exit signal
// of 0 makes a middle process, which only __WCLONE can wait for; it clones the collector-to-be and
// exits, so that the collector's parent is init (or the nearest subreaper) before the application
// runs on. The middle must not exec: exec turns the exit signal back into SIGCHLD.
//
// Everything in Middle and Become runs on the application's memory while our thread is suspended:
// only async-signal-safe calls, nothing that allocates, locks or reads the environment.
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <string_view>
#include <vector>

#include "agent/drain/io/uplink.h"
#include "proto/address.h"

namespace stepagent::drain::io {
namespace {

#ifndef SYS_close_range
constexpr long SYS_close_range = 436;
#endif
// exec's own needs on the user's stack are a few hundred bytes; the rest is for libc's wrappers.
constexpr size_t kStackBytes = 64 * 1024;
constexpr int kNice = 10;

struct Plan {
  const char* program;
  char* const* argv;
  char* const* environment;
  proto::SocketAddress address;
  char* collector_stack_end;
  bool somebody_listens = false;
  int clone_error = 0, exec_error = 0;
  pid_t collector = 0;  // 0: none was started
};

bool SomebodyListens(const Plan& plan) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const int result =
      connect(fd, reinterpret_cast<const sockaddr*>(&plan.address.raw), plan.address.length);
  // EAGAIN: its backlog is full, so it is there. The table goes with this process.
  return result == 0 || errno == EAGAIN;
}

// The application's handlers and ignored signals are not the collector's; the mask was filled by
// StartCollector and opens last.
void ResetSignals() {
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  for (int number = 1; number < NSIG; ++number) sigaction(number, &standard, nullptr);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

void LeaveFiles() {
  if (syscall(SYS_close_range, 0U, ~0U, 0U) != 0) {
    for (int fd = 0; fd < 65536; ++fd) close(fd);
  }
  // The first open gives 0, the copies 1 and 2.
  if (open("/dev/null", O_RDWR) == 0) {
    dup(0);
    dup(0);
  }
}

// First to go when memory is short, and behind the application for the processor.
void StepBack() {
  const int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (fd >= 0) {
    (void)!write(fd, "1000", 4);
    close(fd);
  }
  const sched_param ordinary{};
  sched_setscheduler(0, SCHED_OTHER, &ordinary);
  if (getpriority(PRIO_PROCESS, 0) < kNice) setpriority(PRIO_PROCESS, 0, kNice);
}

int Become(void* argument) {
  Plan* plan = static_cast<Plan*>(argument);
  setsid();
  LeaveFiles();
  StepBack();
  (void)!chdir("/");
  ResetSignals();
  execve(plan->program, plan->argv, plan->environment);
  plan->exec_error = errno;
  _exit(127);
}

int Middle(void* argument) {
  Plan* plan = static_cast<Plan*>(argument);
  plan->somebody_listens = SomebodyListens(*plan);
  if (!plan->somebody_listens) {
    const int pid = clone(Become, plan->collector_stack_end, CLONE_VM | CLONE_VFORK, plan);
    if (pid < 0) plan->clone_error = errno;
    plan->collector = pid < 0 ? 0 : pid;
  }
  _exit(0);
}

// LD_PRELOAD and the injection variables would put us, or another tool, into the collector.
bool IsForCollector(const char* entry) {
  const std::string_view text(entry);
  const std::string_view name = text.substr(0, text.find('='));
  return !name.starts_with("LD_") && !name.ends_with("_INJECTION64_PATH") &&
         !name.ends_with("_INJECTION32_PATH");
}

std::string Failure(const std::string& what, int error) {
  char buffer[128];
  return what + ": " + strerror_r(error, buffer, sizeof buffer);
}

// Runs the plan with all signals blocked: a handler of the application must not run in a process
// that shares its memory.
std::string RunPlan(Plan* plan) {
  const size_t bytes = 2 * kStackBytes;
  void* memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED) return Failure("no memory for its stack", errno);
  char* const base = static_cast<char*>(memory);
  plan->collector_stack_end = base + kStackBytes;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int saved_errno = errno;
  const int middle = clone(Middle, base + bytes, CLONE_VM | CLONE_VFORK, plan);
  const int error = middle < 0 ? errno : 0;
  // ECHILD: a wait with __WALL of the application was quicker. It is gone either way.
  if (middle > 0) {
    while (waitpid(middle, nullptr, __WCLONE) < 0 && errno == EINTR) {
    }
  }
  errno = saved_errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  munmap(memory, bytes);
  if (error != 0) return Failure("clone", error);
  if (plan->clone_error != 0) return Failure("clone", plan->clone_error);
  if (plan->exec_error != 0) return Failure(plan->program, plan->exec_error);
  return "";
}

}  // namespace

std::string StartCollector(const std::string& program, const std::string& address,
                           const std::string& out, const std::string& run,
                           char* const* environment, pid_t* collector) {
  const auto socket_address = proto::AddressFromText(address);
  if (!socket_address) return "not a socket address: '" + address + "'";
  std::string words[] = {"stepcollector", "--socket", address,       "--out", out,
                         "--idle-exit",   "5s",       "--daemon-of", run};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::vector<char*> kept;
  for (char* const* entry = environment; entry != nullptr && *entry != nullptr; ++entry) {
    if (IsForCollector(*entry)) kept.push_back(*entry);
  }
  kept.push_back(nullptr);
  Plan plan{.program = program.c_str(),
            .argv = argv.data(),
            .environment = kept.data(),
            .address = *socket_address,
            .collector_stack_end = nullptr};
  std::string problem = RunPlan(&plan);
  if (collector != nullptr) *collector = plan.collector;
  return problem;
}

}  // namespace stepagent::drain::io
