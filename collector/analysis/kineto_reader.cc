#include "collector/analysis/kineto_reader.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <istream>
#include <limits>

#include "collector/analysis/kineto_cycle.h"
#include "collector/analysis/kineto_header.h"
#include "collector/analysis/kineto_values.h"
#include "collector/analysis/text_format.h"
#include "collector/analysis/trace_input.h"
#include "nlohmann/json.hpp"

namespace stepagent::analysis {
namespace {

// A foreign file may hold any number: what no clock can mean is cut to this, and refused as a time.
constexpr int64_t kMostMicros = std::numeric_limits<int64_t>::max() / 1000 - 1;

int64_t Bounded(double value) {
  constexpr double kMost = 9.2e18;
  return value >= -kMost && value <= kMost ? static_cast<int64_t>(value)
                                           : std::numeric_limits<int64_t>::max();
}
int64_t ToNs(int64_t micros) { return std::clamp(micros, -kMostMicros, kMostMicros) * 1000; }

// Microseconds as written, without the detour over a double: whole digits and up to three decimals.
int64_t MicrosToNs(std::string_view text) {
  double value = 0;
  if (text.find_first_of("eE") != std::string_view::npos) {
    std::from_chars(text.data(), text.data() + text.size(), value);
    return Bounded(value * 1000);
  }
  const size_t point = text.find('.');
  int64_t whole = 0;
  const auto read = std::from_chars(text.data(), text.data() + std::min(point, text.size()), whole);
  if (read.ec == std::errc::result_out_of_range) return std::numeric_limits<int64_t>::max();
  if (point == std::string_view::npos) return ToNs(whole);
  std::string decimals(text.substr(point + 1, 3));
  decimals.resize(3, '0');
  int64_t rest = 0;
  std::from_chars(decimals.data(), decimals.data() + decimals.size(), rest);
  return ToNs(whole) + (text.starts_with('-') ? -rest : rest);
}

// One pass over the document. Only what a report needs is kept; an event lives until its brace.
class Handler final : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return true; }
  bool boolean(bool value) override;
  bool binary(binary_t&) override { return true; }
  bool number_integer(number_integer_t v) override { return Number(v, ToNs(v)); }
  bool number_unsigned(number_unsigned_t v) override {
    constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    const auto value = static_cast<int64_t>(std::min<uint64_t>(v, kMost));
    return Number(value, ToNs(value));
  }
  bool number_float(number_float_t v, const string_t& text) override {
    return Number(Bounded(v), MicrosToNs(text));
  }
  bool string(string_t& v) override;
  bool key(string_t& v) override;
  bool start_object(size_t) override;
  bool end_object() override;
  bool start_array(size_t) override;
  bool end_array() override;
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    // Without the library's own heading, which says the place once more.
    const std::string_view text = error.what();
    error_ = "byte " + std::to_string(position) + ": " +
             std::string(text.substr(std::min(text.find("syntax error"), text.size())));
    return false;
  }

  KinetoCycle& rows() { return rows_; }
  [[nodiscard]] bool saw_events() const { return saw_events_; }
  [[nodiscard]] bool has_rows() const { return has_rows_; }
  [[nodiscard]] const std::string& error() const { return error_; }
  [[nodiscard]] std::vector<std::string> RefusedLines() const { return refused_.Lines(); }
  [[nodiscard]] KinetoHeader& header() { return header_; }

 private:
  bool Number(int64_t value, int64_t as_ns);
  bool NumberInText(const std::string& text);
  void EventNumber(int64_t value, int64_t as_ns);
  void TakeTriple();
  void ArgNumber(int64_t value);
  [[nodiscard]] KinetoHeader::Where Here() const { return {depth_, top_key_, key_}; }
  void TellRefused();
  [[nodiscard]] bool InEvent() const { return in_events_ && depth_ > events_depth_; }

  KinetoCycle rows_;
  RefusedValues refused_;
  KinetoHeader header_{&rows_.cycle(), &refused_};
  KinetoEvent event_;
  std::string top_key_, key_, arg_key_;
  std::string error_;
  int depth_ = 0, events_depth_ = 0;
  struct Refusal {
    std::string key;
    int64_t value;
    std::string allowed;
    bool is_place;
  };
  std::vector<Refusal> event_refusals_;  // of the event being read
  uint64_t event_number_ = 0;
  std::vector<int64_t> triple_;
  bool in_events_ = false, saw_events_ = false, has_rows_ = false;
};

