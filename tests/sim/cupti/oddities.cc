#include "cupti/oddities.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "common/settings.h"

namespace stepagent::sim {
namespace {

enum class What {
  kZero,
  kZeroStart,
  kZeroEnd,
  kReversed,
  kFuture,
  kNullName,
  kEmptyName,
  kLongName,
  kBadUtf8,
  kNoDevice,
  kDrop,
  kExtra,
  kDuplicate
};

struct Word {
  const char* text;
  What what;
};
constexpr Word kWords[] = {
    {"zero", What::kZero},
    {"zero_start", What::kZeroStart},
    {"zero_end", What::kZeroEnd},
    {"reversed", What::kReversed},
    {"future", What::kFuture},
    {"null_name", What::kNullName},
    {"empty_name", What::kEmptyName},
    {"long_name", What::kLongName},
    {"bad_utf8", What::kBadUtf8},
    {"no_device", What::kNoDevice},
    {"drop", What::kDrop},
    {"extra", What::kExtra},
    {"duplicate", What::kDuplicate},
};

struct Rule {
  What what;
  uint64_t number;
  bool is_every;
};

Rule ParseRule(const std::string& text) {
  const size_t at = text.find_first_of("@/");
  for (const Word& word : kWords) {
    if (at == std::string::npos || text.compare(0, at, word.text) != 0) continue;
    const uint64_t number = strtoull(text.c_str() + at + 1, nullptr, 10);
    if (number > 0) return {word.what, number, text[at] == '/'};
  }
  Violation("STEPAGENT_SIM_ODD: '%s' is not what@n or what/n", text.c_str());
}

const std::vector<Rule>& Rules() {
  static const auto* rules = [] {
    auto* made = new std::vector<Rule>;
    const std::string text = SettingText("ODD");
    size_t at = 0;
    while (at < text.size()) {
      const size_t end = std::min(text.find(';', at), text.size());
      if (end > at) made->push_back(ParseRule(text.substr(at, end - at)));
      at = end + 1;
    }
    return made;
  }();
  return *rules;
}

const char* LongName() {
  static const auto* name = new std::string(100000, 'k');
  return name->c_str();
}

template <class T>
T Get(const EncodedRecord& record, uint32_t offset) {
  T value;
  memcpy(&value, record.bytes + offset, sizeof(T));
  return value;
}

template <class T>
void Set(EncodedRecord* record, uint32_t offset, T value) {
  memcpy(record->bytes + offset, &value, sizeof(T));
}

void SetTimes(EncodedRecord* record, const DeviceLayout& layout, What what) {
  constexpr uint64_t kDays = uint64_t{30} * 86400 * 1000000000;
  const auto start = Get<uint64_t>(*record, layout.start);
  const auto end = Get<uint64_t>(*record, layout.end);
  if (what == What::kZero || what == What::kZeroStart) Set<uint64_t>(record, layout.start, 0);
  if (what == What::kZero || what == What::kZeroEnd) Set<uint64_t>(record, layout.end, 0);
  if (what == What::kReversed) {
    Set<uint64_t>(record, layout.start, end);
    Set<uint64_t>(record, layout.end, start);
  }
  if (what == What::kFuture) Set<uint64_t>(record, layout.end, end + kDays);
}

void SetName(EncodedRecord* record, const DeviceLayout& layout, What what) {
  if (layout.name == 0) return;
  const char* name = nullptr;
  if (what == What::kEmptyName) name = "";
  if (what == What::kLongName) name = LongName();
  if (what == What::kBadUtf8) name = "kernel_\xff\xfe\xc3(_bad";
  Set<const char*>(record, layout.name, name);
}

void ApplyRule(const Rule& rule, EncodedRecord* record, const DeviceLayout& layout,
               Oddity* oddity) {
  switch (rule.what) {
    case What::kZero:
    case What::kZeroStart:
    case What::kZeroEnd:
    case What::kReversed:
    case What::kFuture:
      SetTimes(record, layout, rule.what);
      break;
    case What::kNullName:
    case What::kEmptyName:
    case What::kLongName:
    case What::kBadUtf8:
      SetName(record, layout, rule.what);
      break;
    case What::kNoDevice:
      Set<uint32_t>(record, layout.device, 0xFFFFFFFFu);
      break;
    case What::kDrop:
      oddity->drops = true;
      break;
    case What::kExtra:
      oddity->has_extra = true;
      break;
    case What::kDuplicate:
      oddity->is_duplicated = true;
      break;
  }
}

}  // namespace

bool HasOddities() {
  static const bool has = !Rules().empty();
  return has;
}

Oddity ApplyOddities(EncodedRecord* record, const DeviceLayout& layout) {
  static std::atomic<uint64_t> count{0};
  const uint64_t number = count.fetch_add(1, std::memory_order_relaxed) + 1;
  Oddity oddity;
  for (const Rule& rule : Rules()) {
    const bool applies = rule.is_every ? number % rule.number == 0 : number == rule.number;
    if (applies) ApplyRule(rule, record, layout, &oddity);
  }
  return oddity;
}

}  // namespace stepagent::sim
