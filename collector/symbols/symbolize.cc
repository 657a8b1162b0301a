#include "collector/symbols/symbolize.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>

#include "collector/symbols/symbol_file.h"

namespace stepagent::symbols {
namespace {

// Distinct addresses of one cycle that are looked up; a long run of a large program has some
// thousands. Beyond that frames keep their module and address.
constexpr size_t kMaxAddresses = 200'000;
// Of one file, in its debug information: an address takes up to some milliseconds in a large unit.
constexpr size_t kMaxDebugLookups = 20'000;
// Functions inlined at one address. Compilers stop at far fewer.
constexpr size_t kMaxInlined = 64;
constexpr size_t kMaxNameBytes = 4096;

std::string Demangle(const std::string& name) {
  if (!name.starts_with("_Z") || name.size() > kMaxNameBytes) return name.substr(0, kMaxNameBytes);
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), std::free);
  return status == 0 && text ? std::string(text.get()).substr(0, kMaxNameBytes) : name;
}

bool IsRedacted(const model::Cycle& cycle, std::string_view what) {
  const std::vector<std::string>& redact = cycle.session.redact;
  return std::find(redact.begin(), redact.end(), what) != redact.end();
}

using FileKey = std::pair<model::StringId, std::string>;  // path, build id

class Symbolizer {
 public:
  explicit Symbolizer(model::Cycle* cycle) : cycle_(*cycle) {}
  void Run();

 private:
  using Stack = std::vector<model::Frame>;
  [[nodiscard]] std::vector<uint8_t> UsedStacks() const;
  void Collect(const std::vector<uint8_t>& used);
  void LookUp(const FileKey& key, std::map<uint64_t, Stack>* addresses);
  void Expand(Stack* stack) const;
  void AddNotes();
  model::StringId Intern(const std::string& text);

  model::Cycle& cycle_;
  // For each file the addresses that are wanted, then the frames that each becomes.
  std::map<FileKey, std::map<uint64_t, Stack>> files_;
  std::unordered_map<std::string, model::StringId> own_;
  std::vector<std::string> missing_, mismatched_;
  size_t wanted_ = 0;
  bool is_cut_ = false;
};

// The cycle's own: others were declared for calls outside its window.
std::vector<uint8_t> Symbolizer::UsedStacks() const {
  std::vector<uint8_t> used(cycle_.stacks.size(), 0);
  for (const model::Call& call : cycle_.calls) {
    if (call.stack >= 0 && static_cast<size_t>(call.stack) < used.size()) {
      used[static_cast<size_t>(call.stack)] = 1;
    }
  }
  return used;
}

bool IsWanted(const model::Frame& frame) {
  return frame.kind == model::Frame::Kind::kNative && frame.module != 0 && frame.name == 0;
}

void Symbolizer::Collect(const std::vector<uint8_t>& used) {
  for (size_t i = 0; i < used.size(); ++i) {
    if (used[i] == 0) continue;
    for (const model::Frame& frame : cycle_.stacks[i]) {
      if (!IsWanted(frame)) continue;
      if (wanted_ >= kMaxAddresses) {
        is_cut_ = true;
        return;
      }
      wanted_ += files_[{frame.module, frame.build_id}].try_emplace(frame.address).second;
    }
  }
}

model::StringId Symbolizer::Intern(const std::string& text) {
  if (text.empty()) return 0;
  const auto [it, is_new] = own_.try_emplace(text, 0);
  if (is_new) {
    it->second = static_cast<model::StringId>(cycle_.strings.size());
    cycle_.strings.push_back(text);
  }
  return it->second;
}

void Symbolizer::LookUp(const FileKey& key, std::map<uint64_t, Stack>* addresses) {
  const std::string path(cycle_.Text(key.first));
  const std::string base = path.substr(path.find_last_of('/') + 1);
  if (base.starts_with("linux-vdso")) return;  // the kernel's: no file
  SymbolFile file(path, key.second);
  size_t lookups = 0, named = 0;
  const bool hides_paths = IsRedacted(cycle_, "paths");
  for (auto& [address, frames] : *addresses) {
    // A return address is behind its call, perhaps in the next line or function.
    std::vector<Place> places = file.Find(address - 1, lookups++ < kMaxDebugLookups);
    if (places.size() > kMaxInlined) places.resize(kMaxInlined);
    named += !places.empty();
    for (const Place& place : places) {
      model::Frame frame;
      frame.module = key.first;
      frame.build_id = key.second;
      frame.address = address;
      frame.name = Intern(Demangle(place.function));
      frame.line = place.line;
      if (!hides_paths) frame.source = Intern(place.source);
      frames.push_back(frame);
    }
  }
  if (named != 0) return;
  if (file.state() == SymbolFile::State::kMissing) missing_.push_back(base);
  if (file.state() == SymbolFile::State::kMismatched) mismatched_.push_back(base);
}

void Symbolizer::Expand(Stack* stack) const {
  Stack named;
  named.reserve(stack->size());
  for (const model::Frame& frame : *stack) {
    const auto file = files_.find({frame.module, frame.build_id});
    const std::map<uint64_t, Stack>* addresses = file == files_.end() ? nullptr : &file->second;
    const bool is_wanted = IsWanted(frame) && addresses != nullptr;
    const auto found =
        is_wanted ? addresses->find(frame.address) : std::map<uint64_t, Stack>::const_iterator();
    if (!is_wanted || found == addresses->end() || found->second.empty()) {
      named.push_back(frame);
    } else {
      named.insert(named.end(), found->second.begin(), found->second.end());
    }
  }
  *stack = std::move(named);
}

std::string ListOf(const std::vector<std::string>& names) {
  constexpr size_t kShown = 8;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i) {
    text += (i == 0 ? "" : ", ") + names[i];
  }
  if (names.size() > kShown) text += " and " + std::to_string(names.size() - kShown) + " more";
  return text;
}

void Symbolizer::AddNotes() {
  if (!missing_.empty()) {
    cycle_.notes.push_back({"symbols_missing",
                            "not readable when the trace was written, so its "
                            "frames have addresses only: " +
                                ListOf(missing_)});
  }
  if (!mismatched_.empty()) {
    cycle_.notes.push_back({"symbols_mismatched",
                            "not the build that ran (its build id differs), so its frames have "
                            "addresses only: " +
                                ListOf(mismatched_)});
  }
  if (is_cut_) {
    cycle_.notes.push_back({"symbols_cut", "more than " + std::to_string(kMaxAddresses) +
                                               " addresses: the others have no name"});
  }
}

void Symbolizer::Run() {
  const std::vector<uint8_t> used = UsedStacks();
  Collect(used);
  for (auto& [key, addresses] : files_) LookUp(key, &addresses);
  for (size_t i = 0; i < used.size(); ++i) {
    if (used[i] != 0) Expand(&cycle_.stacks[i]);
  }
  AddNotes();
}

}  // namespace

void Symbolize(model::Cycle* cycle) {
  // Where names are left out, functions' are too: a frame keeps its place in its file.
  if (!cycle->stacks.empty() && !IsRedacted(*cycle, "names")) Symbolizer(cycle).Run();
}

}  // namespace stepagent::symbols
