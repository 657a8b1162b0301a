// Runs a test's body in a forked child, so that each has its own settings, its own simulator and
// its own end: the simulator reads its settings once per process, and some tests must abort.
//
// Threads: call from the test's main thread, before anything touched the simulator. Failure: a
// failed expectation in the child fails the parent's test.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <initializer_list>
#include <string>
#include <utility>

namespace stepagent::sim_test {

// Sanitizers have threads, costs and signal handlers of their own.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kIsSanitized = true;
#else
constexpr bool kIsSanitized = false;
#endif
#define SKIP_IF_SANITIZED() \
  if (::stepagent::sim_test::kIsSanitized) GTEST_SKIP() << "not under a sanitizer"

using Environment = std::initializer_list<std::pair<const char*, std::string>>;

struct Outcome {
  int status = 0;  // as waitpid says
  std::string errors;
};

// Runs body() in a child with the settings added (names without STEPAGENT_SIM_).
Outcome RunChild(const Environment& settings, const std::function<void()>& body);

// The body must end with all expectations met.
void Isolated(const Environment& settings, const std::function<void()>& body);

// The body must die by this signal, with that text on standard error.
void Dies(const Environment& settings, int signal, const std::string& text,
          const std::function<void()>& body);

// A path in a folder of its own for this process.
std::string ScratchPath(const std::string& name);
std::string ReadText(const std::string& path);
int CountThreads();

}  // namespace stepagent::sim_test