bool Handler::Number(int64_t value, int64_t as_ns) {
  if (!InEvent()) {
    header_.Number(Here(), value);
  } else if (depth_ == events_depth_ + 1) {
    EventNumber(value, as_ns);
  } else if (depth_ == events_depth_ + 2) {
    ArgNumber(value);
  } else if (depth_ == events_depth_ + 3 && triple_.size() < 4) {
    triple_.push_back(value);
  }
  return true;
}

void Handler::EventNumber(int64_t value, int64_t as_ns) {
  if (key_ == "ts") {
    event_.ts_ns = as_ns, event_.has_ts = true;
  } else if (key_ == "dur") {
    event_.dur_ns = as_ns, event_.has_dur = true;
  } else if (key_ == "pid") {
    event_.pid = value;
  } else if (key_ == "tid") {
    event_.tid = value;
  }
}

void Handler::ArgNumber(int64_t value) {
  const KinetoArg* const arg = FindKinetoArg(arg_key_);
  if (arg == nullptr) return;
  if (value >= arg->least && value <= arg->most) {
    event_.*(arg->field) = value;
  } else {
    event_refusals_.push_back(
        {arg_key_, value, AllowedText(arg->least, arg->most), arg->is_place});
  }
}

// A grid or a block is whole or absent.
void Handler::TakeTriple() {
  if (arg_key_ != "grid" && arg_key_ != "block") return;
  constexpr int64_t kMost = std::numeric_limits<uint32_t>::max();
  for (const int64_t value : triple_) {
    if (value >= 0 && value <= kMost) continue;
    event_refusals_.push_back({arg_key_, value, AllowedText(0, kMost), false});
    return;
  }
  if (triple_.size() != 3) return;
  KinetoEvent::Triple triple;
  for (size_t i = 0; i < 3; ++i) triple[i] = static_cast<uint32_t>(triple_[i]);
  (arg_key_ == "grid" ? event_.grid : event_.block) = triple;
}

// Rows that are not used may hold what they like.
void Handler::TellRefused() {
  if (event_refusals_.empty() || !KinetoCycle::Reads(event_.cat)) return;
  const bool needs_place = event_.cat.starts_with("gpu_") || event_.cat == "kernel";
  const std::string where =
      "row " + std::to_string(event_number_) + " (" + Fit(event_.name, 60) + ")";
  for (const Refusal& r : event_refusals_) {
    if (event_.cat == "cuda_sync" && r.value == -1) continue;  // Kineto's "of none"
    const bool goes = r.is_place && needs_place;
    event_.has_refused = event_.has_refused || goes;
    refused_.Add(r.key, r.value, r.allowed, where,
                 goes ? "the row is left out" : "the value is left out");
  }
}

// What our own files say of a row; no other tool's have it.
bool Handler::boolean(bool value) {
  if (!InEvent()) header_.Boolean(Here(), value);
  if (!InEvent() || depth_ != events_depth_ + 2 || !header_.IsOwn()) return true;
  if (const auto flag = FindKinetoFlag(arg_key_)) event_.*(flag) = value;
  return true;
}

// Some writers put numbers in quotes.
bool Handler::NumberInText(const std::string& text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || at != end || !std::isfinite(number)) return false;
  int64_t whole = Bounded(number);
  std::from_chars(text.data(), end, whole);
  return Number(whole, MicrosToNs(text));
}

bool Handler::string(string_t& v) {
  const bool is_row = InEvent() && depth_ == events_depth_ + 1;
  const bool is_number =
      is_row ? key_ == "ts" || key_ == "dur"
             : InEvent() && depth_ == events_depth_ + 2 && FindKinetoArg(arg_key_) != nullptr;
  if (is_number && NumberInText(v)) return true;
  if (is_row) {
    if (key_ == "ph") event_.ph = v;
    if (key_ == "cat") event_.cat = v;
    if (key_ == "name") event_.name = std::move(v);
  } else if (!InEvent()) {
    header_.Text(Here(), v);
  } else if (depth_ == events_depth_ + 2 && arg_key_ == "domain" && header_.IsOwn()) {
    event_.domain = std::move(v);
  }
  return true;
}

