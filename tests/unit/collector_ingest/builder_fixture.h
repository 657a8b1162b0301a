#pragma once
// What the tests of the cycle builder share.
//
// Thread rule: one thread. Failure rule: pure, but for the expectations.
#include <algorithm>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "collector/model/builder.h"
#include "tests/support/batch_factory.h"

namespace stepagent::model {

using test::BatchFactory;
using Event = v1::CycleEvent;

inline constexpr int64_t kMs = 1'000'000;

inline std::vector<Cycle> Build(const BatchFactory& agent, const std::vector<v1::Batch>& batches) {
  CycleBuilder builder(agent.Hello());
  std::vector<Cycle> cycles;
  for (const v1::Batch& batch : batches) {
    builder.Add(batch);
    for (Cycle& cycle : builder.TakeClosed()) cycles.push_back(std::move(cycle));
  }
  return cycles;
}

inline void ExpectBalanced(const Cycle& cycle) {
  for (size_t i = 1; i < kActivityCount; ++i) {
    const Balance& b = cycle.balance[i];
    if (!b.produced) continue;
    EXPECT_EQ(*b.produced, *b.written + *b.dropped + *b.out_of_window + *b.invalid)
        << ActivityName(static_cast<Activity>(i));
  }
}

inline const Balance& Of(const Cycle& cycle, Activity a) { return cycle.balance[static_cast<size_t>(a)]; }

inline const std::string& NoteText(const Cycle& cycle, const std::string& code) {
  static const std::string kNone;
  for (const Note& note : cycle.notes) {
    if (note.code == code) return note.text;
  }
  return kNone;
}

inline bool HasNote(const Cycle& cycle, const std::string& code) {
  return std::any_of(cycle.notes.begin(), cycle.notes.end(),
                     [&](const Note& n) { return n.code == code; });
}

}  // namespace stepagent::model
