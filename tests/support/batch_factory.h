#pragma once
// Makes what an agent would send: Hello, batches, Goodbye, as messages and as frames.
//
// Purpose: tests of the collector describe a program in rows; this writes the columns, deltas and
// dictionaries. All times given are on the session's clock; device stamps are made by adding the
// session's base (and `device_offset_ns`).
// Thread rule: one owner. Failure rule: none, it only builds.
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "batch.pb.h"
#include "session.pb.h"

#include "proto/crc32c.h"
#include "proto/frame.h"

namespace stepagent::test {

inline std::string MakeFrame(proto::FrameType type, const std::string& payload,
                             uint64_t sequence = 0) {
  proto::FrameHeader header;
  header.type = static_cast<uint8_t>(type);
  header.payload_bytes = static_cast<uint32_t>(payload.size());
  header.crc32c = proto::Crc32c(payload.data(), payload.size());
  header.sequence = sequence;
  std::string frame(proto::kFrameHeaderBytes, '\0');
  proto::WriteHeader(header, reinterpret_cast<unsigned char*>(frame.data()));
  return frame + payload;
}

class BatchFactory {
 public:
  explicit BatchFactory(std::string session = "00112233aabbccdd", uint32_t pid = 4242)
      : session_(std::move(session)), pid_(pid) {}

  // Who we are. Change before Hello().
  std::string run = "20260102T030405_0a1b2c3d";
  std::string host = "node1";
  std::string exe = "train";
  int32_t rank = 0;
  int64_t base_unix_ns = 1'700'000'000'000'000'000;
  int64_t device_offset_ns = 0;
  std::string step_source = "nvtx:train_step";
  std::vector<std::string> activities{"kernel", "memcpy", "memset", "launch", "sync", "nvtx"};
  std::vector<std::string> formats{"chrome"};
  // 0: no schedule.
  uint64_t active = 2, warmup = 1;
  uint64_t max_bytes = 0;
  std::string run_dir, out;

  [[nodiscard]] v1::Hello Hello() const {
    v1::Hello hello;
    hello.set_protocol(proto::kProtocol);
    hello.set_protocol_min(proto::kProtocolMin);
    hello.set_agent_version("test");
    FillIdentity(hello.mutable_identity());
    hello.set_pid(pid_);
    hello.set_exe(exe);
    hello.set_exe_path("/opt/" + exe);
    hello.set_title(exe);
    hello.add_argv(exe);
    hello.set_rank_source(rank < 0 ? "none" : "RANK");
    hello.set_world_size(-1);
    hello.set_local_rank(-1);
    hello.mutable_clock()->set_host("monotonic");
    hello.mutable_clock()->set_base_unix_ns(base_unix_ns);
    if (active > 0) {
      hello.mutable_schedule()->set_active(active);
      hello.mutable_schedule()->set_warmup(warmup);
    }
    hello.set_step_source(step_source);
    hello.set_step_extent("range");
    (*hello.mutable_settings())["step"] = step_source;
    for (const auto& a : activities) hello.add_activities(a);
    for (const auto& f : formats) hello.add_formats(f);
    hello.set_max_bytes(max_bytes);
    hello.set_run_dir(run_dir);
    hello.set_out(out);
    return hello;
  }
  [[nodiscard]] std::string HelloFrame() const {
    return MakeFrame(proto::FrameType::kHello, Hello().SerializeAsString());
  }

  void Event(uint32_t cycle, v1::CycleEvent::Kind kind, int64_t at, const std::string& ended = "") {
    auto* event = batch_.add_cycle_events();
    event->set_cycle(cycle);
    event->set_kind(kind);
    event->set_host_ns(at);
    event->set_ended(ended);
  }
  void Step(uint64_t index, int64_t begin, int64_t end, uint32_t cycle = 0,
            v1::Phase phase = v1::PHASE_ACTIVE, uint32_t flags = 0, uint32_t thread = 1) {
    auto* s = batch_.mutable_steps();
    s->set_count(s->count() + 1);
    s->add_index(index);
    s->add_process_index(index);
    s->add_phase(phase);
    s->add_cycle(cycle);
    s->add_begin_ns(begin);
    s->add_end_ns(end);
    s->add_flags(flags);
    s->add_thread(thread);
    UseThread(thread);
  }

