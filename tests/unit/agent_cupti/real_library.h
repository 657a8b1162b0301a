#pragma once
// The CUPTI libraries that are installed on this machine, for tests that check against them.
#include <dlfcn.h>

#include <map>
#include <string>
#include <vector>

#include "agent/cupti/api_table.h"
#include "agent/cupti/loader.h"

namespace stepagent::cupti {

// One per API version; empty where there is none. Opened RTLD_LOCAL and kept.
inline const std::map<uint32_t, ApiTable>& RealLibraries() {
  static const auto* libraries = [] {
    auto* found = new std::map<uint32_t, ApiTable>();
    std::vector<Loader::Candidate> candidates = Loader::InToolkits();
    for (const char* soname : {"libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8"}) {
      candidates.push_back(Loader::Parse(soname));
    }
    for (const Loader::Candidate& candidate : candidates) {
      void* handle = dlopen(candidate.path.c_str(), RTLD_LAZY | RTLD_LOCAL);
      ApiTable api;
      uint32_t version = 0;
      if (handle == nullptr || !api.Fill(handle).empty()) continue;
      // The simulator's libraries may be on the loader's path; they are not what is meant here.
      if (dlsym(handle, "stepagent_sim_personality") != nullptr) continue;
      if (api.GetVersion(&version) == CUPTI_SUCCESS) found->emplace(version, api);
    }
    return found;
  }();
  return *libraries;
}

}  // namespace stepagent::cupti
