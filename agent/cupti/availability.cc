#include "agent/cupti/availability.h"

namespace stepagent::cupti {
namespace {

struct Row {
  int result;
  const char* code;
  const char* sentence;
};

constexpr Row kDriverRows[] = {
    {34, "stub_driver",
     "libcuda.so.1 is the toolkit's stub library, which only serves linking: take the directory "
     "'stubs' out of LD_LIBRARY_PATH"},
    {100, "no_device",
     "the driver library found no CUDA device: check nvidia-smi, CUDA_VISIBLE_DEVICES and, in a "
     "container, that it was started with the devices (--gpus all)"},
    {101, "no_device", "no valid CUDA device: check CUDA_VISIBLE_DEVICES against nvidia-smi"},
    {3, "no_device",
     "cuInit does not succeed in this process: a child forked after its parent used CUDA cannot "
     "use "
     "it, start workers with spawn"},
    {304, "no_device",
     "the operating system refused the driver library (CUDA error 304): check the permissions of "
     "/dev/nvidia* and the container's device list"},
    {803, "driver_mismatch",
     "the driver library and the kernel module are of different versions: reboot after the "
     "driver's "
     "update, or mount the host's libcuda into the container"},
    {804, "driver_mismatch",
     "the CUDA compatibility package in use does not support this device: remove the directory "
     "'compat' from LD_LIBRARY_PATH or update the driver"},
    {802, "no_device",
     "the system is not ready for CUDA (error 802): the fabric manager may still be starting"},
};

constexpr Row kCuptiRows[] = {
    {35, "not_permitted",
     "the driver does not permit tracing to this user: run as root, add CAP_SYS_ADMIN, or load the "
     "kernel module with NVreg_RestrictProfilingToAdminUsers=0"},
    {40, "vgpu_not_permitted",
     "tracing is not enabled for this virtual GPU: ask the administrator to enable profiling for "
     "the vGPU"},
    {33, "vgpu_not_supported", "CUPTI does not support this kind of virtual GPU"},
    {41, "confidential_computing",
     "the device runs in confidential computing mode, which forbids tracing: use its devtools "
     "mode"},
    {42, "cmp_not_supported", "CUPTI does not support CMP devices"},
    {43, "mig_not_supported",
     "CUPTI does not support this MIG configuration: use a whole GPU instance or update the "
     "driver"},
    {44, "sli_not_supported", "CUPTI does not support devices in an SLI configuration"},
    {45, "wsl_not_supported",
     "CUPTI does not support this device under WSL: switch on the GPU performance counters for all "
     "users in the driver's settings on Windows, or update the driver"},
    {38, "device_not_supported", "the device is too old for this CUPTI"},
    {14, "not_compatible",
     "another CUPTI client of this process works in a mode that excludes ours: switch it off"},
    {8, "error", "CUPTI is out of memory"},
};

template <size_t N>
const Row* Find(const Row (&rows)[N], int result) {
  for (const Row& row : rows) {
    if (row.result == result) return &row;
  }
  return nullptr;
}

Reason SlotTaken(const std::string& holder) {
  Reason reason{"slot_taken", "another CUPTI client holds the one subscription"};
  if (!holder.empty()) reason.sentence += " (" + holder + ")";
  reason.sentence +=
      ": likely the application's own profiler (torch.profiler, TensorFlow, Proton) or nsys, ncu, "
      "cuda-gdb, compute-sanitizer, DCGM; stop it for the steps to be traced";
  return reason;
}

}  // namespace

std::string CudaVersionText(uint32_t version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

Reason NoDriverReason() {
  return {
      "no_driver",
      "no CUDA driver library (libcuda.so.1) is loaded in this process: the program has not used "
      "CUDA, or the driver is not installed here"};
}

Reason NotInitializedReason() {
  return {"cuda_not_initialized",
          "the CUDA driver library is loaded but this process has not initialised it (no cuInit)"};
}

Reason ForkedChildReason() {
  return {
      "forked_child",
      "this process was forked and has not initialised CUDA itself: CUDA does not survive a fork, "
      "start workers with spawn"};
}

Reason NotAskedReason() { return {"not_asked", "no device activity was asked for (--activities)"}; }

Reason FinalizedReason() {
  return {"cupti_finalized",
          "another CUPTI client of this process ended CUPTI (cuptiFinalize) while this cycle was "
          "collected: what came after is not known"};
}

Reason ReasonOfDriver(int result) {
  if (result == 0) return {};
  const Row* row = Find(kDriverRows, result);
  if (row != nullptr) return {row->code, row->sentence};
  return {"error", "cuInit failed with CUDA error " + std::to_string(result) +
                       ": the program itself cannot use the device"};
}

Reason ReasonOfCupti(const std::string& call, int result, const std::string& text,
                     const std::string& holder) {
  if (result == 0) return {};
  if (result == kCuptiSlotTaken) return SlotTaken(holder);
  const Row* row = Find(kCuptiRows, result);
  if (row != nullptr)
    return {row->code, std::string(row->sentence) + " [" + call + ": " + text + "]"};
  return {"error", call + " failed with " + text};
}

Reason CuptiMissingReason(uint32_t driver_version, const std::string& tried) {
  const std::string major = std::to_string(driver_version / 1000);
  std::string sentence = "no usable libcupti was found";
  if (!tried.empty()) sentence += " (" + tried + ")";
  sentence += ": install the CUDA " + major +
              " toolkit's CUPTI or the Python wheel nvidia-cuda-cupti, " +
              "or name the file in STEPAGENT_CUPTI";
  return {"cupti_missing", sentence};
}

Reason CuptiTooNewReason(const std::string& path, uint32_t cupti_version, uint32_t driver_version) {
  return {"cupti_too_new", path + " (CUPTI API " + std::to_string(cupti_version) +
                               ") does not work with this driver, which supports CUDA " +
                               CudaVersionText(driver_version) +
                               ": update the driver, or name an older libcupti in STEPAGENT_CUPTI"};
}

}  // namespace stepagent::cupti
