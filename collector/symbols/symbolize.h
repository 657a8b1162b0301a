#pragma once
// Gives the frames of a cycle's stacks their names.
//
// Purpose: addresses become functions, demangled, with the ones inlined there as frames of their
// own; done when a cycle is written, on the host where its files are. Used live and by `convert`.
// Thread rule: one cycle, one thread.
// Failure rule: a frame that has no name keeps its module and address; files that are gone or are
// not the build that ran are named in the cycle's notes. Bounded by the caps in symbolize.cc, which
// depend on nothing but the cycle and the files: the same input gives the same names.
#include "collector/model/cycle.h"

namespace stepagent::symbols {

void Symbolize(model::Cycle* cycle);

}  // namespace stepagent::symbols
