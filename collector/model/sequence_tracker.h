#pragma once
// Which batches of a session have been seen.
//
// Purpose: a batch sent twice (after a reconnect) counts once; one that never came is a loss.
// Thread rule: one owner. Failure rule: memory is bounded; gaps beyond the cap stay losses.
#include <cstdint>
#include <map>

namespace stepagent::model {

class SequenceTracker {
 public:
  // False: seen before.
  [[nodiscard]] bool Accept(uint64_t sequence);
  // Everything up to and including `last` must have been sent.
  void Expect(uint64_t last);
  [[nodiscard]] uint64_t missing() const { return missing_; }
  // Everything below was seen or is missing.
  [[nodiscard]] uint64_t next() const { return next_; }
  [[nodiscard]] bool IsAnyMissing(uint64_t first, uint64_t end) const;

 private:
  void AddGap(uint64_t first, uint64_t end);

  uint64_t next_ = 0;                  // everything below was seen or is in gaps_
  std::map<uint64_t, uint64_t> gaps_;  // [first, end)
  uint64_t missing_ = 0;
};

}  // namespace stepagent::model
