#include "collector/launch/run_toggle.h"

#include <unistd.h>

#include "collector/launch/control_client.h"

namespace stepagent::launch {
namespace {

// Contract: toggles within 200 ms are one.
constexpr auto kOneToggle = std::chrono::milliseconds(200);

void SayLine(const std::string& line) {
  const std::string text = "stepagent: " + line + "\n";
  if (write(STDERR_FILENO, text.data(), text.size()) < 0) return;
}

}  // namespace

RunToggle::RunToggle(std::string run, const Environment& environment)
    : run_(std::move(run)),
      dirs_{environment.Get("STEPAGENT_RUNTIME_DIR"), environment.Get("XDG_RUNTIME_DIR")} {}

void RunToggle::Request() {
  const auto now = Clock::now();
  if (now - last_request_ < kOneToggle) return;
  last_request_ = now;
  // acq_rel: pairs with the thread's own, so that last_sent_ goes from one thread to the next.
  if (pending_.fetch_add(1, std::memory_order_acq_rel) > 0) return;
  Join();
  thread_ = std::thread([this] { Work(); });
}

void RunToggle::Join() {
  if (thread_.joinable()) thread_.join();
}

void RunToggle::Work() {
  do {
    // A slow one must not push the next into the time in which the agents take both for one.
    std::this_thread::sleep_until(last_sent_ + kOneToggle + kOneToggle / 2);
    ToggleOnce();
  } while (pending_.fetch_sub(1, std::memory_order_acq_rel) > 1);
}

void RunToggle::ToggleOnce() {
  std::vector<proto::AgentEntry> of_run;
  const auto agents = proto::ListAgents(dirs_, geteuid());
  for (const Answer& answer : AskAll(agents, MakeRequest(v1::ControlRequest::STATUS)))
    if (answer.message && answer.message->status().run() == run_) of_run.push_back(answer.agent);
  last_sent_ = Clock::now();
  v1::ControlRequest toggle = MakeRequest(v1::ControlRequest::TOGGLE);
  toggle.set_by_signal(true);
  for (const Answer& answer : AskAll(of_run, toggle)) {
    if (!answer.message || answer.message->verdict() != v1::ControlAnswer::OK)
      SayLine("toggle: pid " + std::to_string(answer.agent.pid) + ": " +
              (answer.message ? answer.message->reason() : answer.error));
  }
  if (of_run.empty())
    SayLine("toggle: no process of the run answers: none has used CUDA or NVTX yet");
}

}  // namespace stepagent::launch
