#pragma once
// TransferSize: where a copy's or a set's size stands among the parameters of its call.
//
// Purpose: a call that is asked to move or set nothing succeeds and reaches no device, so that no
// device record is to be awaited for it. Frameworks make such calls by the hundred in a step.
// Thread rule: pure. Failure rule: a function whose size is not known here, or lies behind a
// pointer, is taken to have work.
#include <cstdint>
#include <string_view>

namespace stepagent::cupti {

// Offsets of the size_t's whose product is the size; 0 means none, the target being at 0.
struct TransferSize {
  uint8_t first = 0, second = 0;
};

// `name` as CUPTI has it, with its suffixes of version and stream mode.
[[nodiscard]] TransferSize TransferSizeOf(std::string_view name);

}  // namespace stepagent::cupti
