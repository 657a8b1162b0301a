// Kineto JSON with wrong bytes, and a file that is no JSON at all.
#include "collector/analysis/kineto_reader.h"
#include "tests/fuzz/readers/mutate.h"

namespace {

constexpr const char* kValid =
    R"json({"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "gpu"}],
"distributedInfo": {"rank": 1, "world_size": 2}, "baseTimeNanoseconds": 1700000000000000000,
"traceEvents": [
{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 9, "tid": 9, "ts": 10.5, "dur": 90},
{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 9, "ts": 12.001, "dur": 3,
 "args": {"correlation": 7, "cbid": 211}},
{"ph": "X", "cat": "kernel", "name": "gemm<\u0041>", "pid": 0, "tid": 7, "ts": 20, "dur": 30.25,
 "args": {"correlation": 7, "device": 0, "stream": 7, "grid": [1, 2, 3], "block": [32, 1, 1]}},
{"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pageable -> Device)", "pid": 0, "tid": 7, "ts": 55,
 "dur": 4, "args": {"correlation": 8, "bytes": 4096}},
{"ph": "s", "id": 7, "pid": 9, "tid": 9, "ts": 12.001, "cat": "ac2g", "name": "ac2g"},
{"ph": "f", "id": 7, "pid": 0, "tid": 7, "ts": 20, "cat": "ac2g", "name": "ac2g", "bp": "e"},
{"ph": "M", "name": "process_name", "pid": 9, "args": {"name": "python"}}]})json";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* input, size_t bytes) {
  const std::string text = stepagent::fuzz::Reading(kValid, input, bytes);
  const stepagent::fuzz::MemoryFile file(text);
  if (file.ok()) (void)stepagent::analysis::ReadKinetoFile(file.path());
  return 0;
}