  struct CallRow {
    std::string name = "cuLaunchKernel";
    v1::CallClass cls = v1::CALL_LAUNCH;
    int64_t begin = 0;
    uint64_t duration = 100;
    uint32_t correlation = 0;
    uint32_t thread = 1;
    uint32_t flags = 0;
    int32_t result = 0;
  };
  void Call(const CallRow& row) {
    auto* c = batch_.mutable_calls();
    c->set_count(c->count() + 1);
    c->add_thread(row.thread);
    c->add_name(Id(row.name));
    c->add_cls(row.cls);
    c->add_domain(1);
    c->add_cbid(307);
    c->add_begin_delta(row.begin - std::exchange(last_call_, row.begin));
    c->add_duration_ns(row.duration);
    c->add_correlation_delta(Delta(row.correlation, &last_call_correlation_));
    c->add_return_value(row.result);
    c->add_flags(row.flags);
    UseThread(row.thread);
    Count(row.cls == v1::CALL_SYNC ? v1::ACTIVITY_SYNC : v1::ACTIVITY_LAUNCH);
  }
  void Launch(uint32_t correlation, int64_t begin, uint32_t thread = 1, uint32_t flags = 0) {
    Call({.begin = begin, .correlation = correlation, .thread = thread, .flags = flags});
  }

  struct DeviceRow {
    std::string name = "kernel";
    int64_t begin = 0;
    uint64_t duration = 1000;
    uint32_t correlation = 0;
    uint64_t stream = 7;
    int64_t device = 0;
    uint32_t flags = 0;
    uint32_t graph = 0;
    uint64_t node = 0;
    uint64_t bytes = 4096;
    uint32_t copy_kind = 1;
    bool raw_zero = false;  // start stamp 0, as CUPTI gives for "not collected"
  };
  void Kernel(const DeviceRow& row) {
    auto* k = batch_.mutable_kernels();
    k->set_count(k->count() + 1);
    auto* shapes = k->mutable_shapes();
    const auto known = shape_of_.find(row.name);
    uint32_t shape = 0;
    if (known == shape_of_.end()) {
      shape = shapes->count();
      shape_of_[row.name] = shape;
      shapes->set_count(shape + 1);
      shapes->add_name(Id(row.name));
      shapes->add_grid_x(8), shapes->add_grid_y(1), shapes->add_grid_z(1);
      shapes->add_block_x(128), shapes->add_block_y(1), shapes->add_block_z(1);
      shapes->add_registers_per_thread(32);
    } else {
      shape = known->second;
    }
    k->add_shape(shape);
    FillDevice(row, k, &kernel_);
    k->add_graph_node_id(row.node);
    Count(v1::ACTIVITY_KERNEL);
  }
  void Copy(const DeviceRow& row) {
    auto* c = batch_.mutable_memcpys();
    c->set_count(c->count() + 1);
    FillDevice(row, c, &copy_);
    c->add_bytes(row.bytes);
    c->add_copy_kind(row.copy_kind);
    c->add_graph_node_id(row.node);
    Count(v1::ACTIVITY_MEMCPY);
  }
  void Set(const DeviceRow& row) {
    auto* c = batch_.mutable_memsets();
    c->set_count(c->count() + 1);
    FillDevice(row, c, &set_);
    c->add_bytes(row.bytes);
    c->add_graph_node_id(row.node);
    Count(v1::ACTIVITY_MEMSET);
  }
  // CUPTI's record of a wait.
  void Wait(const DeviceRow& row) {
    auto* s = batch_.mutable_syncs();
    s->set_count(s->count() + 1);
    const int64_t start = row.begin + base_unix_ns + device_offset_ns;
    s->add_type(3);
    s->add_context(1);
    s->add_stream(row.stream + 1);
    s->add_event(0);
    s->add_device_start_delta(Delta(start, &wait_.last_start));
    s->add_duration_ns(row.duration);
    s->add_correlation_delta(Delta(row.correlation, &wait_.last_correlation));
    s->add_flags(row.flags);
  }
  void GraphLaunch(const DeviceRow& row) {
    auto* g = batch_.mutable_graph_launches();
    g->set_count(g->count() + 1);
    FillDevice(row, g, &graph_);
    Count(v1::ACTIVITY_KERNEL);
  }

  void Range(v1::RangeOp op, const std::string& name, int64_t at, uint64_t id = 0,
             uint32_t thread = 1, const std::string& domain = "") {
    auto* r = batch_.mutable_ranges();
    r->set_count(r->count() + 1);
    r->add_thread(thread);
    r->add_op(op);
    r->add_name(Id(name));
    r->add_domain(Id(domain));
    r->add_category(0);
    r->add_host_delta(at - std::exchange(last_range_, at));
    r->add_range_id(id);
    r->add_color(0);
    UseThread(thread);
    Count(v1::ACTIVITY_NVTX);
  }
  void Push(const std::string& name, int64_t at, uint64_t depth = 0, uint32_t thread = 1) {
    Range(v1::RANGE_PUSH, name, at, depth, thread);
  }
  void Pop(int64_t at, uint64_t depth = 0, uint32_t thread = 1) {
    Range(v1::RANGE_POP, "", at, depth, thread);
  }

