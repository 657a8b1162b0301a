#include "collector/launch/run_toggle.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "collector/launch/control_client.h"

namespace stepagent::launch {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

bool IsOfRun(const std::string& process, const std::string& run) {
  const std::string environment = '\0' + ReadFile(process + "/environ");
  return environment.find('\0' + std::string("STEPAGENT_RUN=") + run + '\0') != std::string::npos;
}

bool Catches(const std::string& process, int signal_number) {
  const std::string status = ReadFile(process + "/status");
  const size_t at = status.find("SigCgt:");
  if (at == std::string::npos) return false;
  return (std::strtoull(status.c_str() + at + 7, nullptr, 16) >> (signal_number - 1)) & 1;
}

void SayLine(const std::string& line) {
  const std::string text = "stepagent: " + line + "\n";
  if (write(STDERR_FILENO, text.data(), text.size()) < 0) return;
}

}  // namespace

std::vector<pid_t> CatchersOf(const std::string& run, int signal_number) {
  std::vector<pid_t> found;
  std::error_code error;
  for (const auto& item : std::filesystem::directory_iterator("/proc", error)) {
    const std::string path = item.path().string();
    const pid_t pid = static_cast<pid_t>(std::atoi(path.c_str() + 6));
    if (pid > 0 && pid != getpid() && Catches(path, signal_number) && IsOfRun(path, run))
      found.push_back(pid);
  }
  return found;
}

RunToggle::RunToggle(std::string run, const Environment& environment, int signal_number)
    : run_(std::move(run)),
      dirs_{environment.Get("STEPAGENT_RUNTIME_DIR"), environment.Get("XDG_RUNTIME_DIR")},
      signal_number_(signal_number) {}

void RunToggle::Request() {
  if (is_busy_.load(std::memory_order_acquire)) return;  // pairs with the release at Work's end
  Join();
  is_busy_.store(true, std::memory_order_relaxed);  // the thread's start orders it
  thread_ = std::thread([this] { Work(); });
}

void RunToggle::Join() {
  if (thread_.joinable()) thread_.join();
}

void RunToggle::Work() {
  std::vector<proto::AgentEntry> of_run;
  const auto agents = proto::ListAgents(dirs_, geteuid());
  for (const Answer& answer : AskAll(agents, MakeRequest(v1::ControlRequest::STATUS)))
    if (answer.message && answer.message->status().run() == run_) of_run.push_back(answer.agent);
  for (const Answer& answer : AskAll(of_run, MakeRequest(v1::ControlRequest::TOGGLE))) {
    if (!answer.message || answer.message->verdict() != v1::ControlAnswer::OK)
      SayLine("toggle: pid " + std::to_string(answer.agent.pid) + ": " +
              (answer.message ? answer.message->reason() : answer.error));
  }
  for (const pid_t pid : CatchersOf(run_, signal_number_)) {
    const bool was_asked = std::any_of(of_run.begin(), of_run.end(),
                                       [&](const proto::AgentEntry& a) { return a.pid == pid; });
    if (!was_asked) kill(pid, signal_number_);
  }
  if (of_run.empty())
    SayLine("toggle: no process of the run answers: none has used CUDA or NVTX yet");
  is_busy_.store(false, std::memory_order_release);  // pairs with the acquire in Request
}

}  // namespace stepagent::launch
