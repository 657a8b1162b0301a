#pragma once
// CUDA_CALLCHAINS: the stacks of launches as rows, one a frame.
//
// Purpose: CUPTI_ACTIVITY_KIND_RUNTIME.callchainId leads there. The table exists only where some
// call has a stack. Thread rule and failure rule: those of SqliteFile.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "collector/model/cycle.h"
#include "collector/writers/sqlite_file.h"

namespace stepagent::writers {

// NULL: no stack was taken. From 1: readers take 0 for none.
[[nodiscard]] std::optional<int64_t> CallchainId(const model::Cycle& cycle,
                                                 const model::Call& call);
// `string` gives the StringIds number of a text. Returns the rows written.
uint64_t WriteCallchains(const model::Cycle& cycle, SqliteFile& file,
                         const std::function<int64_t(const std::string&)>& string);

}  // namespace stepagent::writers
