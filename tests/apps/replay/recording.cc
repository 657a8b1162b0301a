#include "recording.h"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <unordered_map>

#include "gzip_source.h"
#include "kineto_reader.h"

namespace stepagent::replay {
namespace {

constexpr std::array<const char*, static_cast<size_t>(CallId::kCount)> kCallNames = {
    "cudaLaunchKernel",      "cudaLaunchKernelExC",  "cudaLaunchCooperativeKernel",
    "cuLaunchKernel",        "cuLaunchKernelEx",     "cudaGraphLaunch",
    "cuGraphLaunch",         "cudaMemcpyAsync",      "cudaMemcpy",
    "cudaMemsetAsync",       "cudaMemset",           "cudaDeviceSynchronize",
    "cudaStreamSynchronize", "cudaEventSynchronize", "cudaEventRecord",
    "cudaEventQuery",        "cudaStreamWaitEvent",  "cudaStreamQuery",
};

// "cudaMemcpyAsync_v3020" and "cudaLaunchKernel_ptsz" are the same calls to a replay.
std::string_view BaseName(std::string_view name) {
  for (const std::string_view suffix : {"_ptsz", "_ptds"}) {
    if (name.ends_with(suffix)) name.remove_suffix(suffix.size());
  }
  const size_t version = name.rfind("_v");
  if (version == std::string_view::npos) return name;
  const std::string_view digits = name.substr(version + 2);
  const bool is_version =
      !digits.empty() && digits.find_first_not_of("0123456789") == std::string_view::npos;
  return is_version ? name.substr(0, version) : name;
}

std::optional<CallId> FindCall(const std::string& name) {
  const std::string_view base = BaseName(name);
  for (size_t i = 0; i < kCallNames.size(); i++) {
    if (base == kCallNames[i]) return static_cast<CallId>(i);
  }
  return std::nullopt;
}

enum class Category { kOther, kCall, kKernel, kCopy, kSet, kAnnotation };

// Kineto's names since 2022, and the capitalised ones before.
Category CategoryOf(const std::string& cat) {
  static const std::map<std::string, Category> kCategories = {
      {"cuda_runtime", Category::kCall}, {"Runtime", Category::kCall},
      {"cuda_driver", Category::kCall},  {"kernel", Category::kKernel},
      {"Kernel", Category::kKernel},     {"gpu_memcpy", Category::kCopy},
      {"Memcpy", Category::kCopy},       {"gpu_memset", Category::kSet},
      {"Memset", Category::kSet},        {"user_annotation", Category::kAnnotation},
  };
  const auto found = kCategories.find(cat);
  return found == kCategories.end() ? Category::kOther : found->second;
}

Memory ParseMemory(std::string_view text) {
  if (text.starts_with("Pageable")) return Memory::kPageable;
  if (text.starts_with("Pinned")) return Memory::kPinned;
  if (text.starts_with("Managed")) return Memory::kManaged;
  return Memory::kDevice;
}

// Interns values: equal ones share an index.
template <class T>
class Table {
 public:
  explicit Table(std::vector<T>* values) : values_(values) {}
  uint32_t Add(const T& value) {
    const auto [entry, is_new] = index_.try_emplace(value, values_->size());
    if (is_new) values_->push_back(value);
    return entry->second;
  }

 private:
  std::vector<T>* values_;
  std::map<T, uint32_t> index_;
};

class Loader {
 public:
  explicit Loader(uint64_t max_calls) : max_calls_(max_calls) {}

  void Receive(const KinetoEvent& event) {
    if (event.ph != "X") return;
    switch (CategoryOf(event.cat)) {
      case Category::kCall:
        AddCall(event);
        break;
      case Category::kKernel:
        AddWork(event, MakeKernel(event));
        break;
      case Category::kCopy:
        AddWork(event, MakeCopy(event));
        break;
      case Category::kSet:
        AddWork(event, MakeSet(event));
        break;
      case Category::kAnnotation:
        AddAnnotation(event);
        break;
      case Category::kOther:
        break;
    }
  }

