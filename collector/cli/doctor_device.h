#pragma once
// The doctor's own CUDA program: `stepagent doctor-device`, run under the agent as a child.
//
// Purpose: a known amount of device work through the driver that any program here would get, so
// that what was recorded can be compared with what was done, to the count.
// Thread rule: called once, from main. Failure rule: a line on stdout says which call failed, and
// the exit status is 1; 2: there is no driver library.
#include <cstdint>

namespace stepagent::cli {

inline constexpr const char* kDoctorDevice = "doctor-device";  // the subcommand
// Its line begins so where the driver library is the toolkit's, which only serves linking.
inline constexpr const char* kStubDriver = "libcuda.so.1 is the CUDA toolkit's stub library";
inline constexpr uint64_t kDoctorKernels = 8;
inline constexpr uint64_t kDoctorCopies = 4;
inline constexpr uint64_t kDoctorSets = 4;

[[nodiscard]] int DoctorDeviceMain();

}  // namespace stepagent::cli
