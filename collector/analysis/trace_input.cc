#include "collector/analysis/trace_input.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "collector/writers/json_text.h"

namespace stepagent::analysis {
namespace {

constexpr size_t kBlockBytes = size_t{1} << 18;
constexpr int kGzipWindow = 15 + 16;  // zlib: the largest window, gzip's frame and nothing else
constexpr size_t kLongestSequence = 4;
constexpr size_t kLongestEscape = 12, kLongestWord = 9;    // of two \u, of -Infinity
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD
constexpr std::string_view kEscapable = "\"\\/bfnrtu";

// Bytes that mean nothing but themselves, which is most of a file: within a string, and outside.
constexpr std::array<bool, 256> MakePlain(bool in_string) {
  std::array<bool, 256> plain{};
  for (size_t byte = 0; byte < plain.size(); ++byte) {
    plain[byte] = byte != '"' && (in_string ? byte >= 0x20 && byte < 0x80 && byte != '\\'
                                            : byte != 'N' && byte != 'I' && byte != '-');
  }
  return plain;
}
constexpr std::array<bool, 256> kPlainInString = MakePlain(true), kPlainOutside = MakePlain(false);

bool IsGzip(const std::vector<unsigned char>& bytes) {
  return bytes.size() >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b;
}

// NaN, Infinity or -Infinity: its length, else 0.
size_t NoNumber(std::string_view text, size_t at) {
  for (const std::string_view word : {"NaN", "Infinity", "-Infinity"}) {
    if (text.substr(at).starts_with(word)) return word.size();
  }
  return 0;
}

// The number of \uXXXX; nullopt: there is none.
std::optional<uint32_t> UnitAt(std::string_view text, size_t at) {
  if (at + 6 > text.size() || text[at] != '\\' || text[at + 1] != 'u') return std::nullopt;
  uint32_t unit = 0;
  const char* const digits = text.data() + at + 2;
  const auto [end, error] = std::from_chars(digits, digits + 4, unit, 16);
  if (error != std::errc() || end != digits + 4) return std::nullopt;
  return unit;
}

// Half of a surrogate pair is no character; Python writes it for a byte of a name that is no text.
struct Escape {
  size_t length = 0;  // of the \u escapes that are one character
  bool is_lone = false;
};
Escape EscapeAt(std::string_view text, size_t at) {
  const auto is_low = [](uint32_t unit) { return unit >= 0xDC00 && unit <= 0xDFFF; };
  const std::optional<uint32_t> unit = UnitAt(text, at);
  if (!unit) return {};
  if (*unit < 0xD800 || *unit > 0xDFFF) return {6, false};
  const std::optional<uint32_t> next = UnitAt(text, at + 6);
  const bool is_pair = !is_low(*unit) && next && is_low(*next);
  return {is_pair ? size_t{12} : size_t{6}, !is_pair};
}

// zlib tells its checks of the trailer apart by their messages alone.
std::string ProblemOf(const char* message) {
  const std::string_view text = message == nullptr ? "" : message;
  if (text == "incorrect data check") {
    return "the gzip checksum does not match: what was read may be wrong";
  }
  if (text == "incorrect length check") {
    return "the gzip length does not match: what was read may be wrong";
  }
  return "the gzip stream is damaged" + (text.empty() ? "" : " (" + std::string(text) + ")");
}

}  // namespace

TraceInput::TraceInput(const std::string& path) : file_(std::fopen(path.c_str(), "rbe"), fclose) {
  if (!file_) return;
  is_gzip_ = FillPacked() && IsGzip(packed_);
  if (is_gzip_) inflateInit2(&z_, kGzipWindow);
  z_.next_in = packed_.data();
  z_.avail_in = static_cast<uInt>(packed_.size());
}

TraceInput::~TraceInput() {
  if (is_gzip_) inflateEnd(&z_);
}

bool TraceInput::FillPacked() {
  packed_.resize(kBlockBytes);
  packed_.resize(std::fread(packed_.data(), 1, kBlockBytes, file_.get()));
  z_.next_in = packed_.data();
  z_.avail_in = static_cast<uInt>(packed_.size());
  return !packed_.empty();
}

size_t TraceInput::ReadPlain() {
  if (z_.avail_in == 0 && !FillPacked()) return 0;
  raw_.append(reinterpret_cast<const char*>(z_.next_in), z_.avail_in);
  return std::exchange(z_.avail_in, 0);
}

// Another member may follow; zeros are a tape's padding, anything else does not belong here.
void TraceInput::EndOfMember() {
  if (z_.avail_in < 2) {
    std::vector<unsigned char> rest(z_.next_in, z_.next_in + z_.avail_in);
    static_cast<void>(FillPacked());
    packed_.insert(packed_.begin(), rest.begin(), rest.end());
    z_.next_in = packed_.data();
    z_.avail_in = static_cast<uInt>(packed_.size());
  }
  if (z_.avail_in >= 2 && z_.next_in[0] == 0x1f && z_.next_in[1] == 0x8b) {
    inflateReset(&z_);
    return;
  }
  is_over_ = true;
  const bool is_padding = std::all_of(z_.next_in, z_.next_in + z_.avail_in,
                                      [](unsigned char byte) { return byte == 0; });
  if (!is_padding) gzip_problem_ = "bytes that are no gzip follow the gzip stream; not read";
}

size_t TraceInput::Inflate() {
  const size_t before = raw_.size();
  raw_.resize(before + kBlockBytes);
  z_.next_out = reinterpret_cast<Bytef*>(raw_.data() + before);
  z_.avail_out = kBlockBytes;
  while (!is_over_ && z_.avail_out > 0) {
    if (z_.avail_in == 0 && !FillPacked()) {
      gzip_problem_ = "the end of the gzip stream is missing, and its checksum with it";
      is_over_ = true;
      break;
    }
    const int result = inflate(&z_, Z_NO_FLUSH);
    if (result == Z_STREAM_END) {
      EndOfMember();
    } else if (result != Z_OK) {
      gzip_problem_ = ProblemOf(z_.msg);
      is_over_ = true;
    }
  }
  raw_.resize(raw_.size() - z_.avail_out);
  return raw_.size() - before;
}

// Only what Python writes for numbers that are none: what else is no JSON there, the parser says.
TraceInput::Step TraceInput::OutsideOfStrings(size_t at, bool is_end) {
  const char byte = raw_[at];
  if (byte == 'N' || byte == 'I' || byte == '-') {
    if (!is_end && raw_.size() - at < kLongestWord) return {0, "", ""};  // may be cut
    if (const size_t length = NoNumber(raw_, at); length > 0) return {length, "", "null"};
  }
  in_string_ = byte == '"';
  return {1, "", ""};
}

TraceInput::Step TraceInput::InString(size_t at, bool is_end) {
  const auto byte = static_cast<unsigned char>(raw_[at]);
  if (byte == '\\' && !is_escaped_) {
    if (!is_end && raw_.size() - at < kLongestEscape) return {0, "", ""};  // may be cut
    const Escape escape = EscapeAt(raw_, at);
    if (escape.length > 0) return {escape.length, "", escape.is_lone ? kReplacement : ""};
  }
  if (byte >= 0x20 && byte < 0x80) {
    // A backslash before what cannot be escaped stands for nothing.
    const bool is_stray =
        is_escaped_ && kEscapable.find(static_cast<char>(byte)) == std::string_view::npos;
    if (!is_escaped_ && byte == '"') in_string_ = false;
    is_escaped_ = !is_escaped_ && byte == '\\';
    return {1, is_stray ? "\\" : "", ""};
  }
  if (byte >= 0x80 && !is_end && raw_.size() - at < kLongestSequence) return {0, "", ""};
  const size_t length = byte < 0x20 ? 0 : writers::Utf8SequenceLength(raw_, at);
  const bool was_escaped = std::exchange(is_escaped_, false);
  return {std::max<size_t>(length, 1), was_escaped ? "\\" : "", length == 0 ? kReplacement : ""};
}

void TraceInput::Repair(bool is_end) {
  text_.clear();
  size_t at = 0, kept_from = 0;
  const auto keep = [&] { text_.append(raw_, kept_from, at - kept_from); };
  while (at < raw_.size()) {
    const auto byte = static_cast<unsigned char>(raw_[at]);
    if (in_string_ ? kPlainInString[byte] && !is_escaped_ : kPlainOutside[byte]) {
      ++at;
      continue;
    }
    const Step step = in_string_ ? InString(at, is_end) : OutsideOfStrings(at, is_end);
    if (step.length == 0) break;
    if (!step.before.empty() || !step.instead.empty()) {
      keep();
      text_ += step.before;
      text_ += step.instead;
      repairs_ += (step.before.empty() ? 0 : 1) + (step.instead.empty() ? 0 : 1);
      kept_from = step.instead.empty() ? at : at + step.length;
    }
    at += step.length;
  }
  keep();
  raw_.erase(0, at);
}

TraceInput::int_type TraceInput::underflow() {
  text_.clear();
  while (text_.empty()) {
    const size_t got = is_gzip_ ? Inflate() : ReadPlain();
    const bool is_end = got == 0;
    if (is_first_ && raw_.starts_with("\xEF\xBB\xBF")) raw_.erase(0, 3);  // a byte order mark
    is_first_ = false;
    Repair(is_end);
    if (is_end && text_.empty()) return traits_type::eof();
  }
  setg(text_.data(), text_.data(), text_.data() + text_.size());
  return traits_type::to_int_type(*gptr());
}

}  // namespace stepagent::analysis
