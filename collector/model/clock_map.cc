#include "collector/model/clock_map.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace stepagent::model {
namespace {

// adjtime and NTP slew by at most 500 ppm; twice that, and a millisecond for the taking, is a step.
constexpr int64_t kStepFloorNs = 1'000'000;
constexpr int64_t kSlewDivisor = 1'000;
// A change beyond what slewing gives may have come at once, anywhere between its two samples.
constexpr int64_t kFastestSlewDivisor = 2'000;
// Time asleep is told in ms, and reading two clocks takes its time.
constexpr int64_t kSuspendFloorMs = 2;
constexpr uint64_t kLongestSleepMs = uint64_t{100} * 365 * 86400 * 1000;
// A pair taken across an interrupt is many times wider than its peers.
constexpr uint32_t kBracketFactor = 8;
constexpr uint32_t kBracketFloorNs = 2'000;
// Samples kept before the oldest stamp still expected.
constexpr size_t kSamplesKept = 8;
constexpr size_t kMaxSamples = 1 << 16;

}  // namespace

void ClockMap::Add(TimeNs host_ns, int64_t real_ns, uint32_t bracket_ns, uint64_t suspended_ms) {
  if (all_.size() >= kMaxSamples) all_.erase(all_.begin(), all_.begin() + kMaxSamples / 2);
  all_.push_back({host_ns, real_ns, bracket_ns, std::min(suspended_ms, kLongestSleepMs)});
}

void ClockMap::Prepare(TimeNs from_ns) {
  std::stable_sort(all_.begin(), all_.end(),
                   [](const Sample& a, const Sample& b) { return a.host_ns < b.host_ns; });
  LeaveOutInterrupted();
  FindEpochs();
  size_t first = 0;
  while (first + 1 < samples_.size() && samples_[first + 1].host_ns <= from_ns) ++first;
  MeasureResidual(first);
  MeasureJumps(from_ns, first);
}

void ClockMap::LeaveOutInterrupted() {
  samples_ = all_;
  if (samples_.size() < 3) return;
  uint32_t narrowest = UINT32_MAX;
  for (const Sample& s : samples_) narrowest = std::min(narrowest, s.bracket_ns);
  const uint64_t limit = std::max<uint64_t>(kBracketFloorNs, uint64_t{narrowest} * kBracketFactor);
  std::vector<Sample> good;
  for (const Sample& s : samples_) {
    if (s.bracket_ns <= limit) good.push_back(s);
  }
  if (good.size() >= 2) samples_ = std::move(good);
}

void ClockMap::FindEpochs() {
  epochs_.clear();
  for (size_t i = 0; i < samples_.size(); ++i) {
    bool continues = !epochs_.empty();
    if (continues) {
      const Sample& before = samples_[i - 1];
      const int64_t host = samples_[i].host_ns - before.host_ns;
      const int64_t jump = (samples_[i].real_ns - before.real_ns) - host;
      continues = std::llabs(jump) <= kStepFloorNs + host / kSlewDivisor;
    }
    if (continues) {
      epochs_.back().last = i;
    } else {
      epochs_.push_back({i, i});
    }
  }
}

void ClockMap::MeasureResidual(size_t first) {
  residual_ns_.reset();
  uint64_t worst = 0;
  for (size_t i = first; i < samples_.size(); ++i) {
    uint64_t off = (samples_[i].bracket_ns + 1) / 2;
    const bool inner = i > 0 && i + 1 < samples_.size();
    if (inner) {
      const Sample &a = samples_[i - 1], &b = samples_[i], &c = samples_[i + 1];
      const double part = c.host_ns == a.host_ns ? 0.0
                                                 : static_cast<double>(b.host_ns - a.host_ns) /
                                                       static_cast<double>(c.host_ns - a.host_ns);
      const double offset_a = static_cast<double>(a.real_ns - a.host_ns - base_unix_ns_);
      const double offset_c = static_cast<double>(c.real_ns - c.host_ns - base_unix_ns_);
      const double offset_b = static_cast<double>(b.real_ns - b.host_ns - base_unix_ns_);
      const double error = std::fabs(offset_a + (offset_c - offset_a) * part - offset_b);
      if (error < static_cast<double>(kStepFloorNs)) off += static_cast<uint64_t>(error);
    }
    worst = std::max(worst, off);
    if (i > first) worst = std::max(worst, UnslewedNs(samples_[i - 1], samples_[i]));
  }
  if (!samples_.empty()) residual_ns_ = worst;
}

