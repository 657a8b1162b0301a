#pragma once
// CallbackTime: how many callbacks there were, and what those that were timed took.
//
// Purpose: what the callbacks of a cycle took is told from the samples of that cycle alone. Totals
// scaled first and then subtracted would charge a cycle for what samples of another told, and might
// come out below nothing.
// Thread rule: a value. Failure rule: without a sample nothing is told.
#include <cstdint>
#include <optional>

namespace stepagent::cupti {

struct CallbackTime {
  uint64_t callbacks = 0;  // all of them: an enter and an exit count one each
  uint64_t samples = 0;    // those that were timed
  uint64_t ticks = 0;      // of the timed ones, without the reading of the clock

  // What all callbacks since `before` took; nullopt: none of them was timed.
  [[nodiscard]] std::optional<uint64_t> TicksSince(const CallbackTime& before) const noexcept {
    if (samples <= before.samples || ticks < before.ticks || callbacks < before.callbacks) {
      return std::nullopt;
    }
    const double each =
        static_cast<double>(ticks - before.ticks) / static_cast<double>(samples - before.samples);
    return static_cast<uint64_t>(each * static_cast<double>(callbacks - before.callbacks));
  }
};

}  // namespace stepagent::cupti
