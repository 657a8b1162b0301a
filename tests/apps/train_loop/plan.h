// What a run of train_loop will do, worked out from its options alone.
//
// Thread rule: pure functions.
// Failure rule: none.
#pragma once

#include "config.h"
#include "support/tally.h"

Tally PlanSetup(const Config* config);
Tally PlanStep(const Config* config, uint32_t step);
Tally PlanTeardown(const Config* config);

// The whole plan as one JSON document.
void PrintPlan(FILE* out, const Config* config);
