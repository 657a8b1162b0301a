#include "agent/cupti/api_table.h"

#include <dlfcn.h>

namespace stepagent::cupti {

std::string ApiTable::Fill(void* handle) {
  std::string missing;
#define STEPAGENT_LOOK_UP(name, type, required)                \
  name = reinterpret_cast<type>(dlsym(handle, "cupti" #name)); \
  if (name == nullptr && (required) && missing.empty()) missing = "cupti" #name;
  STEPAGENT_CUPTI_FUNCTIONS(STEPAGENT_LOOK_UP)
#undef STEPAGENT_LOOK_UP
  return missing;
}

std::string ApiTable::ResultText(int result) const {
  const char* text = nullptr;
  if (GetResultString != nullptr &&
      GetResultString(static_cast<CUptiResult>(result), &text) == CUPTI_SUCCESS &&
      text != nullptr) {
    return std::string(text) + " (" + std::to_string(result) + ")";
  }
  return "CUPTI error " + std::to_string(result);
}

}  // namespace stepagent::cupti