  void Clock(int64_t host, int64_t real, uint32_t bracket = 40, uint64_t suspended_ms = 0) {
    auto* c = batch_.mutable_clock_samples();
    c->add_host_ns(host);
    c->add_real_ns(real);
    c->add_bracket_ns(bracket);
    c->add_suspended_ms(suspended_ms);
  }
  // Running totals beside what this factory counts as sent itself.
  void Dropped(v1::Activity activity, uint64_t ring_full, uint64_t cupti = 0) {
    dropped_[activity] = {ring_full, cupti};
  }
  v1::CycleReport* Report(uint32_t cycle, const std::string& status = "collected") {
    auto* report = batch_.add_cycle_reports();
    report->set_cycle(cycle);
    report->mutable_gpu()->set_status(status);
    if (status == "unavailable") report->mutable_gpu()->set_reason_code("no_driver");
    for (const v1::Activity a : {v1::ACTIVITY_KERNEL, v1::ACTIVITY_MEMCPY, v1::ACTIVITY_MEMSET,
                                 v1::ACTIVITY_LAUNCH, v1::ACTIVITY_SYNC, v1::ACTIVITY_NVTX}) {
      auto* kind = report->add_kinds();
      kind->set_activity(a);
      kind->set_requested(true);
      kind->set_enabled(status != "unavailable" || a == v1::ACTIVITY_NVTX);
    }
    return report;
  }
  void Device(uint32_t ordinal, uint32_t context) {
    batch_.add_devices()->set_ordinal(ordinal);
    auto* c = batch_.add_contexts();
    c->set_id(context);
    c->set_device(ordinal);
  }

  // The batch so far, closed at `host_ns`; the next one begins.
  [[nodiscard]] v1::Batch Take(int64_t host_ns) {
    v1::Batch batch = std::move(batch_);
    FillIdentity(batch.mutable_identity());
    batch.set_sequence(sequence_++);
    batch.set_host_ns(static_cast<uint64_t>(host_ns));
    for (const auto& [text, id] : strings_) {
      batch.mutable_strings()->add_id(id);
      batch.mutable_strings()->add_text(text);
    }
    for (const uint32_t thread : threads_) {
      batch.mutable_threads()->add_index(thread);
      batch.mutable_threads()->add_tid(1000 + thread);
      batch.mutable_threads()->add_name("t" + std::to_string(thread));
    }
    FillLosses(batch.mutable_losses());
    batch_ = v1::Batch();
    threads_.clear(), shape_of_.clear();
    last_call_ = last_range_ = 0, last_call_correlation_ = 0;
    kernel_ = copy_ = set_ = graph_ = wait_ = Lanes();
    return batch;
  }
  [[nodiscard]] std::string TakeFrame(int64_t host_ns) {
    const v1::Batch batch = Take(host_ns);
    return MakeFrame(proto::FrameType::kBatch, batch.SerializeAsString(), batch.sequence());
  }
  [[nodiscard]] v1::Goodbye Goodbye(const std::string& ended = "exit") const {
    v1::Goodbye goodbye;
    goodbye.set_ended(ended);
    FillLosses(goodbye.mutable_losses());
    goodbye.set_last_sequence(sequence_ == 0 ? 0 : sequence_ - 1);
    return goodbye;
  }
  [[nodiscard]] std::string GoodbyeFrame(const std::string& ended = "exit") const {
    return MakeFrame(proto::FrameType::kGoodbye, Goodbye(ended).SerializeAsString());
  }

