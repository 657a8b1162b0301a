#include "collector/writers/pprof.h"

#include <algorithm>

#include "collector/writers/folded_profile.h"
#include "collector/writers/json_text.h"
#include "collector/writers/output_file.h"
#include "collector/writers/perfetto_proto.h"

namespace stepagent::writers {
namespace {

// Field numbers of pprof's profile.proto.
constexpr uint32_t kSampleType = 1, kSample = 2, kMapping = 3, kLocation = 4, kFunction = 5,
                   kStringTable = 6, kTimeNanos = 9, kDurationNanos = 10, kComment = 13,
                   kDefaultSampleType = 14;
constexpr uint32_t kTypeName = 1, kTypeUnit = 2;
constexpr uint32_t kSampleLocations = 1, kSampleValues = 2, kSampleLabels = 3;
constexpr uint32_t kLabelKey = 1, kLabelText = 2, kLabelNumber = 3;
constexpr uint32_t kId = 1, kMappingFile = 5, kMappingBuildId = 6, kMappingHasFunctions = 7,
                   kMappingHasFiles = 8, kMappingHasLines = 9;
constexpr uint32_t kLocationMapping = 2, kLocationAddress = 3, kLocationLine = 4;
constexpr uint32_t kLineFunction = 1, kLineNumber = 2, kFunctionName = 2, kFunctionSystemName = 3,
                   kFunctionFile = 4;

class PprofProfile {
 public:
  PprofProfile(const model::Cycle& cycle, const Profile& profile)
      : cycle_(cycle), profile_(profile) {}

  std::string_view Encode() {
    (void)String("");
    SampleType("kernels", "count");
    SampleType("gpu_time", "nanoseconds");
    SampleType("api_time", "nanoseconds");
    SampleType("bytes", "bytes");
    for (const auto& [key, values] : profile_.samples()) Sample(key, values);
    out_.Int(kTimeNanos, cycle_.session.base_unix_ns + cycle_.window_begin_ns);
    out_.Int(kDurationNanos, std::max<int64_t>(cycle_.window_end_ns - cycle_.window_begin_ns, 0));
    out_.Uint(kDefaultSampleType, String("gpu_time"));
    Comment();
    Mappings();
    out_.Raw(tables_.view());
    out_.Raw(strings_.view());
    return out_.view();
  }

 private:
  struct MappingFacts {
    uint64_t id;
    bool has_functions = true, has_files = true, has_lines = true;
  };
  std::map<std::pair<std::string, std::string>, MappingFacts> mappings_;  // path, build id

