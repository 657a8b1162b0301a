#pragma once
// One batch's columns as records of the store.
//
// Purpose: the only place that knows the wire's column rules (absent column = zeros, deltas, ids).
// Thread rule: stateless functions on the owner's store.
// Failure rule: a section whose columns contradict its count is left out and its claim counted as
// invalid; a claim is never believed beyond limits.h.
#include "collector/model/range_matcher.h"
#include "collector/model/store.h"

namespace stepagent::v1 {
class Batch;
}

namespace stepagent::model {

struct DecodeTarget {
  Dictionary* dictionary;
  Records* records;
  RangeMatcher* ranges;
  Counts* received;  // entries, as the agent's LossReport counts them
  Counts* invalid;
};

void DecodeRecords(const v1::Batch& batch, const DecodeTarget& target);

}  // namespace stepagent::model