  // A whole cycle: one warmup step, then steps [first, first + steps), each `step_ns` long from
  // `begin`, with `per_step` kernels that run `lag_ns` after their launch. Two batches.
  void WholeCycle(uint32_t cycle, uint64_t first, uint64_t steps, int64_t begin,
                  uint32_t first_correlation, uint64_t per_step = 3, int64_t lag_ns = 2000,
                  int64_t step_ns = 1'000'000) {
    const int64_t warmup_begin = begin - step_ns;
    Clock(warmup_begin, warmup_begin + base_unix_ns + device_offset_ns);
    Event(cycle, v1::CycleEvent::WARMUP_BEGIN, warmup_begin);
    Event(cycle, v1::CycleEvent::ARMED, warmup_begin + 10);
    Step(first - 1, warmup_begin, begin, cycle, v1::PHASE_WARMUP);
    uint32_t correlation = first_correlation;
    for (uint64_t step = 0; step <= steps; ++step) {
      const int64_t at = warmup_begin + static_cast<int64_t>(step) * step_ns;
      Push("train_step", at);
      for (uint64_t k = 0; k < per_step; ++k, ++correlation) {
        const int64_t launch = at + 1000 + static_cast<int64_t>(k) * 1000;
        Launch(correlation, launch);
        Kernel({.name = "k_" + std::to_string(first - 1 + step),
                .begin = launch + lag_ns,
                .correlation = correlation});
      }
      Pop(at + step_ns - 1);
      if (step > 0) Step(first - 1 + step, at, at + step_ns, cycle);
    }
    const int64_t end = begin + static_cast<int64_t>(steps) * step_ns;
    Event(cycle, v1::CycleEvent::ACTIVE_BEGIN, begin);
    Event(cycle, v1::CycleEvent::ACTIVE_END, end, "schedule");
    Clock(end, end + base_unix_ns + device_offset_ns);
    Event(cycle, v1::CycleEvent::CLOSED, end + lag_ns);
    Report(cycle);
  }

 private:
  struct Lanes {
    int64_t last_start = 0;
    int64_t last_correlation = 0;
    std::map<std::pair<int64_t, uint64_t>, uint32_t> index;
  };
  static int64_t Delta(int64_t value, int64_t* last) { return value - std::exchange(*last, value); }
  void FillIdentity(v1::Identity* identity) const {
    identity->set_run(run);
    identity->set_session(session_);
    identity->set_host(host);
    identity->set_rank(rank);
  }
  uint32_t Id(const std::string& text) {
    if (text.empty()) return 0;
    const auto [at, is_new] = strings_.emplace(text, static_cast<uint32_t>(strings_.size()) + 2);
    return at->second;
  }
  void UseThread(uint32_t thread) {
    for (const uint32_t known : threads_) {
      if (known == thread) return;
    }
    threads_.push_back(thread);
  }
  template <typename Section>
  void FillDevice(const DeviceRow& row, Section* s, Lanes* lanes) {
    const auto [at, is_new] = lanes->index.emplace(std::make_pair(row.device, row.stream),
                                                   static_cast<uint32_t>(lanes->index.size()));
    if (is_new) {
      auto* l = s->mutable_lanes();
      l->set_count(l->count() + 1);
      l->add_device(row.device);
      l->add_context(1);
      l->add_stream(row.stream);
    }
    s->add_lane(at->second);
    const int64_t start = row.raw_zero ? 0 : row.begin + base_unix_ns + device_offset_ns;
    s->add_device_start_delta(start - std::exchange(lanes->last_start, start));
    s->add_duration_ns(row.duration);
    s->add_correlation_delta(Delta(row.correlation, &lanes->last_correlation));
    s->add_graph_id(row.graph);
    s->add_flags(row.flags);
  }
  void Count(v1::Activity activity) { ++sent_[activity]; }
  void FillLosses(v1::LossReport* losses) const {
    std::map<v1::Activity, bool> all;
    for (const auto& [activity, count] : sent_) all[activity] = true;
    for (const auto& [activity, count] : dropped_) all[activity] = true;
    for (const auto& [activity, unused] : all) {
      auto* kind = losses->add_kinds();
      kind->set_activity(activity);
      const auto sent = sent_.find(activity);
      const auto dropped = dropped_.find(activity);
      kind->set_sent(sent == sent_.end() ? 0 : sent->second);
      if (dropped != dropped_.end()) {
        kind->set_dropped_ring_full(dropped->second.first);
        kind->set_dropped_cupti(dropped->second.second);
      }
      kind->set_produced(kind->sent() + kind->dropped_ring_full() + kind->dropped_cupti());
    }
  }

  std::string session_;
  uint32_t pid_;
  v1::Batch batch_;
  uint64_t sequence_ = 0;
  std::map<std::string, uint32_t> strings_;
  std::vector<uint32_t> threads_;
  std::map<std::string, uint32_t> shape_of_;
  int64_t last_call_ = 0, last_range_ = 0, last_call_correlation_ = 0;
  Lanes kernel_, copy_, set_, graph_, wait_;
  std::map<v1::Activity, uint64_t> sent_;
  std::map<v1::Activity, std::pair<uint64_t, uint64_t>> dropped_;
};

}  // namespace stepagent::test
