#pragma once
// The CUPTI libraries that are installed on this machine, for tests that check against them.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "agent/cupti/api_table.h"
#include "agent/cupti/loader.h"

namespace stepagent::cupti {

// In a child, because 13.2 without a driver recurses in its first call until the stack ends.
inline bool SurvivesItsFirstCall(const ApiTable& api) {
  const pid_t child = fork();
  if (child == 0) {
    uint32_t version = 0;
    _exit(api.GetVersion(&version) == CUPTI_SUCCESS ? 0 : 1);
  }
  int status = 0;
  return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

// One per API version; empty where there is none. Opened RTLD_LOCAL and kept. STEPAGENT_TEST_CUPTI
// may name more files, separated by colons. A driver library is mapped first where there is one.
inline const std::map<uint32_t, ApiTable>& RealLibraries() {
  static const auto* libraries = [] {
    auto* found = new std::map<uint32_t, ApiTable>();
    (void)dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    std::vector<std::string> paths;
    for (const Loader::Candidate& candidate : Loader::InToolkits()) paths.push_back(candidate.path);
    const char* more = std::getenv("STEPAGENT_TEST_CUPTI");
    std::istringstream list(more != nullptr ? more : "");
    for (std::string path; std::getline(list, path, ':');) paths.push_back(path);
    for (const std::string& path : paths) {
      void* handle = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
      ApiTable api;
      uint32_t version = 0;
      if (handle == nullptr || !api.Fill(handle).empty() || !SurvivesItsFirstCall(api)) continue;
      if (api.GetVersion(&version) == CUPTI_SUCCESS) found->emplace(version, api);
    }
    return found;
  }();
  return *libraries;
}

}  // namespace stepagent::cupti
