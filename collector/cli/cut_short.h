#pragma once
// Cycles that are not all they were to be, said alike by every reader.
//
// Thread rule: pure but for looking at the file. Failure rule: "" where there is nothing to say.
#include <string>

#include "collector/model/cycle.h"

namespace stepagent::cli {

// "ORIGIN: cut short (killed)" for an end that loses data; an end by schedule, signal, request or
// exit is what was asked for.
[[nodiscard]] std::string CutShortLine(const std::string& origin, bool is_complete,
                                       const std::string& ended, const std::string& reason);

// Whether what is read of a raw file is only what came so far: a collector holds it, or its
// process lives.
[[nodiscard]] bool GoesOn(const std::string& raw_path);
// Such a cycle was not killed: it has no end yet.
void NoteGoesOn(model::Cycle* cycle);

}  // namespace stepagent::cli