bool Handler::key(string_t& v) {
  if (depth_ == 1 && !in_events_) {
    top_key_ = v;
  } else if (InEvent() && depth_ >= events_depth_ + 2) {
    if (depth_ == events_depth_ + 2) arg_key_ = v;
  } else {
    key_ = v;
  }
  return true;
}

bool Handler::start_object(size_t) {
  ++depth_;
  if (in_events_ && depth_ == events_depth_ + 1) {
    event_ = KinetoEvent();
    event_refusals_.clear();
    ++event_number_;
    has_rows_ = true;
  }
  if (!in_events_ && depth_ == 3) header_.BeginObject(top_key_);
  return true;
}

bool Handler::end_object() {
  if (in_events_ && depth_ == events_depth_ + 1) {
    TellRefused();
    rows_.Add(event_);
  }
  --depth_;
  return true;
}

bool Handler::start_array(size_t) {
  ++depth_;
  triple_.clear();
  // The object form's traceEvents, or the bare array of older writers.
  if (!in_events_ && (depth_ == 1 || (depth_ == 2 && top_key_ == "traceEvents"))) {
    in_events_ = saw_events_ = true;
    events_depth_ = depth_;
  }
  return true;
}

bool Handler::end_array() {
  if (InEvent() && depth_ == events_depth_ + 3) TakeTriple();
  if (in_events_ && depth_ == events_depth_) in_events_ = false;
  --depth_;
  return true;
}

std::string BaseName(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

// What is odd in the file, as lines for the caller.
void AddProblems(const std::string& path, const TraceInput& input, const Handler& handler,
                 bool is_whole, KinetoReadResult* result) {
  const auto add = [&](const std::string& text) { result->problems.push_back(path + ": " + text); };
  if (!input.gzip_problem().empty()) add(input.gzip_problem());
  if (!is_whole) add("not whole: " + handler.error());
  for (const std::string& line : handler.RefusedLines()) add(line);
}

// What was mended is no reason to distrust the rest, but it is no longer what the file held.
void NoteRepairs(uint64_t repairs, model::Cycle* cycle) {
  if (repairs == 0) return;
  cycle->notes.push_back(
      {"repaired_text", std::to_string(repairs) +
                            (repairs == 1 ? " place in the file was" : " places in the file were") +
                            " no valid text or no number: shown as U+FFFD or a backslash, or left "
                            "out"});
}

}  // namespace

KinetoReadResult ReadKinetoFile(const std::string& path) {
  KinetoReadResult result;
  TraceInput input(path);
  if (!input.is_open()) {
    result.error = path + ": open: " + std::strerror(errno);
    return result;
  }
  Handler handler;
  std::istream stream(&input);
  if (stream.peek() == std::istream::traits_type::eof() && input.gzip_problem().empty()) {
    result.error = path + ": empty";
    return result;
  }
  stream.clear();
  const bool whole = nlohmann::json::sax_parse(stream, &handler);
  if (!handler.saw_events()) {
    const std::string why = input.gzip_problem().empty() ? handler.error() : input.gzip_problem();
    result.error = path + ": no traceEvents" + (why.empty() ? "" : " (" + why + ")");
    return result;
  }
  if (whole && !handler.has_rows()) {
    result.error = path + ": holds no trace: its list of events is empty";
    return result;
  }
  handler.header().CheckRank();
  AddProblems(path, input, handler, whole, &result);
  for (const std::string& text : handler.rows().RowProblems(whole)) {
    result.problems.push_back(path + ": " + text);
  }
  NoteRepairs(input.repairs(), &handler.rows().cycle());
  result.cycle = handler.rows().Finish(BaseName(path));
  for (const std::string& text : handler.rows().problems()) {
    result.problems.push_back(path + ": " + text);
  }
  handler.header().Complete(&result.cycle);
  if (!whole) {
    result.cycle.tells_end = true;
    result.cycle.complete = false, result.cycle.ended = "error";
  }
  result.ok = true;
  return result;
}

}  // namespace stepagent::analysis
