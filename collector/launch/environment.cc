#include "collector/launch/environment.h"

#include <algorithm>

namespace stepagent::launch {
namespace {

bool IsSanitizerRuntime(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  for (const char* prefix :
       {"libasan", "libtsan", "liblsan", "libubsan", "libhwasan", "libclang_rt."})
    if (name.starts_with(prefix)) return true;
  return false;
}

// An ASan runtime that the program itself is linked with refuses to come second in the list. We
// come first in every such program of the tree, replace nothing and need not come later (measured
// with GCC 12's runtime); the runtime itself offers the switch for it.
void AllowSanitizers(Environment* environment) {
  const std::string present = environment->Get("ASAN_OPTIONS");
  if (present.find("verify_asan_link_order") != std::string::npos) return;
  environment->Set("ASAN_OPTIONS",
                   present + (present.empty() ? "" : ":") + "verify_asan_link_order=0");
}

}  // namespace

Environment::Environment(char* const* entries) {
  for (; entries && *entries; ++entries) entries_.emplace_back(*entries);
}

bool Environment::Has(std::string_view name) const {
  return std::any_of(entries_.begin(), entries_.end(), [&](const std::string& e) {
    return e.size() > name.size() && e[name.size()] == '=' && e.starts_with(name);
  });
}

std::string Environment::Get(std::string_view name) const {
  for (const std::string& e : entries_)
    if (e.size() > name.size() && e[name.size()] == '=' && e.starts_with(name))
      return e.substr(name.size() + 1);
  return "";
}

void Environment::Set(std::string_view name, std::string_view value) {
  std::string entry = std::string(name) + "=" + std::string(value);
  for (std::string& e : entries_) {
    if (e.size() <= name.size() || e[name.size()] != '=' || !e.starts_with(name)) continue;
    e = std::move(entry);
    return;
  }
  entries_.push_back(std::move(entry));
}

void Environment::Unset(std::string_view name) {
  std::erase_if(entries_, [&](const std::string& e) {
    return e.size() > name.size() && e[name.size()] == '=' && e.starts_with(name);
  });
}

std::vector<char*> Environment::Pointers() {
  std::vector<char*> pointers;
  for (std::string& e : entries_) pointers.push_back(e.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::string ComposePreload(std::string_view present, const std::string& library) {
  std::string first, rest;
  while (!present.empty()) {
    const size_t end = std::min(present.find_first_of(" :"), present.size());
    const std::string_view entry = present.substr(0, end);
    present.remove_prefix(std::min(end + 1, present.size()));
    if (entry.empty() || entry == library) continue;
    std::string& list = IsSanitizerRuntime(entry) ? first : rest;
    list += std::string(IsSanitizerRuntime(entry) ? "" : ":") + std::string(entry) +
            (IsSanitizerRuntime(entry) ? ":" : "");
  }
  return first + library + rest;
}

void AddInjection(const std::string& library, Environment* environment,
                  std::vector<std::string>* notes) {
  environment->Set("LD_PRELOAD", ComposePreload(environment->Get("LD_PRELOAD"), library));
  AllowSanitizers(environment);
  for (const char* name : {"CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH"}) {
    const std::string taken = environment->Get(name);
    if (taken.empty())
      environment->Set(name, library);
    else if (taken != library)
      notes->push_back(std::string(name) + " is set to '" + taken +
                       "' and left as it is: stepagent may record less");
  }
}

}  // namespace stepagent::launch