// A step too small to be told from a slew by its size alone; larger ones part epochs.
uint64_t ClockMap::UnslewedNs(const Sample& a, const Sample& b) {
  const int64_t host = b.host_ns - a.host_ns;
  const int64_t jump = std::llabs((b.real_ns - a.real_ns) - host);
  const int64_t reading = (int64_t{a.bracket_ns} + b.bracket_ns) / 2;
  const bool is_step = jump > kStepFloorNs + host / kSlewDivisor;
  if (is_step || jump <= host / kFastestSlewDivisor + reading) return 0;
  return static_cast<uint64_t>(jump);
}

void ClockMap::MeasureJumps(TimeNs from_ns, size_t first) {
  step_ns_ = 0;
  suspended_ms_ = 0;
  for (size_t i = first + 1; i < samples_.size(); ++i) {
    const uint64_t before = samples_[i - 1].suspended_ms, now = samples_[i].suspended_ms;
    if (now > before + uint64_t{kSuspendFloorMs}) suspended_ms_ += now - before;
  }
  for (size_t e = 1; e < epochs_.size(); ++e) {
    const Sample &a = samples_[epochs_[e - 1].last], &b = samples_[epochs_[e].first];
    if (b.host_ns < from_ns) continue;
    const int64_t jump = (b.real_ns - a.real_ns) - (b.host_ns - a.host_ns);
    // The wall clock goes on while the machine sleeps; the host's clock may or may not.
    const int64_t asleep_ns =
        1'000'000 * (static_cast<int64_t>(b.suspended_ms) - static_cast<int64_t>(a.suspended_ms));
    const int64_t unexplained = jump - asleep_ns;
    const bool was_asleep = asleep_ns > kSuspendFloorMs * 1'000'000;
    if (was_asleep && std::llabs(unexplained) <= kSuspendFloorMs * 1'000'000) continue;
    const int64_t step = std::llabs(unexplained) < std::llabs(jump) ? unexplained : jump;
    if (std::llabs(step) > std::llabs(step_ns_)) step_ns_ = step;
  }
  if (step_ns_ != 0 && residual_ns_) {
    residual_ns_ = std::max(*residual_ns_, static_cast<uint64_t>(std::llabs(step_ns_)));
  }
}

int64_t ClockMap::DistanceTo(const Epoch& epoch, int64_t real_ns) const {
  const int64_t first = samples_[epoch.first].real_ns, last = samples_[epoch.last].real_ns;
  if (real_ns < first) return first - real_ns;
  return real_ns > last ? real_ns - last : 0;
}

TimeNs ClockMap::ToHost(int64_t real_ns) const {
  if (epochs_.empty()) return real_ns - base_unix_ns_;
  const Epoch* best = &epochs_.back();
  if (epochs_.size() > 1) {
    // The later epoch wins a tie: after a step back, stamps are far more often new than old.
    int64_t nearest = DistanceTo(*best, real_ns);
    for (size_t i = epochs_.size() - 1; i-- > 0 && nearest > 0;) {
      const int64_t distance = DistanceTo(epochs_[i], real_ns);
      if (distance < nearest) nearest = distance, best = &epochs_[i];
    }
  }
  return ToHostIn(*best, real_ns);
}

TimeNs ClockMap::ToHostIn(const Epoch& epoch, int64_t real_ns) const {
  const auto begin = samples_.begin() + static_cast<std::ptrdiff_t>(epoch.first);
  const auto end = samples_.begin() + static_cast<std::ptrdiff_t>(epoch.last) + 1;
  const auto after = std::upper_bound(
      begin, end, real_ns, [](int64_t real, const Sample& s) { return real < s.real_ns; });
  if (after == begin) return real_ns - (begin->real_ns - begin->host_ns);
  const Sample& a = *(after - 1);
  const int64_t offset_a = a.real_ns - a.host_ns;
  if (after == end) return real_ns - offset_a;
  const int64_t offset_b = after->real_ns - after->host_ns;
  const double part =
      static_cast<double>(real_ns - a.real_ns) / static_cast<double>(after->real_ns - a.real_ns);
  const auto drift =
      static_cast<int64_t>(std::llround(static_cast<double>(offset_b - offset_a) * part));
  return real_ns - offset_a - drift;
}

void ClockMap::Forget(TimeNs before_ns) {
  size_t first = 0;
  while (first < all_.size() && all_[first].host_ns < before_ns) ++first;
  if (first <= kSamplesKept) return;
  all_.erase(all_.begin(), all_.begin() + static_cast<std::ptrdiff_t>(first - kSamplesKept));
}

}  // namespace stepagent::model
