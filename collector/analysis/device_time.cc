#include "collector/analysis/device_time.h"

#include <array>

namespace stepagent::analysis {
namespace {

template <typename T>
WorkItem Describe(const T& item, WorkClass cls, size_t index, const model::Cycle& cycle) {
  return {item.begin_ns, item.end_ns,
          cls,           static_cast<uint32_t>(index),
          item.lane,     cycle.lanes[item.lane].device,
          item.step,     item.call};
}

}  // namespace

bool IsCollectiveName(std::string_view demangled) {
  if (demangled.starts_with("void ")) demangled.remove_prefix(5);
  for (const std::string_view prefix : {"nccl", "rccl", "nvshmem"}) {
    if (demangled.starts_with(prefix)) return true;
  }
  return false;
}

DeviceWork::DeviceWork(const model::Cycle& cycle) : cycle_(cycle) {
  for (const model::Shape& shape : cycle.shapes) {
    const model::StringId id = shape.demangled != 0 ? shape.demangled : shape.name;
    shape_is_collective_.push_back(IsCollectiveName(cycle.Text(id)));
  }
  FindSuspects();
  AddToDevices();
}

void DeviceWork::FindSuspects() {
  struct Open {
    model::TimeNs end_ns = 0;
    uint32_t kernel = 0, successors = 0;
    bool is_set = false;
  };
  std::vector<Open> open(cycle_.lanes.size());
  const auto close = [this](const Open& o) {
    if (o.is_set && o.successors >= kSuspectSuccessors)
      set_aside_.push_back({o.kernel, o.successors});
  };
  for (size_t i = 0; i < cycle_.kernels.size(); ++i) {
    const model::Kernel& kernel = cycle_.kernels[i];
    if (!Counts(kernel) || kernel.graph_id != 0) continue;
    Open& o = open[kernel.lane];
    if (o.is_set && kernel.begin_ns < o.end_ns) {
      ++o.successors;
      continue;
    }
    close(o);
    o = {kernel.end_ns, static_cast<uint32_t>(i), 0, true};
  }
  for (const Open& o : open) close(o);
  if (set_aside_.empty()) return;
  is_suspect_.resize(cycle_.kernels.size());
  for (const SetAside& s : set_aside_) is_suspect_[s.kernel] = true;
}

void DeviceWork::ForEach(const std::function<void(const WorkItem&)>& use) const {
  const auto& c = cycle_;
  enum { kKernels, kCopies, kSets, kGraphs, kSources };
  std::array<size_t, kSources> next{};
  std::array<WorkItem, kSources> head;
  std::array<bool, kSources> has{};
  const auto advance = [&](int source) {
    const auto take = [&](const auto& items, auto describe) {
      size_t& i = next[static_cast<size_t>(source)];
      while (i < items.size() && !Counts(items[i])) ++i;
      has[static_cast<size_t>(source)] = i < items.size();
      if (i < items.size()) head[static_cast<size_t>(source)] = describe(items[i], i), ++i;
    };
    const auto as = [&](WorkClass cls) {
      return [&c, cls](const auto& item, size_t i) { return Describe(item, cls, i, c); };
    };
    switch (source) {
      case kKernels:
        return take(c.kernels, [&](const model::Kernel& kernel, size_t i) {
          return Describe(kernel,
                          IsCollective(kernel.shape) ? WorkClass::kCollective : WorkClass::kCompute,
                          i, c);
        });
      case kCopies:
        return take(c.copies, as(WorkClass::kCopy));
      case kSets:
        return take(c.sets, as(WorkClass::kSet));
      default:
        return take(c.graph_launches, as(WorkClass::kGraph));
    }
  };
  for (int source = 0; source < kSources; ++source) advance(source);
  for (;;) {
    int first = -1;
    for (int source = 0; source < kSources; ++source) {
      const auto s = static_cast<size_t>(source);
      if (has[s] && (first < 0 || head[s].begin_ns < head[static_cast<size_t>(first)].begin_ns)) {
        first = source;
      }
    }
    if (first < 0) return;
    const WorkItem& item = head[static_cast<size_t>(first)];
    const bool is_suspect = first == kKernels && !is_suspect_.empty() && is_suspect_[item.index];
    if (!is_suspect) use(item);
    advance(first);
  }
}

void DeviceWork::AddToDevices() {
  ForEach([this](const WorkItem& item) {
    auto it = std::find_if(devices_.begin(), devices_.end(),
                           [&](const DeviceTime& d) { return d.ordinal == item.device; });
    if (it == devices_.end()) {
      devices_.push_back({item.device, item.begin_ns, item.end_ns, {}, {}, {}, {}});
      it = devices_.end() - 1;
    }
    it->span_end_ns = std::max(it->span_end_ns, item.end_ns);
    it->busy.Add(item.begin_ns, item.end_ns);
    switch (item.cls) {
      case WorkClass::kCollective:
        it->collective.Add(item.begin_ns, item.end_ns);
        break;
      case WorkClass::kCopy:
      case WorkClass::kSet:
        it->copy.Add(item.begin_ns, item.end_ns);
        break;
      default:
        it->compute.Add(item.begin_ns, item.end_ns);
        break;
    }
  });
  std::sort(devices_.begin(), devices_.end(),
            [](const DeviceTime& a, const DeviceTime& b) { return a.ordinal < b.ordinal; });
}

int64_t DeviceWork::BusyNs() const {
  int64_t total = 0;
  for (const DeviceTime& device : devices_) total += device.busy.TotalNs();
  return total;
}

}  // namespace stepagent::analysis
