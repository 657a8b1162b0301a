#include "agent/cupti/callback_catalog.h"

namespace stepagent::cupti {
namespace {

using core::CallClass;

// Ids are dense; this many unnamed ones in a row mean the end.
constexpr uint32_t kGapThatEnds = 64;

CallSite g_sites[2][CallbackCatalog::kMaxCallbackId];

// What may follow a family's name: nothing, or a suffix of version or stream mode.
bool IsWholeName(std::string_view rest) { return rest.empty() || rest.front() == '_'; }

struct Rule {
  std::string_view prefix;
  bool is_whole;  // the name ends here, but for suffixes
  CallClass call_class;
};
// First match wins; after "cu" or "cuda" was taken off.
constexpr Rule kRules[] = {
    {"LaunchHostFunc", false, CallClass::kOther},  // runs on the host
    {"Launch", false, CallClass::kLaunch},
    {"GraphLaunch", true, CallClass::kGraphLaunch},
    {"Memcpy", false, CallClass::kMemcpy},
    {"Memset", false, CallClass::kMemset},  // MemSetAccess and the like have a capital S
    {"CtxSynchronize", true, CallClass::kSync},
    {"DeviceSynchronize", true, CallClass::kSync},
    {"ThreadSynchronize", true, CallClass::kSync},
    {"StreamSynchronize", true, CallClass::kSync},
    {"EventSynchronize", true, CallClass::kSync},
    {"MemAlloc", false, CallClass::kAlloc},
    {"MemHostAlloc", false, CallClass::kAlloc},
    {"MemFree", false, CallClass::kAlloc},
    {"Malloc", false, CallClass::kAlloc},
    {"HostAlloc", false, CallClass::kAlloc},
    {"Free", false, CallClass::kAlloc},
};

std::string_view WithoutPrefix(std::string_view name) {
  for (std::string_view prefix : {std::string_view("__cuda"), std::string_view("cuda"),
                                  std::string_view("cu64"), std::string_view("cu")}) {
    if (name.substr(0, prefix.size()) == prefix) return name.substr(prefix.size());
  }
  return {};
}

}  // namespace

CallClass CallbackCatalog::Classify(std::string_view name) {
  const std::string_view rest = WithoutPrefix(name);
  for (const Rule& rule : kRules) {
    if (rest.substr(0, rule.prefix.size()) != rule.prefix) continue;
    if (rule.is_whole && !IsWholeName(rest.substr(rule.prefix.size()))) continue;
    return rule.call_class;
  }
  return CallClass::kOther;
}

std::string_view CallbackCatalog::Shown(std::string_view name) {
  const size_t at = name.rfind("_v");
  if (at == std::string_view::npos || name.size() - at - 2 < 4) return name;
  for (char c : name.substr(at + 2)) {
    if (c < '0' || c > '9') return name;
  }
  return name.substr(0, at);
}

const CallSite& CallbackCatalog::Site(uint32_t domain, uint32_t cbid) noexcept {
  return g_sites[domain - kDomainDriver][cbid];
}

void CallbackCatalog::BuildDomain(const ApiTable& api, uint32_t domain) {
  uint32_t gap = 0;
  for (uint32_t cbid = 1; cbid < kMaxCallbackId && gap < kGapThatEnds; ++cbid) {
    const char* name = nullptr;
    const auto result = api.GetCallbackName(static_cast<CUpti_CallbackDomain>(domain), cbid, &name);
    if (result != CUPTI_SUCCESS || name == nullptr) {
      ++gap;
      continue;
    }
    gap = 0;
    const CallClass call_class = Classify(name);
    if (call_class == CallClass::kOther) continue;
    g_sites[domain - kDomainDriver][cbid] = {core::NameTable::Intern(Shown(name)), call_class,
                                             TransferSizeOf(name)};
    functions_.push_back({domain, cbid, call_class});
  }
}

void CallbackCatalog::Build(const ApiTable& api) {
  functions_.clear();
  BuildDomain(api, kDomainDriver);
  BuildDomain(api, kDomainRuntime);
}

}  // namespace stepagent::cupti
