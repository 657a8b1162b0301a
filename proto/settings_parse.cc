#include <algorithm>
#include <charconv>
#include <csignal>

#include "proto/address.h"
#include "proto/limits.h"
#include "proto/settings.h"
#include "proto/settings_table.h"

namespace stepagent::proto {
namespace {

// About 31 years: a deadline made of the wall clock and any duration stays below 2^63 ns.
constexpr uint64_t kMaxDurationNs = 1'000'000'000'000'000'000;
struct Unit {
  std::string_view name;
  uint64_t scale;
};
constexpr Unit kDurationUnits[] = {{"ns", 1},
                                   {"us", 1'000},
                                   {"ms", 1'000'000},
                                   {"", 1'000'000'000},
                                   {"s", 1'000'000'000},
                                   {"m", 60'000'000'000},
                                   {"h", 3'600'000'000'000}};
constexpr Unit kCountUnits[] = {{"", 1},
                                {"k", 1'000},
                                {"K", 1'000},
                                {"M", 1'000'000},
                                {"G", 1000000000},
                                {"KiB", 1ULL << 10},
                                {"MiB", 1ULL << 20},
                                {"GiB", 1ULL << 30},
                                {"TiB", 1ULL << 40},
                                {"Ki", 1ULL << 10},
                                {"Mi", 1ULL << 20},
                                {"Gi", 1ULL << 30},
                                {"kB", 1'000},
                                {"KB", 1'000},
                                {"MB", 1'000'000},
                                {"GB", 1000000000},
                                {"T", 1'000'000'000'000},
                                {"TB", 1'000'000'000'000}};

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// "1.5GiB": digits, optionally a fraction that comes out whole, a unit of the table.
template <size_t N>
std::optional<uint64_t> ScaledNumber(std::string_view text, const Unit (&units)[N],
                                     uint64_t limit) {
  size_t i = 0;
  while (i < text.size() && IsDigit(text[i])) ++i;
  const auto whole = WholeNumber(text.substr(0, i));
  if (!whole) return std::nullopt;
  uint64_t fraction = 0, divisor = 1;
  if (i < text.size() && text[i] == '.') {
    const size_t first = ++i;
    while (i < text.size() && IsDigit(text[i])) ++i;
    if (i == first || i - first > 9) return std::nullopt;
    fraction = *WholeNumber(text.substr(first, i - first));
    for (size_t k = first; k < i; ++k) divisor *= 10;
  }
  const std::string_view name = text.substr(i);
  const auto* unit = std::find_if(units, units + N, [&](const Unit& u) { return u.name == name; });
  if (unit == units + N) return std::nullopt;
  const unsigned __int128 part = static_cast<unsigned __int128>(fraction) * unit->scale;
  if (part % divisor != 0) return std::nullopt;
  const unsigned __int128 value =
      static_cast<unsigned __int128>(*whole) * unit->scale + part / divisor;
  if (value > limit) return std::nullopt;
  return static_cast<uint64_t>(value);
}

std::optional<StepSetting> ParseRangeStep(std::string_view text, StepSetting::Kind kind,
                                          std::string* why) {
  StepSetting step;
  step.kind = kind;
  bool stopped = false;
  const auto fail = [&](const char* reason) {
    *why = reason;
    return std::nullopt;
  };
  if (!TakeEscaped(&text, '@', &stopped, &step.name)) return fail("\\ escapes only @ and \\");
  if (step.name.empty()) return fail("the name is empty");
  if (step.name.size() > kMaxNameBytes) return fail("the name is longer than 4096 bytes");
  if (!stopped) return step;
  const std::string_view rest = text;
  if (!TakeEscaped(&text, '@', &stopped, &step.domain)) return fail("\\ escapes only @ and \\");
  if (stopped) return fail("a second @ (write \\@ for one in a name)");
  if (step.domain.empty()) return fail("the domain after @ is empty");
  if (step.domain.size() > kMaxNameBytes) return fail("the domain is longer than 4096 bytes");
  if (rest == "*") {
    step.any_domain = true;
    step.domain.clear();
  }
  return step;
}

// Signals that no toggle may take: they cannot be caught, mean a fault or a child's end, or are
// the C library's own (32 and 33).
bool IsUsableSignal(int n) {
  for (const int taken : {SIGKILL, SIGSTOP, SIGCHLD, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP,
                          SIGABRT, SIGSYS, 32, 33})
    if (n == taken) return false;
  return n >= 1 && n <= SIGRTMAX;
}

struct SignalName {
  std::string_view name;
  int number;
};
constexpr SignalName kSignalNames[] = {
    {"HUP", SIGHUP},   {"INT", SIGINT},       {"QUIT", SIGQUIT}, {"USR1", SIGUSR1},
    {"USR2", SIGUSR2}, {"PIPE", SIGPIPE},     {"ALRM", SIGALRM}, {"TERM", SIGTERM},
    {"CONT", SIGCONT}, {"TSTP", SIGTSTP},     {"TTIN", SIGTTIN}, {"TTOU", SIGTTOU},
    {"URG", SIGURG},   {"XCPU", SIGXCPU},     {"XFSZ", SIGXFSZ}, {"VTALRM", SIGVTALRM},
    {"PROF", SIGPROF}, {"WINCH", SIGWINCH},   {"IO", SIGIO},     {"POLL", SIGPOLL},
    {"PWR", SIGPWR},   {"STKFLT", SIGSTKFLT}, {"KILL", SIGKILL}, {"STOP", SIGSTOP},
    {"ABRT", SIGABRT}, {"BUS", SIGBUS},       {"CHLD", SIGCHLD}, {"FPE", SIGFPE},
    {"ILL", SIGILL},   {"SEGV", SIGSEGV},     {"SYS", SIGSYS},   {"TRAP", SIGTRAP}};

std::optional<int> RealtimeSignal(std::string_view name) {
  const bool from_end = name.starts_with("RTMAX");
  if (!from_end && !name.starts_with("RTMIN")) return std::nullopt;
  name.remove_prefix(5);
  const int base = from_end ? SIGRTMAX : SIGRTMIN;
  if (name.empty()) return base;
  const auto offset = WholeNumber(name.substr(1));
  if (name[0] != (from_end ? '-' : '+') || !offset || *offset > 64) return std::nullopt;
  const int number = from_end ? base - static_cast<int>(*offset) : base + static_cast<int>(*offset);
  if (number < SIGRTMIN || number > SIGRTMAX) return std::nullopt;
  return number;
}

struct ScheduleKey {
  std::string_view name;
  uint64_t ScheduleSetting::*field;  // null: the flag skip_first_wait
  uint64_t largest;
};
constexpr ScheduleKey kScheduleKeys[] = {
    {"skip_first", &ScheduleSetting::skip_first, kMaxSkipFirst},
    {"wait", &ScheduleSetting::wait, kMaxPhaseSteps},
    {"warmup", &ScheduleSetting::warmup, kMaxPhaseSteps},
    {"active", &ScheduleSetting::active, kMaxPhaseSteps},
    {"repeat", &ScheduleSetting::repeat, kMaxRepeat},
    {"skip_first_wait", nullptr, 1}};

}  // namespace

std::vector<std::string_view> SplitCommas(std::string_view text) {
  std::vector<std::string_view> parts;
  size_t from = 0;
  for (size_t comma; (comma = text.find(',', from)) != std::string_view::npos; from = comma + 1)
    parts.push_back(text.substr(from, comma - from));
  parts.push_back(text.substr(from));
  return parts;
}

bool Fail(std::string* why, std::string text) {
  *why = std::move(text);
  return false;
}
std::string Quoted(std::string_view text) { return "'" + Printable(text, 40) + "'"; }

bool TakeEscaped(std::string_view* text, char stop, bool* stopped, std::string* out) {
  *stopped = false;
  while (!text->empty()) {
    const char c = text->front();
    text->remove_prefix(1);
    if (c == stop) return *stopped = true;
    if (c == '\\') {
      if (text->empty() || (text->front() != stop && text->front() != '\\')) return false;
      out->push_back(text->front());
      text->remove_prefix(1);
    } else {
      out->push_back(c);
    }
  }
  return true;
}

std::optional<uint64_t> WholeNumber(std::string_view text) {
  uint64_t value = 0;
  if (text.empty() || text[0] < '0' || text[0] > '9') return std::nullopt;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string SignalText(int number) {
  if (number == 0) return "none";
  for (const SignalName& s : kSignalNames)
    if (s.number == number) return std::string(s.name);
  if (number >= SIGRTMIN && number <= SIGRTMAX) return "RTMIN+" + std::to_string(number - SIGRTMIN);
  return std::to_string(number);
}

std::optional<uint64_t> ParseDuration(std::string_view text) {
  return ScaledNumber(text, kDurationUnits, kMaxDurationNs);
}

std::optional<uint64_t> ParseCount(std::string_view text) {
  return ScaledNumber(text, kCountUnits, INT64_MAX);
}

std::optional<int> ParseSignal(std::string_view text) {
  if (text == "none") return 0;
  if (const auto number = WholeNumber(text)) {
    if (*number > 64 || !IsUsableSignal(static_cast<int>(*number))) return std::nullopt;
    return static_cast<int>(*number);
  }
  if (text.starts_with("SIG")) text.remove_prefix(3);
  for (const SignalName& s : kSignalNames)
    if (s.name == text) return IsUsableSignal(s.number) ? std::optional(s.number) : std::nullopt;
  return RealtimeSignal(text);
}

std::optional<ScheduleSetting> ParseSchedule(std::string_view text, std::string* why) {
  ScheduleSetting schedule;
  std::vector<std::string_view> seen;
  const auto fail = [&](std::string reason) {
    *why = std::move(reason);
    return std::nullopt;
  };
  for (const std::string_view part : SplitCommas(text)) {
    const size_t equals = part.find('=');
    const std::string_view name = part.substr(0, equals);
    const auto* key = std::find_if(std::begin(kScheduleKeys), std::end(kScheduleKeys),
                                   [&](const ScheduleKey& k) { return k.name == name; });
    if (name.empty()) return fail("an empty entry");
    if (key == std::end(kScheduleKeys)) return fail(Quoted(name) + " is not a key");
    if (equals == std::string_view::npos) return fail(std::string(name) + " has no number");
    if (std::find(seen.begin(), seen.end(), name) != seen.end())
      return fail(std::string(name) + " is given twice");
    seen.push_back(name);
    const auto number = WholeNumber(part.substr(equals + 1));
    if (!number || *number > key->largest)
      return fail(std::string(name) + " must be a whole number from 0 to " +
                  std::to_string(key->largest));
    if (key->field)
      schedule.*key->field = *number;
    else
      schedule.skip_first_wait = *number == 1;
  }
  if (std::find(seen.begin(), seen.end(), "active") == seen.end()) return fail("active is missing");
  if (schedule.active < 1) return fail("active must be at least 1");
  return schedule;
}

std::optional<StepSetting> ParseStep(std::string_view text, std::string* why) {
  StepSetting step;
  if (text == "none" || text == "signal") {
    step.kind = text == "none" ? StepSetting::Kind::kNone : StepSetting::Kind::kSignal;
    return step;
  }
  if (text.starts_with("nvtx:"))
    return ParseRangeStep(text.substr(5), StepSetting::Kind::kNvtx, why);
  if (text.starts_with("nvtx-glob:"))
    return ParseRangeStep(text.substr(10), StepSetting::Kind::kNvtxGlob, why);
  if (text.starts_with("every:")) {
    const auto every = ParseDuration(text.substr(6));
    if (every && *every >= 1'000'000) {
      step.kind = StepSetting::Kind::kEvery;
      step.every_ns = *every;
      return step;
    }
    *why = every ? "shorter than 1ms" : "no duration after every:";
    return std::nullopt;
  }
  *why = "no such step source";
  return std::nullopt;
}

bool ParseScheduleInto(std::string_view value, Settings* settings, std::string* why) {
  if (value == "none") {
    settings->schedule.reset();
    return true;
  }
  const auto schedule = ParseSchedule(value, why);
  if (schedule) settings->schedule = *schedule;
  return schedule.has_value();
}

bool ParseStepInto(std::string_view value, Settings* settings, std::string* why) {
  auto step = ParseStep(value, why);
  if (step) settings->step = *std::move(step);
  return step.has_value();
}

bool ParseSignalInto(std::string_view value, Settings* settings, std::string* why) {
  const auto number = ParseSignal(value);
  if (!number) return Fail(why, "no signal that can be used");
  settings->signal_number = *number;
  settings->signal_asked = true;
  return true;
}

bool ParseCollectorInto(std::string_view value, Settings* settings, std::string* why) {
  if (value != "auto" && !AddressFromText(value)) return Fail(why, "too long for a socket");
  settings->collector = std::string(value);
  return true;
}

bool ParseLogInto(std::string_view value, Settings* settings, std::string* why) {
  constexpr std::string_view kLevels[] = {"off", "error", "warn", "info", "debug"};
  const size_t colon = value.find(':');
  const std::string_view level = value.substr(0, colon);
  const auto* found = std::find(std::begin(kLevels), std::end(kLevels), level);
  if (found == std::end(kLevels)) return Fail(why, Quoted(level) + " is no level");
  if (colon != std::string_view::npos && colon + 1 == value.size())
    return Fail(why, "no file after the colon");
  settings->log_level = static_cast<LogLevel>(found - std::begin(kLevels));
  settings->log_file = colon == std::string_view::npos ? "" : std::string(value.substr(colon + 1));
  return true;
}

}  // namespace stepagent::proto
