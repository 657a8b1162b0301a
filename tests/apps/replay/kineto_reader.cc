#include "kineto_reader.h"

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace stepagent::replay {
namespace {

using Json = nlohmann::json;

// Follows the nesting root / traceEvents / event / args / grid and ignores all else.
class KinetoSax : public nlohmann::json_sax<Json> {
 public:
  explicit KinetoSax(const std::function<void(const KinetoEvent&)>& receive) : receive_(receive) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool binary(Json::binary_t&) override { return true; }
  bool number_integer(Json::number_integer_t value) override { return Integer(value); }
  bool number_unsigned(Json::number_unsigned_t value) override {
    return Integer(static_cast<int64_t>(value));
  }
  bool number_float(Json::number_float_t value, const std::string& text) override {
    if (skipped_ > 0) return true;
    if (depth_ == kInEvent && key_ == "ts") event_.begin_ns = MicrosecondsToNs(text);
    if (depth_ == kInEvent && key_ == "dur") event_.duration_ns = MicrosecondsToNs(text);
    if (depth_ == kInArgs && key_ == "bytes") event_.bytes = static_cast<int64_t>(value);
    return true;
  }
  bool string(std::string& text) override {
    if (depth_ != kInEvent || skipped_ > 0) return true;
    if (key_ == "ph") event_.ph = text;
    if (key_ == "cat") event_.cat = text;
    if (key_ == "name") event_.name = text;
    return true;
  }
  bool key(std::string& text) override {
    key_ = text;
    return true;
  }
  bool start_object(size_t) override {
    if (skipped_ > 0 || !Enters(true)) return ++skipped_, true;
    ++depth_;
    if (depth_ == kInEvent) event_ = KinetoEvent{};
    return true;
  }
  bool end_object() override {
    if (skipped_ > 0) return --skipped_, true;
    if (depth_ == kInEvent) receive_(event_);
    --depth_;
    return true;
  }
  bool start_array(size_t) override {
    if (depth_ == kInArgs && skipped_ == 0 && (key_ == "grid" || key_ == "block")) {
      index_ = 0;
      depth_ = kInTriple;
      return true;
    }
    if (skipped_ > 0 || !Enters(false)) return ++skipped_, true;
    ++depth_;
    return true;
  }
  bool end_array() override {
    if (skipped_ > 0) return --skipped_, true;
    --depth_;
    return true;
  }
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    throw std::runtime_error("not JSON at byte " + std::to_string(position) + ": " + error.what());
  }

 private:
  enum Depth { kOutside, kInRoot, kInEvents, kInEvent, kInArgs, kInTriple };

  bool Enters(bool is_object) const {
    switch (depth_) {
      case kOutside:
        return is_object;
      case kInRoot:
        return !is_object && key_ == "traceEvents";
      case kInEvents:
        return is_object;
      case kInEvent:
        return is_object && key_ == "args";
      default:
        return false;
    }
  }

  bool Integer(int64_t value) {
    if (skipped_ > 0) return true;
    if (depth_ == kInTriple) {
      auto& triple = key_ == "grid" ? event_.grid : event_.block;
      if (index_ < triple.size()) triple[index_++] = value;
    } else if (depth_ == kInEvent) {
      if (key_ == "pid") event_.pid = value;
      if (key_ == "tid") event_.tid = value;
      if (key_ == "ts") event_.begin_ns = value * 1000;
      if (key_ == "dur") event_.duration_ns = value * 1000;
    } else if (depth_ == kInArgs) {
      if (key_ == "correlation") event_.correlation = value;
      if (key_ == "bytes") event_.bytes = value;
      if (key_ == "device") event_.device = value;
      if (key_ == "stream") event_.stream = value;
      if (key_ == "shared memory") event_.shared_bytes = value;
    }
    return true;
  }

  const std::function<void(const KinetoEvent&)>& receive_;
  KinetoEvent event_;
  std::string key_;
  int depth_ = kOutside;
  size_t skipped_ = 0;  // open containers of no interest
  size_t index_ = 0;
};

}  // namespace

int64_t MicrosecondsToNs(const std::string& text) {
  if (text.find_first_of("eE") != std::string::npos) {
    return std::llround(std::strtod(text.c_str(), nullptr) * 1000.0);
  }
  const bool is_negative = !text.empty() && text[0] == '-';
  const size_t dot = text.find('.');
  const int64_t whole = std::strtoll(text.c_str(), nullptr, 10);
  int64_t fraction = 0;
  for (size_t i = 0; i < 3; i++) {
    const size_t at = dot + 1 + i;
    const bool has_digit = dot != std::string::npos && at < text.size();
    fraction = fraction * 10 + (has_digit ? text[at] - '0' : 0);
  }
  return whole * 1000 + (is_negative ? -fraction : fraction);
}

void ReadKineto(std::istream& in, const std::function<void(const KinetoEvent&)>& receive) {
  KinetoSax sax(receive);
  Json::sax_parse(in, &sax);
}

}  // namespace stepagent::replay
