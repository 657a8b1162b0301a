// Names of API functions by callback id; the tables are generated from the vendor's header at
// configure time. Threads: constant. Failure: NULL for a number without a name.
#pragma once

#include <cstdint>

namespace stepagent::sim {

const char* DriverFunctionName(uint32_t cbid);
const char* RuntimeFunctionName(uint32_t cbid);

}  // namespace stepagent::sim
