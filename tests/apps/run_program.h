// Runs a program of the build and keeps what came of it.
//
// Thread rule: one thread.
// Failure rule: a program that cannot be started has status 127, as in a shell.
#pragma once

#include <string>

namespace stepagent::apps {

constexpr int kSkipped = 77;

struct Outcome {
  int status = 0;  // exit status, or 128 + signal
  std::string output;
};

// Runs a shell command line with the build's programs in PATH; a shell, because half of the tests
// want a signal or a pipe around the program.
Outcome Execute(const std::string& command, const std::string& library_path = "");

// The same with the simulated libraries in the library path.
Outcome ExecuteSimulated(const std::string& command);

// The folders of the simulated libraries, and whether they are built.
std::string SimulatedLibraries();
bool HasSimulator();

}  // namespace stepagent::apps
