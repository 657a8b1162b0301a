#pragma once
// The hot paths as a caller meets them, for the timed and for the counted programs alike.
//
// Purpose: record_bench times these and instruction_probe counts their instructions, so both speak
// of the same code.
// Thread rule: SetUpHotPaths once, the rest on any thread.
// Failure rule: SetUpHotPaths answers false when the agent's parts cannot be set up.
#include <cstddef>
#include <cstdint>

namespace stepagent::bench {

// Phase words, clock, names, our NVTX tool in this program's client, a catalogue of calls.
[[nodiscard]] bool SetUpHotPaths();

// One launch record into the thread's ring, as the exit callback appends it. Not inlined.
void AppendLaunch(uint32_t number);
// cuLaunchKernel's two callbacks, through the function that CUPTI calls.
void EnterAndExitLaunch(uint32_t number);
// nvtxRangePushA and nvtxRangePop through the client in which our tool is.
void Pair(const char* name);
// The same with a domain and a registered string.
void RegisteredPair();
// And through a client that no tool was ever offered to.
void UntouchedPair(const char* name);
// A CUPTI buffer asked for and given back, through the functions that CUPTI calls; the pool behind
// is emptied as the decoder does.
void RequestAndComplete();

}  // namespace stepagent::bench
