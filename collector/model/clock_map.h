#pragma once
// Maps device stamps (CLOCK_REALTIME base) onto the session's clock.
//
// Purpose: piecewise linear between sampled pairs, because the wall clock is slewed; never through
// a step of the wall clock, which splits the samples into epochs. Thread rule: one owner; after
// Prepare() the const members may be shared. Failure rule: with no sample the session's base is
// used and ResidualNs() is empty.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "collector/model/cycle.h"

namespace stepagent::model {

class ClockMap {
 public:
  // `base_unix_ns`: CLOCK_REALTIME at session clock 0.
  explicit ClockMap(int64_t base_unix_ns) : base_unix_ns_(base_unix_ns) {}

  // `suspended_ms`: how long the machine had been asleep since its start.
  void Add(TimeNs host_ns, int64_t real_ns, uint32_t bracket_ns, uint64_t suspended_ms = 0);
  // Sorts, leaves out samples that were interrupted while taken, finds steps of the wall clock.
  // Only samples at or after the last one before `from_ns` count for steps and the residual.
  void Prepare(TimeNs from_ns);
  [[nodiscard]] TimeNs ToHost(int64_t real_ns) const;
  // The mapping's uncertainty: half the widest bracket plus how far a sample lies off the line
  // between its neighbours; and where the wall clock stepped, by how much, because a stamp between
  // the two samples around it may be from before or after.
  [[nodiscard]] std::optional<uint64_t> ResidualNs() const { return residual_ns_; }
  // The largest jump of the wall clock between two samples, 0 for none; what a suspend of the
  // machine explains is no jump.
  [[nodiscard]] int64_t StepNs() const { return step_ns_; }
  // How long the machine was asleep, as far as that matters here.
  [[nodiscard]] uint64_t SuspendedMs() const { return suspended_ms_; }
  // Forgets samples that no stamp after `before_ns` needs.
  void Forget(TimeNs before_ns);

 private:
  struct Sample {
    TimeNs host_ns;
    int64_t real_ns;
    uint32_t bracket_ns;
    uint64_t suspended_ms;
  };
  struct Epoch {  // samples [first, last] between which the wall clock did not step
    size_t first, last;
  };
  [[nodiscard]] TimeNs ToHostIn(const Epoch& epoch, int64_t real_ns) const;
  [[nodiscard]] int64_t DistanceTo(const Epoch& epoch, int64_t real_ns) const;
  void LeaveOutInterrupted();
  void FindEpochs();
  void MeasureResidual(size_t first);
  [[nodiscard]] static uint64_t UnslewedNs(const Sample& a, const Sample& b);
  void MeasureJumps(TimeNs from_ns, size_t first);

  int64_t base_unix_ns_;
  std::vector<Sample> all_;
  std::vector<Sample> samples_;
  std::vector<Epoch> epochs_;
  std::optional<uint64_t> residual_ns_;
  int64_t step_ns_ = 0;
  uint64_t suspended_ms_ = 0;
};

}  // namespace stepagent::model