  Recording Finish();

 private:
  struct Chain {  // the device work of one correlation
    uint32_t first, last;
  };

  void AddCall(const KinetoEvent& event) {
    const std::optional<CallId> id = FindCall(event.name);
    if (!id.has_value()) {
      ++recording_.left_out[event.name];
      return;
    }
    if (recording_.calls.size() >= max_calls_) {
      throw std::runtime_error("more than " + std::to_string(max_calls_) +
                               " calls, see --max-calls");
    }
    recording_.calls.push_back({event.begin_ns, Thread(event), kNone, *id});
    correlations_.push_back(event.correlation);
  }

  void AddWork(const KinetoEvent& event, const DeviceWork& work) {
    const auto index = static_cast<uint32_t>(recording_.work.size());
    const auto [entry, is_new] = work_of_.try_emplace(event.correlation, Chain{index, index});
    if (!is_new) {
      recording_.work[entry->second.last].next = index;
      entry->second.last = index;
    }
    recording_.work.push_back(work);
  }

  DeviceWork MakeTransfer(const KinetoEvent& event) {
    DeviceWork work;
    work.duration_ns = static_cast<uint64_t>(std::max<int64_t>(event.duration_ns, 0));
    work.bytes = static_cast<uint64_t>(std::max<int64_t>(event.bytes, 0));
    work.stream = streams_.Add({event.device, event.stream});
    return work;
  }

  DeviceWork MakeSet(const KinetoEvent& event) {
    DeviceWork work = MakeTransfer(event);
    work.is_set = true;
    return work;
  }

  DeviceWork MakeKernel(const KinetoEvent& event) {
    DeviceWork work = MakeTransfer(event);
    Shape shape{};
    for (size_t i = 0; i < 3; i++) {
      shape.grid[i] = static_cast<uint32_t>(event.grid[i]);
      shape.block[i] = static_cast<uint32_t>(event.block[i]);
    }
    shape.shared_bytes = static_cast<uint32_t>(event.shared_bytes);
    work.shape = shapes_.Add(shape);
    work.name = names_.Add(event.name);
    work.bytes = 0;
    return work;
  }

  // "Memcpy HtoD (Pinned -> Device)"
  DeviceWork MakeCopy(const KinetoEvent& event) {
    DeviceWork work = MakeTransfer(event);
    const std::string_view name = event.name;
    const size_t open = name.find('('), arrow = name.find(" -> ");
    if (open != std::string_view::npos && arrow != std::string_view::npos) {
      work.source = ParseMemory(name.substr(open + 1));
      work.target = ParseMemory(name.substr(arrow + 4));
    }
    return work;
  }

  void AddAnnotation(const KinetoEvent& event) {
    // An empty interval still needs its begin before its end.
    const int64_t length = std::max<int64_t>(event.duration_ns, 1);
    recording_.annotations.push_back(
        {event.begin_ns, event.begin_ns + length, Thread(event), names_.Add(event.name)});
  }

  uint32_t Thread(const KinetoEvent& event) {
    const auto [entry, is_new] = thread_of_.try_emplace(event.tid, recording_.threads.size());
    if (is_new) recording_.threads.push_back(event.tid);
    if (event.tid == event.pid) main_thread_ = entry->second;
    return entry->second;
  }

  void JoinWork();
  void CutChain(uint32_t work);
  void SortStreams();
  void PutMainThreadFirst();
  void StartAtZero();

