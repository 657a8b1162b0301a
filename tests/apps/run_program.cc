#include "run_program.h"

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>

namespace stepagent::apps {
namespace {

const std::string kSimCuda = STEPAGENT_SIM_DIR "/cuda";

}  // namespace

Outcome Execute(const std::string& command, const std::string& library_path) {
  std::string line = "export PATH='" STEPAGENT_APPS_DIR "':\"$PATH\"; ";
  if (!library_path.empty()) line += "export LD_LIBRARY_PATH='" + library_path + "'; ";
  // A victim dies as it would without a sanitizer. The simulated driver keeps dead handles on
  // purpose, to know them again, so leaks are not looked for in programs that use it.
  line += "export ASAN_OPTIONS=handle_segv=0:handle_abort=0:detect_leaks=";
  line += library_path.empty() ? "1; " : "0; ";
  line +=
      "export TSAN_OPTIONS=handle_segv=0:handle_abort=0:suppressions='" STEPAGENT_TSAN_SUPPRESSIONS
      "'; ";
  line += command;
  FILE* pipe = popen(line.c_str(), "r");
  if (pipe == nullptr) return {127, "popen failed"};
  Outcome outcome;
  std::array<char, 4096> block;
  for (size_t read; (read = fread(block.data(), 1, block.size(), pipe)) > 0;) {
    outcome.output.append(block.data(), read);
  }
  const int status = pclose(pipe);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

Outcome ExecuteSimulated(const std::string& command) {
  return Execute(command, SimulatedLibraries());
}

std::string SimulatedLibraries() { return kSimCuda + ":" STEPAGENT_SIM_DIR "/cupti-13.0"; }

bool HasSimulator() { return std::filesystem::exists(kSimCuda + "/libcuda.so.1"); }

}  // namespace stepagent::apps
