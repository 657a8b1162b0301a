#include "collector/analysis/kineto_reader.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <istream>
#include <limits>
#include <memory>
#include <streambuf>

#include "collector/analysis/kineto_cycle.h"
#include "nlohmann/json.hpp"

namespace stepagent::analysis {
namespace {

// zlib's own reader takes plain files and gzip, also of several members.
class GzipInput final : public std::streambuf {
 public:
  explicit GzipInput(const std::string& path) : file_(gzopen(path.c_str(), "rbe"), gzclose) {
    if (file_) gzbuffer(file_.get(), kBytes);
  }
  [[nodiscard]] bool is_open() const { return file_ != nullptr; }
  [[nodiscard]] bool is_damaged() const { return is_damaged_; }

 protected:
  int_type underflow() override {
    const int got = gzread(file_.get(), buffer_.get(), kBytes);
    is_damaged_ |= got < 0;
    if (got <= 0) return traits_type::eof();
    setg(buffer_.get(), buffer_.get(), buffer_.get() + got);
    return traits_type::to_int_type(*gptr());
  }

 private:
  static constexpr unsigned kBytes = 1U << 18;
  std::unique_ptr<gzFile_s, int (*)(gzFile)> file_;
  std::unique_ptr<char[]> buffer_ = std::make_unique<char[]>(kBytes);
  bool is_damaged_ = false;
};

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
  std::from_chars(text.data(), text.data() + std::min(point, text.size()), whole);
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
    return Number(static_cast<int64_t>(v), ToNs(static_cast<int64_t>(v)));
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
    error_ = "byte " + std::to_string(position) + ": " + error.what();
    return false;
  }

  KinetoCycle& rows() { return rows_; }
  [[nodiscard]] bool saw_events() const { return saw_events_; }
  [[nodiscard]] bool has_rows() const { return has_rows_; }
  [[nodiscard]] const std::string& error() const { return error_; }

 private:
  bool Number(int64_t value, int64_t as_ns);
  void EventNumber(int64_t value, int64_t as_ns);
  void ArgNumber(int64_t value);
  void HeaderNumber(int64_t value);
  [[nodiscard]] bool InEvent() const { return in_events_ && depth_ > events_depth_; }

  KinetoCycle rows_;
  KinetoEvent event_;
  std::string top_key_, key_, arg_key_;
  std::string error_;
  int depth_ = 0, events_depth_ = 0;
  size_t triple_ = 0;
  bool in_events_ = false, saw_events_ = false, has_rows_ = false;
};