  const uint64_t max_calls_;
  Recording recording_;
  Table<std::string> names_{&recording_.names};
  Table<Shape> shapes_{&recording_.shapes};
  Table<StreamKey> streams_{&recording_.streams};
  std::vector<int64_t> correlations_;  // of recording_.calls
  std::unordered_map<int64_t, Chain> work_of_;
  std::unordered_map<int64_t, uint32_t> thread_of_;
  uint32_t main_thread_ = 0;
};

void Loader::JoinWork() {
  std::vector<Call> kept;
  kept.reserve(recording_.calls.size());
  for (size_t i = 0; i < recording_.calls.size(); i++) {
    Call call = recording_.calls[i];
    const auto found = work_of_.find(correlations_[i]);
    if (found != work_of_.end() && !Waits(call.id)) {
      call.work = found->second.first;
      if (!IsGraphLaunch(call.id)) CutChain(call.work);
      // A driver call inside a runtime call may carry its correlation: the first one has the work.
      work_of_.erase(found);
    }
    if (call.work == kNone && IsLaunch(call.id)) {
      ++recording_.left_out["launches without a recorded kernel"];
      continue;
    }
    kept.push_back(call);
  }
  recording_.calls = std::move(kept);
  if (!work_of_.empty()) recording_.left_out["device work without a call"] += work_of_.size();
}

// Only a graph launch makes more than one piece of work.
void Loader::CutChain(uint32_t work) {
  for (uint32_t next = recording_.work[work].next; next != kNone;) {
    ++recording_.left_out["further device work of one call"];
    next = recording_.work[next].next;
  }
  recording_.work[work].next = kNone;
}

void Loader::SortStreams() {
  std::vector<StreamKey> sorted = recording_.streams;
  std::sort(sorted.begin(), sorted.end());
  for (DeviceWork& work : recording_.work) {
    const auto place =
        std::lower_bound(sorted.begin(), sorted.end(), recording_.streams[work.stream]);
    work.stream = static_cast<uint32_t>(place - sorted.begin());
  }
  recording_.streams = std::move(sorted);
}

void Loader::PutMainThreadFirst() {
  if (recording_.threads.empty() || main_thread_ == 0) return;
  std::swap(recording_.threads[0], recording_.threads[main_thread_]);
  const auto renumber = [this](uint32_t& thread) {
    if (thread == main_thread_) {
      thread = 0;
    } else if (thread == 0) {
      thread = main_thread_;
    }
  };
  for (Call& call : recording_.calls) renumber(call.thread);
  for (Annotation& annotation : recording_.annotations) renumber(annotation.thread);
}

void Loader::StartAtZero() {
  int64_t first = INT64_MAX;
  for (const Call& call : recording_.calls) first = std::min(first, call.begin_ns);
  for (const Annotation& range : recording_.annotations) first = std::min(first, range.begin_ns);
  for (Call& call : recording_.calls) call.begin_ns -= first;
  for (Annotation& range : recording_.annotations) {
    range.begin_ns -= first;
    range.end_ns -= first;
  }
}

Recording Loader::Finish() {
  JoinWork();
  SortStreams();
  PutMainThreadFirst();
  StartAtZero();
  if (recording_.calls.empty() && recording_.annotations.empty()) {
    throw std::runtime_error("holds neither calls nor annotations");
  }
  return std::move(recording_);
}

}  // namespace

const char* CallName(CallId call) { return kCallNames[static_cast<size_t>(call)]; }

bool IsLaunch(CallId call) { return call <= CallId::kDriverGraphLaunch; }

bool IsGraphLaunch(CallId call) {
  return call == CallId::kGraphLaunch || call == CallId::kDriverGraphLaunch;
}

bool IsCopy(CallId call) { return call == CallId::kMemcpyAsync || call == CallId::kMemcpy; }

bool IsSet(CallId call) { return call == CallId::kMemsetAsync || call == CallId::kMemset; }

bool Waits(CallId call) {
  return call == CallId::kDeviceSynchronize || call == CallId::kStreamSynchronize ||
         call == CallId::kEventSynchronize;
}

Recording LoadRecording(const std::string& path, uint64_t max_calls) {
  GzipSource source(path);
  Loader loader(max_calls);
  ReadKineto(source, [&loader](const KinetoEvent& event) { loader.Receive(event); });
  return loader.Finish();
}

}  // namespace stepagent::replay
