#pragma once
// CallbackCatalog: which API functions we listen to, and what each one is.
//
// Purpose: callback id -> class and name, made from the loaded library's own names at run time, so
// that no table of ids is shipped and functions of later versions are classed by their names.
// Thread rule: Build on the thread `stepagent` before any callback is on; Site() is hot path A.
// Failure rule: an id beyond the table is not listened to.
#include <cstdint>
#include <string_view>
#include <vector>

#include "agent/core/name_table.h"
#include "agent/core/record.h"
#include "agent/cupti/api_table.h"
#include "agent/cupti/transfer_size.h"

namespace stepagent::cupti {

inline constexpr uint32_t kDomainDriver = 1;
inline constexpr uint32_t kDomainRuntime = 2;
inline constexpr uint32_t kDomainResource = 3;
inline constexpr uint32_t kDomainState = 6;
inline constexpr uint32_t kGraphNodeCreated = 13;  // resource domain
inline constexpr uint32_t kStateFatalError = 1;    // state domain

struct CallSite {
  core::NameId name = 0;
  core::CallClass call_class = core::CallClass::kOther;
  TransferSize size;  // of a copy or set
};

class CallbackCatalog {
 public:
  static constexpr uint32_t kMaxCallbackId = 2048;  // 13.0 has 806 driver and 522 runtime functions

  struct Function {
    uint32_t domain;
    uint32_t cbid;
    core::CallClass call_class;
  };

  void Build(const ApiTable& api);
  [[nodiscard]] const std::vector<Function>& functions() const { return functions_; }

  // `domain` is driver or runtime, `cbid` below kMaxCallbackId.
  [[nodiscard]] static const CallSite& Site(uint32_t domain, uint32_t cbid) noexcept;

  // The class of an API function by its name as CUPTI has it (with version suffixes); kOther: we do
  // not listen to it. Pure.
  [[nodiscard]] static core::CallClass Classify(std::string_view name);
  // The name as shown: the runtime's four-or-more-digit version is cut off ("_v7000"), "_v2" stays.
  [[nodiscard]] static std::string_view Shown(std::string_view name);

 private:
  void BuildDomain(const ApiTable& api, uint32_t domain);

  std::vector<Function> functions_;
};

}  // namespace stepagent::cupti
