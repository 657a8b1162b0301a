// Names of API functions by callback id; the tables are generated from the vendor's header at
// configure time. Threads: constant. Failure: NULL for a number without a name.
#pragma once

#include <cstdint>

namespace stepagent::sim {

const char* DriverFunctionName(uint32_t cbid);
const char* RuntimeFunctionName(uint32_t cbid);
// What that generation called the function, where it was another name than today's.
const char* OldRuntimeFunctionName(uint32_t cbid, uint32_t api_version);

}  // namespace stepagent::sim
