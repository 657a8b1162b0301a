#pragma once
// Steps that ended behind a cycle, put into its documents.
//
// Purpose: manifest.json, summary.json, summary.txt and steps.csv are written when a cycle ends;
// the steps behind it are told with the next cycle's report or with the goodbye. Their times go
// into `all_steps` and `cost` then, at most once each, and into nothing else: no trace changes.
// Thread rule: as WriteCycle: one call at a time per place.
// Failure rule: the new documents are all on the disk before the first is renamed, so that a full
// one changes nothing; the manifest, which has the others' digests, takes its name last. "" or
// "path: what"; a cycle without a manifest is left as it is.
#include <string>

#include "collector/ingest/cycle_output.h"
#include "collector/model/cycle.h"

namespace stepagent::ingest {

[[nodiscard]] std::string AmendCycle(const model::LaterSteps& later, const CyclePlace& place);

}  // namespace stepagent::ingest
