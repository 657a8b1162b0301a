#pragma once
// Records that an agent lost, by why.
//
// Purpose: agents report running totals; who counts over sessions needs what each report adds.
// Thread rule: plain data. Failure rule: an older report than the last one adds nothing.
#include <array>
#include <cstdint>
#include <string_view>

#include "batch.pb.h"

namespace stepagent::ingest {

struct LossCounts {
  static constexpr std::array<std::string_view, 6> kReasons = {"ring_full",    "no_ring", "uplink",
                                                               "cupti_buffer", "limit",   "decode"};
  std::array<uint64_t, kReasons.size()> counts{};

  // Raises these to the report's totals and returns the difference.
  LossCounts Raise(const v1::LossReport& report) {
    LossCounts now, more;
    for (const v1::KindLoss& k : report.kinds()) {
      const uint64_t by_reason[] = {k.dropped_ring_full(), k.dropped_no_ring(), k.dropped_uplink(),
                                    k.dropped_cupti(),     k.dropped_limit(),   k.invalid()};
      for (size_t i = 0; i < counts.size(); ++i) now.counts[i] += by_reason[i];
    }
    for (size_t i = 0; i < counts.size(); ++i) {
      if (now.counts[i] <= counts[i]) continue;
      more.counts[i] = now.counts[i] - counts[i];
      counts[i] = now.counts[i];
    }
    return more;
  }
};

}  // namespace stepagent::ingest
