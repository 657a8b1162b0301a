#pragma once
// A builder whose batches are read back by libprotobuf, and columns as plain values.
//
// Thread rule: one thread. Failure rule: pure, but for the expectations.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <string>

#include "agent/core/clock.h"
#include "agent/core/name_table.h"
#include "agent/drain/batch_builder.h"
#include "agent/drain/cycle_report.h"
#include "batch.pb.h"

namespace stepagent::drain {

using core::HostClock;
using core::NameTable;

class BatchBuilderTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    ASSERT_TRUE(NameTable::Init());
    HostClock::Start();
    (void)HostClock::Calibrate(true);
  }
  v1::Batch Close(uint64_t sequence = 0, uint32_t cycle = 0) {
    const std::string bytes = builder_.Finish(sequence, 12345, cycle, totals_, gauges_);
    v1::Batch batch;
    EXPECT_TRUE(batch.ParseFromString(bytes));
    // The same bytes from the other encoder: field order, widths and defaults agree.
    EXPECT_EQ(batch.SerializeAsString(), bytes);
    EXPECT_TRUE(builder_.empty());
    last_bytes_ = bytes.size();
    return batch;
  }

  BatchBuilder builder_{{.run = "20260801T000000_0badcafe",
                         .session = "0123456789abcdef",
                         .host = "node\xff"
                                 "1",
                         .rank = 3}};
  KindTotals totals_[kActivityKinds];
  Gauges gauges_;
  size_t last_bytes_ = 0;
};

// A column of the wire as plain values: absent means zeros.
template <typename Repeated>
auto At(const Repeated& column, uint32_t row) -> std::decay_t<decltype(column[0])> {
  return column.size() == 0 ? 0 : column[static_cast<int>(row)];
}
template <typename Repeated>
void ExpectLength(const Repeated& column, uint32_t count) {
  EXPECT_TRUE(column.size() == 0 || static_cast<uint32_t>(column.size()) == count);
}
class Sum {
 public:
  template <typename Repeated>
  uint64_t Next(const Repeated& column, uint32_t row) {
    return value_ += static_cast<uint64_t>(At(column, row));
  }

 private:
  uint64_t value_ = 0;
};

inline std::map<uint32_t, std::string> StringsOf(const v1::Batch& batch) {
  std::map<uint32_t, std::string> strings;
  EXPECT_EQ(batch.strings().id_size(), batch.strings().text_size());
  for (int i = 0; i < batch.strings().id_size(); ++i) {
    strings[batch.strings().id(i)] = batch.strings().text(i);
  }
  return strings;
}

inline core::KernelActivity RandomKernel(std::mt19937_64* random) {
  core::KernelActivity k{};
  auto& r = *random;
  k.start_ns = 1'790'000'000'000'000'000 + r() % 1000000000;
  k.end_ns = k.start_ns + r() % 100000;
  const uint64_t odd = r() % 50;
  if (odd == 0) k.start_ns = k.end_ns = 0;
  if (odd == 1) k.end_ns = 0;
  if (odd == 2) k.end_ns = k.start_ns - 1 - r() % 1000;
  k.lane = {.device = static_cast<int32_t>(r() % 3),
            .context = 1,
            .stream = r() % 4,
            .channel = static_cast<uint32_t>(r() % 2),
            .channel_type = 1};
  k.name = NameTable::Intern("_Z6kernel" + std::to_string(r() % 40));
  k.correlation = static_cast<uint32_t>(r());
  for (uint32_t& v : k.grid) v = static_cast<uint32_t>(1 + r() % 4);
  for (uint32_t& v : k.block) v = static_cast<uint32_t>(32 + r() % 4);
  for (uint32_t& v : k.cluster) v = static_cast<uint32_t>(r() % 2);
  k.registers_per_thread = static_cast<uint32_t>(r() % 3);
  k.static_shared_bytes = static_cast<uint32_t>(r() % 2 * 1024);
  k.dynamic_shared_bytes = static_cast<uint32_t>(r() % 2 * 65536);
  k.local_bytes_per_thread = static_cast<uint32_t>(r() % 2);
  k.graph_id = static_cast<uint32_t>(r() % 2 * 7);
  k.graph_node_id = k.graph_id == 0 ? 0 : r();
  k.flags = r() % 9 == 0 ? core::kDeviceLaunched : 0;
  return k;
}

}  // namespace stepagent::drain