  uint64_t String(const std::string& text) {
    const auto [it, is_new] = string_ids_.try_emplace(text, string_ids_.size());
    if (is_new) strings_.Text(kStringTable, text);
    return it->second;
  }
  // A sample has a value of each type: one without a known size has no place but here.
  void Comment() {
    uint64_t transfers = 0, without_bytes = 0;
    for (const auto& [key, values] : profile_.samples()) {
      transfers += values.transfers;
      without_bytes += values.without_bytes;
    }
    if (without_bytes == 0) return;
    out_.Uint(kComment, String("bytes: " + std::to_string(without_bytes) + " of " +
                               std::to_string(transfers) +
                               " copies and sets have no known size and are left out of it"));
  }
  void SampleType(const char* name, const char* unit) {
    const size_t type = out_.Begin(kSampleType);
    out_.Uint(kTypeName, String(name));
    out_.Uint(kTypeUnit, String(unit));
    out_.End(type);
  }
  uint64_t Function(const std::string& name, const std::string& source) {
    const auto [it, is_new] = functions_.try_emplace({name, source}, functions_.size() + 1);
    if (is_new) {
      const size_t function = tables_.Begin(kFunction);
      tables_.Uint(kId, it->second);
      tables_.Uint(kFunctionName, String(name));
      tables_.Uint(kFunctionSystemName, String(name));
      if (!source.empty()) tables_.Uint(kFunctionFile, String(source));
      tables_.End(function);
    }
    return it->second;
  }
  // 0: it lies in no file.
  uint64_t Mapping(const model::Frame& frame) {
    if (frame.module == 0) return 0;
    const std::pair key{ValidUtf8(cycle_.Text(frame.module)), ValidUtf8(frame.build_id)};
    MappingFacts& facts =
        mappings_.try_emplace(key, MappingFacts{mappings_.size() + 1}).first->second;
    facts.has_functions &= frame.name != 0;
    facts.has_files &= frame.source != 0;
    facts.has_lines &= frame.line != 0;
    return facts.id;
  }
  // Written last: what is said of a mapping holds for all its locations, or a reader that could
  // look up the rest would not.
  void Mappings() {
    std::vector<decltype(mappings_)::const_pointer> by_id(mappings_.size());
    for (const auto& entry : mappings_) by_id[entry.second.id - 1] = &entry;
    for (const auto* entry : by_id) {
      const auto& [key, facts] = *entry;
      const size_t mapping = tables_.Begin(kMapping);
      tables_.Uint(kId, facts.id);
      tables_.Uint(kMappingFile, String(key.first));
      if (!key.second.empty()) tables_.Uint(kMappingBuildId, String(key.second));
      if (facts.has_functions) tables_.Uint(kMappingHasFunctions, 1);
      if (facts.has_files) tables_.Uint(kMappingHasFiles, 1);
      if (facts.has_lines) tables_.Uint(kMappingHasLines, 1);
      tables_.End(mapping);
    }
  }
  uint64_t Location(const std::string& name, const model::Frame* native) {
    const uint64_t address = native == nullptr ? 0 : native->address;
    const uint64_t mapping = native == nullptr ? 0 : Mapping(*native);
    const auto [it, is_new] =
        locations_.try_emplace({name, address, mapping}, locations_.size() + 1);
    if (!is_new) return it->second;
    const model::StringId source = native == nullptr ? 0 : native->source;
    const uint64_t function =
        Function(name, source == 0 ? std::string() : ValidUtf8(cycle_.Text(source)));
    const size_t location = tables_.Begin(kLocation);
    tables_.Uint(kId, it->second);
    if (mapping != 0) tables_.Uint(kLocationMapping, mapping);
    if (address != 0) tables_.Uint(kLocationAddress, address);
    const size_t line = tables_.Begin(kLocationLine);
    tables_.Uint(kLineFunction, function);
    if (native != nullptr && native->line != 0) tables_.Uint(kLineNumber, native->line);
    tables_.End(line);
    tables_.End(location);
    return it->second;
  }
  void Label(const char* key, uint64_t text, int64_t number) {
    const size_t label = out_.Begin(kSampleLabels);
    out_.Uint(kLabelKey, String(key));
    if (text != 0) {
      out_.Uint(kLabelText, text);
    } else {
      out_.Int(kLabelNumber, number);
    }
    out_.End(label);
  }
  void Labels(const ProfileKey& key) {
    const std::string& ranges = profile_.Ranges(key.path);
    if (!ranges.empty()) Label("nvtx", String(ranges), 0);
    if (key.device >= 0) {
      Label("gpu", 0, key.device);
      Label("stream", 0, key.stream);
    }
    if (cycle_.session.rank >= 0) Label("rank", 0, cycle_.session.rank);
    if (key.step >= 0 && static_cast<size_t>(key.step) < cycle_.steps.size()) {
      Label("step", 0, static_cast<int64_t>(cycle_.steps[static_cast<size_t>(key.step)].index));
    }
  }
  void Sample(const ProfileKey& key, const ProfileValues& values) {
    std::vector<uint64_t> locations;  // leaf first
    if (!key.work.empty()) locations.push_back(Location(key.work, nullptr));
    locations.push_back(Location(key.call, nullptr));
    const auto& path = profile_.paths()[key.path];
    for (auto it = path.rbegin(); it != path.rend(); ++it) {
      locations.push_back(Location(it->name, it->native));
    }
    const size_t sample = out_.Begin(kSample);
    const size_t ids = out_.Begin(kSampleLocations);
    for (const uint64_t id : locations) out_.Packed(id);
    out_.End(ids);
    const size_t numbers = out_.Begin(kSampleValues);
    for (const uint64_t v : {values.items, values.device_ns, values.call_ns, values.bytes}) {
      out_.Packed(v);
    }
    out_.End(numbers);
    Labels(key);
    out_.End(sample);
  }

  const model::Cycle& cycle_;
  const Profile& profile_;
  ProtoBuffer out_, tables_, strings_;
  std::unordered_map<std::string, uint64_t> string_ids_;
  std::map<std::pair<std::string, std::string>, uint64_t> functions_;  // name, source
  std::map<std::tuple<std::string, uint64_t, uint64_t>, uint64_t> locations_;
};

}  // namespace

WriteResult PprofWriter::Write(const model::Cycle& cycle, const WriteTarget& target) {
  OutputFile file(target.cycle_dir + "/trace.pb.gz", Compression::kGzip);
  if (!file.ok()) return {false, file.error(), {}};
  const Profile profile(cycle);
  PprofProfile encoder(cycle, profile);
  file.Write(encoder.Encode());
  if (!file.Commit()) return {false, file.error(), {}};
  const uint64_t samples = profile.samples().size();
  return {true, "", {{file.path(), "pprof", file.bytes(), samples, file.sha256()}}};
}

}  // namespace stepagent::writers
