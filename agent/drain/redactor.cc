#include "agent/drain/redactor.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "agent/drain/cycle_report.h"
#include "agent/drain/session_messages.h"

namespace stepagent::drain {
namespace {

using proto::kRedactArgs;
using proto::kRedactHosts;
using proto::kRedactNames;
using proto::kRedactPaths;

// Label keys that say nothing of anybody, and are compared by `diff`.
constexpr std::string_view kCommonKeys[] = {"batch", "samples_per_step", "precision", "mode"};
// What a collective does is in the library's own words; the report tells collectives by the prefix.
constexpr std::string_view kCollectivePrefix = "nccl";
constexpr std::string_view kAnonymous = "(anonymous namespace)";

// "" when the text is no mangled name.
std::string Demangled(std::string_view mangled) {
  if (!mangled.starts_with("_Z")) return {};
  const std::string text(mangled);
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> out(
      abi::__cxa_demangle(text.c_str(), nullptr, nullptr, &status), &std::free);
  return status == 0 && out != nullptr ? std::string(out.get()) : std::string();
}

bool IsNumber(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789.") == std::string_view::npos;
}

// Where the bracket that opens at `at` closes; the end when it never does. Arrows and comparisons
// within an operator's name may mislead it: then more is hashed.
size_t ClosingBracket(std::string_view text, size_t at) {
  int depth = 0;
  for (size_t i = at; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '<' || c == '(' || c == '{' || c == '[') ++depth;
    if ((c == '>' || c == ')' || c == '}' || c == ']') && --depth == 0) return i;
  }
  return text.size();
}

core::NameId Remembered(std::vector<core::NameId>* memo, core::NameId id, auto&& redact) {
  if (id <= core::kOverflowNameId) return id;
  if (id >= memo->size()) memo->resize(std::max<size_t>(id + 1, memo->size() * 2), 0);
  if ((*memo)[id] == 0) (*memo)[id] = core::NameTable::Intern(redact(core::NameTable::Text(id)));
  return (*memo)[id];
}

}  // namespace

std::string Redactor::Hash(std::string_view prefix, std::string_view text) const {
  if (text.empty()) return {};
  return std::string(prefix) + proto::KeyedHex(key_, text);
}

std::string Redactor::Range(std::string_view text) const {
  return Has(kRedactNames) ? Hash("name-", text) : std::string(text);
}

// The kernel names a thread after its program until somebody renames it.
std::string Redactor::ThreadName(std::string_view text) const {
  return Has(kRedactNames | kRedactPaths) ? Hash("", text).substr(0, 15) : std::string(text);
}

std::string Redactor::Kernel(std::string_view mangled) const {
  if (Has(kRedactNames)) {
    const bool is_collective = mangled.starts_with(kCollectivePrefix);
    return Hash(is_collective ? "nccl-" : "kernel-", mangled);
  }
  return Has(kRedactArgs) ? WithoutArguments(mangled) : std::string(mangled);
}

// Each bracket's inside as one hash, so that two instances of a template stay two kernels.
std::string Redactor::WithoutArguments(std::string_view mangled) const {
  std::string text = Demangled(mangled);
  if (text.empty()) {
    if (mangled.starts_with("_Z")) return Hash("kernel-", mangled);
    text = mangled;
  }
  std::string out;
  for (size_t at = 0; at < text.size(); ++at) {
    const std::string_view rest = std::string_view(text).substr(at);
    if (rest.starts_with(kAnonymous)) {
      out += kAnonymous;
      at += kAnonymous.size() - 1;
      continue;
    }
    const char c = text[at];
    out += c;
    if (c != '<' && c != '(' && c != '{' && c != '[') continue;
    const size_t close = ClosingBracket(text, at);
    out += Hash("", std::string_view(text).substr(at + 1, close - at - 1));
    if (close < text.size()) out += text[close];
    at = close;
  }
  return out;
}

std::string Redactor::Path(std::string_view text) const {
  return Has(kRedactPaths) ? Hash("path-", text) : std::string(text);
}

std::string Redactor::Host(std::string_view text) const {
  return Has(kRedactHosts) ? Hash(proto::kHostPrefix, text) : std::string(text);
}

std::string Redactor::Free(std::string_view text) const {
  return IsOn() ? Hash("text-", text) : std::string(text);
}

std::string Redactor::Sentence(std::string_view text) const {
  if (!Has(kRedactPaths)) return std::string(text);
  const proto::PathSpan span = proto::FindPaths(text);
  if (span.begin == std::string_view::npos) return std::string(text);
  return proto::WithoutPaths(text, Path(text.substr(span.begin, span.end - span.begin)));
}

core::NameId Redactor::RangeId(core::NameId id) {
  if (!Has(kRedactNames)) return id;
  return Remembered(&ranges_, id, [this](std::string_view text) { return Range(text); });
}

core::NameId Redactor::KernelId(core::NameId id) {
  if (!Has(kRedactNames | kRedactArgs)) return id;
  return Remembered(&kernels_, id, [this](std::string_view text) { return Kernel(text); });
}

core::NameId Redactor::StackFileId(core::NameId id) {
  if (!Has(kRedactPaths | kRedactNames | kRedactArgs)) return id;
  return Remembered(&files_, id, [this](std::string_view text) { return Hash("path-", text); });
}

std::string Redactor::LabelKey(std::string_view key) const {
  const bool is_common =
      std::find(std::begin(kCommonKeys), std::end(kCommonKeys), key) != std::end(kCommonKeys);
  return is_common ? std::string(key) : Range(key);
}

std::string Redactor::LabelValue(std::string_view value) const {
  return IsNumber(value) ? std::string(value) : Range(value);
}

void Redactor::Apply(CycleReportData* report) const {
  cupti::GpuState& gpu = report->gpu;
  // A library is known by its name as well as by its path.
  const size_t holder = gpu.holder.empty() ? std::string::npos : gpu.reason.find(gpu.holder);
  if (holder != std::string::npos) {
    gpu.reason.replace(holder, gpu.holder.size(), Path(gpu.holder));
  }
  for (std::string* text : {&gpu.reason, &gpu.cupti_choice}) *text = Sentence(*text);
  gpu.holder = Path(gpu.holder);
  gpu.cupti_path = Path(gpu.cupti_path);
  for (cupti::KindState& kind : report->kinds) kind.error = Sentence(kind.error);
  for (NameCountRow& row : report->top_ranges) {
    row.name = Range(row.name);
    row.domain = Range(row.domain);
  }
}

void Redactor::Apply(HelloData* hello) const {
  if (!IsOn()) return;
  hello->identity.host = Host(hello->identity.host);
  hello->exe = Path(hello->exe);
  hello->exe_path = Path(hello->exe_path);
  hello->title = Free(hello->title);
  for (std::string& argument : hello->argv) argument = Free(argument);
  // "VARIABLE=what it holds": anything may be in it.
  for (std::string& conflict : hello->rank_conflicts)
    conflict.erase(std::min(conflict.find('='), conflict.size()));
  std::map<std::string, std::string> labels;
  for (const auto& [key, value] : hello->labels) labels[LabelKey(key)] = LabelValue(value);
  hello->labels = std::move(labels);
  if (Has(kRedactPaths)) hello->out.clear();
  hello->redact = proto::RedactWords(bits_);
}

}  // namespace stepagent::drain