bool Handler::Number(int64_t value, int64_t as_ns) {
  if (!InEvent()) {
    HeaderNumber(value);
  } else if (depth_ == events_depth_ + 1) {
    EventNumber(value, as_ns);
  } else if (depth_ == events_depth_ + 2) {
    ArgNumber(value);
  } else if (depth_ == events_depth_ + 3 && triple_ < 3) {
    if (arg_key_ == "grid")
      event_.grid[triple_++] = static_cast<uint32_t>(value);
    else if (arg_key_ == "block")
      event_.block[triple_++] = static_cast<uint32_t>(value);
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
  struct Arg {
    std::string_view key;
    int64_t KinetoEvent::*field;
  };
  static constexpr Arg kArgs[] = {{"correlation", &KinetoEvent::correlation},
                                  {"stream", &KinetoEvent::stream},
                                  {"device", &KinetoEvent::device},
                                  {"context", &KinetoEvent::context},
                                  {"cbid", &KinetoEvent::cbid},
                                  {"bytes", &KinetoEvent::bytes},
                                  {"fromDevice", &KinetoEvent::from_device},
                                  {"toDevice", &KinetoEvent::to_device},
                                  {"inDevice", &KinetoEvent::device},
                                  {"graph id", &KinetoEvent::graph_id},
                                  {"graph node id", &KinetoEvent::graph_node_id},
                                  {"registers per thread", &KinetoEvent::registers},
                                  {"shared memory", &KinetoEvent::shared_bytes}};
  for (const Arg& arg : kArgs) {
    if (arg.key == arg_key_) event_.*arg.field = value;
  }
}

// What our own files say of a step; no other tool's have it.
bool Handler::boolean(bool value) {
  if (!InEvent() || depth_ != events_depth_ + 2) return true;
  if (arg_key_ == "contains_tracer_start") event_.contains_tracer_start = value;
  if (arg_key_ == "complete") event_.is_complete = value;
  return true;
}

void Handler::HeaderNumber(int64_t value) {
  model::Cycle& cycle = rows_.cycle();
  if (depth_ == 1 && top_key_ == "baseTimeNanoseconds") cycle.session.base_unix_ns = value;
  if (depth_ == 1 && top_key_ == "cupti_version") {
    cycle.gpu.cupti_version = static_cast<uint32_t>(value);
  }
  if (depth_ == 2 && top_key_ == "distributedInfo") {
    if (key_ == "rank") cycle.session.rank = static_cast<int32_t>(value);
    if (key_ == "world_size") cycle.session.world_size = static_cast<int32_t>(value);
  }
  if (depth_ == 3 && top_key_ == "deviceProperties" && !cycle.devices.empty()) {
    model::DeviceInfo& device = cycle.devices.back();
    if (key_ == "id") device.ordinal = static_cast<int32_t>(value);
    if (key_ == "numSms") device.multiprocessors = static_cast<uint32_t>(value);
    if (key_ == "totalGlobalMem") device.memory_bytes = static_cast<uint64_t>(value);
  }
}

bool Handler::string(string_t& v) {
  if (InEvent() && depth_ == events_depth_ + 1) {
    if (key_ == "ph") event_.ph = v;
    if (key_ == "cat") event_.cat = v;
    if (key_ == "name") event_.name = std::move(v);
  } else if (!InEvent() && depth_ == 1 && top_key_ == "host_name") {
    rows_.cycle().session.host = v;
  } else if (!InEvent() && depth_ == 3 && top_key_ == "deviceProperties" &&
             !rows_.cycle().devices.empty()) {
    if (key_ == "name") rows_.cycle().devices.back().name = v;
    if (key_ == "uuid") rows_.cycle().devices.back().uuid = v;
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
    has_rows_ = true;
  }
  if (!in_events_ && depth_ == 3 && top_key_ == "deviceProperties") {
    rows_.cycle().devices.emplace_back();
  }
  return true;
}

bool Handler::end_object() {
  if (in_events_ && depth_ == events_depth_ + 1) rows_.Add(event_);
  --depth_;
  return true;
}

bool Handler::start_array(size_t) {
  ++depth_;
  triple_ = 0;
  // The object form's traceEvents, or the bare array of older writers.
  if (!in_events_ && (depth_ == 1 || (depth_ == 2 && top_key_ == "traceEvents"))) {
    in_events_ = saw_events_ = true;
    events_depth_ = depth_;
  }
  return true;
}

bool Handler::end_array() {
  if (in_events_ && depth_ == events_depth_) in_events_ = false;
  --depth_;
  return true;
}

std::string BaseName(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

}  // namespace

KinetoReadResult ReadKinetoFile(const std::string& path) {
  KinetoReadResult result;
  GzipInput input(path);
  if (!input.is_open()) {
    result.error = path + ": open: " + std::strerror(errno);
    return result;
  }
  Handler handler;
  std::istream stream(&input);
  const bool whole = nlohmann::json::sax_parse(stream, &handler);
  if (!handler.saw_events()) {
    result.error =
        path + ": no traceEvents" + (handler.error().empty() ? "" : " (" + handler.error() + ")");
    return result;
  }
  if (whole && !handler.has_rows()) {
    result.error = path + ": holds no trace: its list of events is empty";
    return result;
  }
  if (input.is_damaged()) result.problems.push_back(path + ": the gzip stream is damaged");
  if (!whole) result.problems.push_back(path + ": not whole: " + handler.error());
  if (const uint64_t rows = handler.rows().unusable_rows(); rows > 0) {
    result.problems.push_back(path + ": " + std::to_string(rows) +
                              " rows lack a time, a duration, a device or a stream");
  }
  result.cycle = handler.rows().Finish(BaseName(path));
  if (!whole) result.cycle.complete = false, result.cycle.ended = "error";
  result.ok = true;
  return result;
}

}  // namespace stepagent::analysis
