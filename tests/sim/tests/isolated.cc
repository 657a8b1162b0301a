#include "tests/isolated.h"

#include <dirent.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

namespace stepagent::sim_test {
namespace {

[[noreturn]] void RunAsChild(const Environment& settings, const std::function<void()>& body) {
  // Tests are about behaviour; the costs of real libraries would only slow them down.
  setenv("STEPAGENT_SIM_SUBSCRIBE", "0", 0);
  setenv("STEPAGENT_SIM_FIRST_ENABLE", "0", 0);
  for (const auto& [name, value] : settings) {
    setenv((std::string("STEPAGENT_SIM_") + name).c_str(), value.c_str(), 1);
  }
  body();
  fflush(nullptr);
  _exit(::testing::Test::HasFailure() ? 1 : 0);
}

}  // namespace

Outcome RunChild(const Environment& settings, const std::function<void()>& body) {
  int pipe_ends[2];
  EXPECT_EQ(pipe(pipe_ends), 0);
  fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    close(pipe_ends[0]);
    dup2(pipe_ends[1], STDERR_FILENO);
    close(pipe_ends[1]);
    RunAsChild(settings, body);
  }
  close(pipe_ends[1]);
  Outcome outcome;
  char buffer[4096];
  ssize_t got = 0;
  while ((got = read(pipe_ends[0], buffer, sizeof(buffer))) > 0) {
    outcome.errors.append(buffer, static_cast<size_t>(got));
  }
  close(pipe_ends[0]);
  EXPECT_EQ(waitpid(child, &outcome.status, 0), child);
  return outcome;
}

void Isolated(const Environment& settings, const std::function<void()>& body) {
  const Outcome outcome = RunChild(settings, body);
  EXPECT_TRUE(WIFEXITED(outcome.status)) << "signal " << WTERMSIG(outcome.status) << "\n"
                                         << outcome.errors;
  EXPECT_EQ(WEXITSTATUS(outcome.status), 0) << outcome.errors;
  EXPECT_EQ(outcome.errors.find("Sanitizer:"), std::string::npos) << outcome.errors;
}

void Dies(const Environment& settings, int signal, const std::string& text,
          const std::function<void()>& body) {
  const Outcome outcome = RunChild(settings, body);
  ASSERT_TRUE(WIFSIGNALED(outcome.status)) << outcome.errors;
  EXPECT_EQ(WTERMSIG(outcome.status), signal) << outcome.errors;
  EXPECT_NE(outcome.errors.find(text), std::string::npos) << outcome.errors;
}

std::string ScratchPath(const std::string& name) {
  static const std::string folder = [] {
    std::string pattern = ::testing::TempDir() + "sim-test-XXXXXX";
    return std::string(mkdtemp(pattern.data()));
  }();
  return folder + "/" + name;
}

std::string ReadText(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

int CountThreads() {
  int count = 0;
  DIR* folder = opendir("/proc/self/task");
  while (const dirent* entry = readdir(folder)) {
    if (entry->d_name[0] != '.') ++count;
  }
  closedir(folder);
  return count;
}

}  // namespace stepagent::sim_test
