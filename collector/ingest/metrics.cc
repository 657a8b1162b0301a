#include "collector/ingest/metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "collector/analysis/device_time.h"
#include "collector/writers/kineto_names.h"

namespace stepagent::ingest {
namespace {

constexpr double kNsPerSecond = 1e9;

double Seconds(int64_t ns) { return static_cast<double>(ns) / kNsPerSecond; }

// As few digits as tell the value from every other: nine would be 10 s of a time stamp.
std::string NumberText(double value) {
  char text[40];
  const auto end = std::to_chars(text, text + sizeof text, value);
  return {text, end.ptr};
}

std::string Escaped(const std::string& value) {
  std::string text;
  for (const char c : value) {
    if (c == '\n') {
      text += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  return text;
}

void Head(const char* name, const char* type, const char* help, std::string* text) {
  *text += std::string("# HELP ") + name + " " + help + "\n# TYPE " + name + " " + type + "\n";
}

void Line(const std::string& name, const std::string& labels, double value, std::string* text) {
  *text += name + (labels.empty() ? "" : "{" + labels + "}") + " " + NumberText(value) + "\n";
}

std::string Label(const char* name, const std::string& value) {
  return std::string(name) + "=\"" + Escaped(value) + "\"";
}

void Counters(const char* name, const char* help, const char* label,
              const std::map<std::string, uint64_t>& counts, std::string* text) {
  if (counts.empty()) return;
  Head(name, "counter", help, text);
  for (const auto& [value, count] : counts)
    Line(name, Label(label, value), static_cast<double>(count), text);
}

std::string FormatOf(const std::string& path) {
  const auto ends = [&](const char* end) { return path.ends_with(end); };
  if (ends(".pt.trace.json.gz") || ends(".pt.trace.json")) return "chrome";
  if (ends(".pftrace")) return "perfetto";
  if (ends(".sqlite")) return "sqlite";
  if (ends(".html")) return "html";
  if (ends("folded.txt") || ends(".folded")) return "folded";
  if (ends(".pb.gz") || ends(".pprof")) return "pprof";
  if (ends("steps.csv")) return "steps";
  return ends("manifest.json") ? "manifest" : "summary";
}

// The name of the errno whose text ends the error: a label of few values, whatever the path.
std::string ErrnoName(const std::string& error) {
  constexpr std::pair<int, const char*> kNames[] = {
      {ENOSPC, "ENOSPC"}, {EDQUOT, "EDQUOT"}, {EACCES, "EACCES"}, {EPERM, "EPERM"},
      {EROFS, "EROFS"},   {ENOENT, "ENOENT"}, {EIO, "EIO"},       {EFBIG, "EFBIG"},
      {EMFILE, "EMFILE"}, {ENFILE, "ENFILE"}, {ESTALE, "ESTALE"}, {ENOTDIR, "ENOTDIR"}};
  for (const auto& [number, name] : kNames)
    if (error.ends_with(std::strerror(number))) return name;
  return "other";
}

// The process_ basics, from where every exporter takes them.
void RenderProcess(std::string* text) {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const double cpu = static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                     static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
  Head("process_cpu_seconds_total", "counter", "CPU time of the collector.", text);
  Line("process_cpu_seconds_total", "", cpu, text);
  std::ifstream statm("/proc/self/statm");
  double pages = 0, resident = 0;
  if (statm >> pages >> resident) {
    Head("process_resident_memory_bytes", "gauge", "Resident memory of the collector.", text);
    Line("process_resident_memory_bytes", "", resident * static_cast<double>(sysconf(_SC_PAGESIZE)),
         text);
  }
  std::error_code error;
  double open_files = 0;
  for (auto it = std::filesystem::directory_iterator("/proc/self/fd", error);
       !error && it != std::filesystem::directory_iterator(); it.increment(error))
    ++open_files;
  if (error) return;
  Head("process_open_fds", "gauge", "Open descriptors of the collector.", text);
  Line("process_open_fds", "", open_files, text);
}

}  // namespace

void Metrics::Histogram::Add(double seconds) {
  size_t i = 0;
  while (i < kSecondBounds.size() && seconds > kSecondBounds[i]) ++i;
  ++buckets[i];
  sum += seconds;
  ++count;
}

Metrics::Device& Metrics::DeviceOf(const model::Cycle& cycle, int32_t ordinal) {
  std::string key = std::to_string(ordinal);
  if (devices_.size() >= kMostDevices && !devices_.contains(key)) key = "other";
  Device& device = devices_[key];
  for (const model::DeviceInfo& info : cycle.devices)
    if (info.ordinal == ordinal && device.uuid.empty() && key != "other") device.uuid = info.uuid;
  return device;
}

void Metrics::AddDevices(const model::Cycle& cycle) {
  const analysis::DeviceWork work(cycle);
  for (const analysis::DeviceTime& time : work.devices()) {
    Device& device = DeviceOf(cycle, time.ordinal);
    device.compute += Seconds(time.compute.TotalNs());
    device.communication += Seconds(time.collective.TotalNs());
    device.copy += Seconds(time.copy.TotalNs());
    device.idle += Seconds(time.IdleNs());
  }
  const auto device_of = [&](const model::DeviceItem& item) {
    return item.lane < cycle.lanes.size() ? cycle.lanes[item.lane].device : 0;
  };
  for (const model::Kernel& kernel : cycle.kernels) ++DeviceOf(cycle, device_of(kernel)).launches;
  for (const model::GraphLaunch& graph : cycle.graph_launches)
    ++DeviceOf(cycle, device_of(graph)).launches;
  for (const model::Copy& copy : cycle.copies)
    DeviceOf(cycle, device_of(copy)).bytes[std::string(writers::CopyKindName(copy.copy_kind))] +=
        copy.bytes;
}

void Metrics::AddLosses(const LossCounts& losses) {
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < losses.counts.size(); ++i)
    dropped_[std::string(LossCounts::kReasons[i])] += losses.counts[i];
}

void Metrics::AddDeferred() {
  const std::lock_guard lock(mutex_);
  ++results_["deferred"];
}

void Metrics::AddSinkError(std::string_view sink, const std::string& error) {
  const std::lock_guard lock(mutex_);
  ++sink_errors_[{std::string(sink), ErrnoName(error)}];
}

void Metrics::AddReport(const v1::CycleReport& report) {
  const std::lock_guard lock(mutex_);
  flush_duration_.Add(static_cast<double>(report.tail_wait_ns()) / kNsPerSecond);
}

std::string Metrics::RankLabel(int32_t rank, size_t known, bool is_known) {
  return known >= kMostRanks && !is_known ? "other" : std::to_string(rank);
}

void Metrics::AddCycle(const model::Cycle& cycle, const CycleOutput& output, int64_t now_unix_ns) {
  const std::lock_guard lock(mutex_);
  for (size_t i = 1; i < model::kActivityCount; ++i) {
    const std::string kind(model::ActivityName(static_cast<model::Activity>(i)));
    records_[kind] += cycle.balance[i].written.value_or(0);
  }
  for (const std::string& file : output.files) {
    std::error_code error;
    const auto bytes = std::filesystem::file_size(file, error);
    if (!error) bytes_[FormatOf(file)] += bytes;
  }
  ++results_[!output.error.empty() ? "error" : cycle.HostOnly() ? "host_only" : "written"];
  if (!output.error.empty()) ++sink_errors_[{"trace", ErrnoName(output.error)}];
  last_trace_seconds_ = Seconds(now_unix_ns);
  callback_seconds_ += Seconds(static_cast<int64_t>(cycle.cost.callback_ns.value_or(0)));
  arm_wait_seconds_ += Seconds(static_cast<int64_t>(cycle.cost.arm_wait_ns.value_or(0)));
  for (const auto& [format, ns] : output.format_ns) write_durations_[format].Add(Seconds(ns));
  const std::string number = std::to_string(cycle.session.rank);
  const std::string rank = RankLabel(cycle.session.rank, steps_.size(), steps_.contains(number));
  if (cycle.device_residual_ns)
    clock_offsets_[rank] = Seconds(static_cast<int64_t>(*cycle.device_residual_ns));
  for (const model::Step& step : cycle.steps)
    if (step.complete) steps_[rank].Add(Seconds(step.end_ns - step.begin_ns));
  if (cycle.gpu.cupti_version != 0) cupti_version_ = cycle.gpu.cupti_version;
  if (cycle.gpu.driver_version != 0) driver_version_ = cycle.gpu.driver_version;
  if (!cycle.HostOnly()) AddDevices(cycle);
}

void Metrics::RenderHistogram(const std::string& name, const std::string& labels,
                              const Histogram& histogram, std::string* text) {
  const std::string comma = labels.empty() ? "" : labels + ",";
  uint64_t count = 0;
  for (size_t i = 0; i <= kSecondBounds.size(); ++i) {
    count += histogram.buckets[i];
    const std::string bound =
        i < kSecondBounds.size() ? NumberText(kSecondBounds[i]) : std::string("+Inf");
    Line(name + "_bucket", comma + Label("le", bound), static_cast<double>(count), text);
  }
  Line(name + "_sum", labels, histogram.sum, text);
  Line(name + "_count", labels, static_cast<double>(histogram.count), text);
}

void Metrics::RenderVolume(std::string* text) const {
  Counters("stepagent_records_total", "Records written into traces.", "kind", records_, text);
  Counters("stepagent_records_dropped_total", "Records lost, by reason.", "reason", dropped_, text);
  Counters("stepagent_trace_bytes_written_total", "Bytes of finished files.", "format", bytes_,
           text);
  Counters("stepagent_traces_total", "Cycles finished.", "result", results_, text);
  if (sink_errors_.empty()) return;
  Head("stepagent_sink_errors_total", "counter", "What could not be written.", text);
  for (const auto& [what, count] : sink_errors_)
    Line("stepagent_sink_errors_total",
         Label("sink", what.first) + "," + Label("code", what.second), static_cast<double>(count),
         text);
}

void Metrics::RenderTimes(std::string* text) const {
  if (flush_duration_.count != 0) {
    Head("stepagent_flush_duration_seconds", "histogram",
         "From a window's end until its device records were in.", text);
    RenderHistogram("stepagent_flush_duration_seconds", "", flush_duration_, text);
  }
  if (last_trace_seconds_ == 0) return;
  Head("stepagent_last_trace_timestamp_seconds", "gauge", "When the last cycle was written.", text);
  Line("stepagent_last_trace_timestamp_seconds", "", last_trace_seconds_, text);
  if (!write_durations_.empty()) {
    Head("stepagent_write_duration_seconds", "histogram", "Time to write a cycle's trace.", text);
    for (const auto& [format, histogram] : write_durations_)
      RenderHistogram("stepagent_write_duration_seconds", Label("format", format), histogram, text);
  }
  if (!clock_offsets_.empty()) {
    Head("stepagent_clock_offset_seconds", "gauge",
         "What the device's clock is off by after mapping, in the last cycle.", text);
    for (const auto& [rank, seconds] : clock_offsets_)
      Line("stepagent_clock_offset_seconds", Label("rank", rank), seconds, text);
  }
  Head("stepagent_overhead_seconds_total", "counter",
       "Time of application threads in callbacks and in waits for arming.", text);
  Line("stepagent_overhead_seconds_total", Label("phase", "active"), callback_seconds_, text);
  Line("stepagent_overhead_seconds_total", Label("phase", "warmup"), arm_wait_seconds_, text);
}

void Metrics::RenderSteps(std::string* text) const {
  if (steps_.empty()) return;
  Head("stepagent_step_duration_seconds", "histogram", "Recorded steps, host time.", text);
  for (const auto& [rank, histogram] : steps_)
    RenderHistogram("stepagent_step_duration_seconds", Label("rank", rank), histogram, text);
}

void Metrics::RenderDevices(std::string* text) const {
  if (devices_.empty()) return;
  const auto labels = [](const std::string& gpu, const Device& device) {
    return Label("gpu", gpu) + "," + Label("UUID", device.uuid);
  };
  Head("stepagent_gpu_busy_seconds_total", "counter",
       "Time in which recorded work of a class was resident.", text);
  for (const auto& [gpu, device] : devices_)
    for (const auto& [name, seconds] :
         {std::pair{"compute", device.compute}, std::pair{"comm", device.communication},
          std::pair{"memcpy", device.copy}})
      Line("stepagent_gpu_busy_seconds_total", labels(gpu, device) + "," + Label("class", name),
           seconds, text);
  Head("stepagent_gpu_idle_seconds_total", "counter",
       "Time within recorded spans without work of the process.", text);
  for (const auto& [gpu, device] : devices_)
    Line("stepagent_gpu_idle_seconds_total", labels(gpu, device), device.idle, text);
  Head("stepagent_kernel_launches_total", "counter", "Recorded kernels and graph launches.", text);
  for (const auto& [gpu, device] : devices_)
    Line("stepagent_kernel_launches_total", labels(gpu, device),
         static_cast<double>(device.launches), text);
  Head("stepagent_memcpy_bytes_total", "counter", "Bytes of recorded copies.", text);
  for (const auto& [gpu, device] : devices_)
    for (const auto& [direction, bytes] : device.bytes)
      Line("stepagent_memcpy_bytes_total",
           labels(gpu, device) + "," + Label("direction", direction), static_cast<double>(bytes),
           text);
}

void Metrics::RenderNow(const Now& now, std::string* text) const {
  using State = SessionPipeline::Live::State;
  uint64_t wait = 0, warmup = 0, active = 0, spooled = 0;
  std::map<std::string, uint64_t> steps;
  for (const SessionPipeline::Live& session : now.sessions) {
    wait += session.state == State::kWait ? 1 : 0;
    warmup += session.state == State::kWarmup ? 1 : 0;
    active += session.state == State::kActive ? 1 : 0;
    spooled += session.raw_bytes;
    const std::string number = std::to_string(session.rank);
    uint64_t& step = steps[RankLabel(session.rank, steps.size(), steps.contains(number))];
    step = std::max(step, session.step);
  }
  Head("stepagent_attached_processes", "gauge", "Processes connected now.", text);
  Line("stepagent_attached_processes", "", static_cast<double>(now.attached), text);
  Head("stepagent_cycle_state", "gauge", "Sessions by what their schedule is at.", text);
  for (const auto& [state, count] :
       {std::pair{"wait", wait}, std::pair{"warmup", warmup}, std::pair{"active", active}})
    Line("stepagent_cycle_state", Label("state", state), static_cast<double>(count), text);
  Head("stepagent_spool_bytes", "gauge", "Raw files of the open sessions.", text);
  Line("stepagent_spool_bytes", "", static_cast<double>(spooled), text);
  Head("stepagent_sink_queue_bytes", "gauge", "Received from agents and not taken in yet.", text);
  Line("stepagent_sink_queue_bytes", "", static_cast<double>(now.queued_bytes), text);
  RenderAgents(now, text);
  if (steps.empty()) return;
  Head("stepagent_step_current", "gauge", "The last step a collected cycle began, from 0.", text);
  for (const auto& [rank, step] : steps)
    Line("stepagent_step_current", Label("rank", rank), static_cast<double>(step), text);
}

void Metrics::RenderAgents(const Now& now, std::string* text) {
  uint64_t size = 0, used = 0, buffers = 0;
  for (const SessionPipeline::Live& session : now.sessions) {
    size += session.ring_bytes;
    used += session.ring_bytes_waiting;
    buffers += session.cupti_buffers;
  }
  if (now.sessions.empty()) return;
  Head("stepagent_ring_bytes", "gauge",
       "Rings of the recorded threads, and the most of them in use at one look.", text);
  Line("stepagent_ring_bytes", Label("state", "size"), static_cast<double>(size), text);
  Line("stepagent_ring_bytes", Label("state", "used"), static_cast<double>(used), text);
  Head("stepagent_cupti_buffers_in_use", "gauge", "The most buffers with CUPTI at one look.", text);
  Line("stepagent_cupti_buffers_in_use", "", static_cast<double>(buffers), text);
}

std::string Metrics::Render(const Now& now) const {
  const std::lock_guard lock(mutex_);
  std::string text;
  Head("stepagent_up", "gauge", "The collector runs.", &text);
  Line("stepagent_up", "", 1, &text);
  Head("stepagent_build_info", "gauge", "Versions, as labels; the value is 1.", &text);
  const auto version = [](uint32_t number) { return number == 0 ? "" : std::to_string(number); };
  Line("stepagent_build_info",
       Label("version", version_) + "," + Label("cupti", version(cupti_version_)) + "," +
           Label("driver", version(driver_version_)),
       1, &text);
  RenderNow(now, &text);
  RenderVolume(&text);
  RenderTimes(&text);
  RenderSteps(&text);
  RenderDevices(&text);
  RenderProcess(&text);
  return text;
}

}  // namespace stepagent::ingest
