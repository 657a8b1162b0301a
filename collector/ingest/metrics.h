#pragma once
// What this collector has seen, as Prometheus reads it.
//
// Purpose: counters over the collector's life, rendered on request: base units, `_total` counters,
// labels from small fixed sets only (kinds, reasons, formats, devices, ranks; never names or pids).
// Thread rule: any thread; one mutex, held for additions and for rendering. Failure rule: beyond
// kMostRanks or kMostDevices the rest shares the label "other".
#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "collector/ingest/cycle_output.h"
#include "collector/ingest/loss_counts.h"
#include "collector/ingest/pipeline.h"
#include "collector/model/cycle.h"

namespace stepagent::ingest {

class Metrics {
 public:
  // A trace's worth of series is about 30 lines per rank: a scrape stays below a megabyte.
  static constexpr size_t kMostRanks = 256;
  static constexpr size_t kMostDevices = 64;

  explicit Metrics(std::string version) : version_(std::move(version)) {}
  // A written cycle.
  void AddCycle(const model::Cycle& cycle, const CycleOutput& output, int64_t now_unix_ns);
  // Losses that an agent told of.
  void AddLosses(const LossCounts& losses);
  // What could not be written: `spool` (a frame into raw.steps) or `trace` (a cycle's files). `error`
  // ends in the system's text.
  void AddSinkError(std::string_view sink, const std::string& error);
  // A cycle left to whoever reads its session.
  void AddDeferred();
  // How a cycle went for its agent.
  void AddReport(const v1::CycleReport& report);
  // The text exposition format, version 0.0.4.
  struct Now {
    uint64_t attached = 0;      // processes connected
    uint64_t queued_bytes = 0;  // received and not taken in
    std::vector<SessionPipeline::Live> sessions;
  };
  [[nodiscard]] std::string Render(const Now& now) const;

 private:
  static constexpr std::array<double, 12> kSecondBounds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                                           0.1,   0.25,   0.5,   1,    5,     30};
  struct Histogram {
    std::array<uint64_t, kSecondBounds.size() + 1> buckets{};
    double sum = 0;
    uint64_t count = 0;
    void Add(double seconds);
  };
  struct Device {
    std::string uuid;
    double compute = 0, communication = 0, copy = 0, idle = 0;
    uint64_t launches = 0;
    std::map<std::string, uint64_t> bytes;  // by direction
  };
  using Counts = std::map<std::string, uint64_t>;

  void AddDevices(const model::Cycle& cycle);
  // A label of its own for the first kMostRanks ranks.
  [[nodiscard]] static std::string RankLabel(int32_t rank, size_t known, bool is_known);
  [[nodiscard]] Device& DeviceOf(const model::Cycle& cycle, int32_t ordinal);
  void RenderVolume(std::string* text) const;
  void RenderTimes(std::string* text) const;
  void RenderNow(const Now& now, std::string* text) const;
  static void RenderAgents(const Now& now, std::string* text);
  void RenderSteps(std::string* text) const;
  void RenderDevices(std::string* text) const;
  static void RenderHistogram(const std::string& name, const std::string& labels,
                              const Histogram& histogram, std::string* text);

  const std::string version_;
  mutable std::mutex mutex_;
  uint32_t cupti_version_ = 0, driver_version_ = 0;
  double last_trace_seconds_ = 0, callback_seconds_ = 0, arm_wait_seconds_ = 0;
  Counts records_, dropped_, bytes_, results_;
  std::map<std::pair<std::string, std::string>, uint64_t> sink_errors_;  // by sink and code
  std::map<std::string, Histogram> write_durations_;  // by format
  Histogram flush_duration_;
  std::map<std::string, double> clock_offsets_;  // by rank, of the last cycle
  std::map<std::string, Histogram> steps_;       // by rank
  std::map<std::string, Device> devices_;        // by ordinal
};

}  // namespace stepagent::ingest
