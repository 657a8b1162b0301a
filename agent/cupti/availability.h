#pragma once
// Availability: why device collection is not possible, and what to do about it.
//
// Purpose: one table from result codes to a short code for programs and a sentence for a person.
// Thread rule: pure functions. Failure rule: an unknown code is "error" with the number in the
// text. CUPTI's codes alone do not tell "no driver" from "no device" from "stub": those come from
// the driver's own result. 15 (to 12.x) and 999 (13.0) mean the same.
#include <cstdint>
#include <string>

namespace stepagent::cupti {

struct Reason {
  std::string code;  // batch.proto GpuStatus.reason_code
  std::string sentence;
  [[nodiscard]] bool is_set() const { return !code.empty(); }
};

// Results of CUPTI that mean something here.
enum : int {
  kCuptiOk = 0,
  kCuptiNotCompatible = 14,
  kCuptiNotInitialized = 15,
  kCuptiInvalidKind = 21,
  kCuptiSlotTaken = 39,
  kCuptiUnknown = 999,
};
[[nodiscard]] constexpr bool MeansNotInitialized(int result) {
  return result == kCuptiNotInitialized || result == kCuptiUnknown;
}

[[nodiscard]] Reason NoDriverReason();
[[nodiscard]] Reason NotInitializedReason();
[[nodiscard]] Reason ForkedChildReason();
[[nodiscard]] Reason NotAskedReason();
// cuptiFinalize by somebody else, while we collected.
[[nodiscard]] Reason FinalizedReason();
// From cuInit or cuDriverGetVersion; not set for 0.
[[nodiscard]] Reason ReasonOfDriver(int result);
// From a CUPTI call. `text` is the library's own name of the code; `holder` may be empty.
[[nodiscard]] Reason ReasonOfCupti(const std::string& call, int result, const std::string& text,
                                   const std::string& holder);
[[nodiscard]] Reason CuptiMissingReason(uint32_t driver_version, const std::string& tried);
[[nodiscard]] Reason CuptiTooNewReason(const std::string& path, uint32_t cupti_version,
                                       uint32_t driver_version);
// "12.4" from 12040.
[[nodiscard]] std::string CudaVersionText(uint32_t version);

}  // namespace stepagent::cupti
