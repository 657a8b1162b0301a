#include <cupti.h>

#include <cstring>

#include "common/settings.h"
#include "cupti/personality.h"

namespace stepagent::sim {
namespace {

constexpr uint64_t Kinds(std::initializer_list<int> kinds) {
  uint64_t bits = 0;
  for (const int kind : kinds) bits |= uint64_t{1} << kind;
  return bits;
}
constexpr uint64_t kRefused11 = Kinds({6, 7, 14, 21, 23, 27, 31, 36, 41, 42, 43, 44});
constexpr uint64_t kRefused12 = Kinds({6, 7, 14, 21, 23, 27, 31, 41, 42, 43, 44});
constexpr uint64_t kRefused13 =
    Kinds({6, 7, 14, 15, 16, 21, 23, 24, 29, 30, 31, 32, 41, 42, 43, 44});

// A change of one generation against an earlier one.
struct Size {
  int kind;
  uint16_t bytes;
};

struct Sizes {
  uint16_t bytes[kMaxKind] = {};
};

constexpr Sizes With(Sizes base, std::initializer_list<Size> changes) {
  for (const Size& change : changes) base.bytes[change.kind] = change.bytes;
  return base;
}

// Measured with each generation's own iterator, through the vendor's 11.8.87, 12.4.127, 12.6.80 and
// 13.0.85: every kind, also those that cannot be enabled.
constexpr Sizes kSizes118 =
    With({}, {{1, 88},   {2, 88},   {3, 200},  {4, 40},  {5, 40},  {6, 24},   {7, 24},  {8, 176},
              {9, 16},   {10, 200}, {11, 32},  {12, 56}, {13, 32}, {14, 24},  {15, 56}, {16, 40},
              {17, 40},  {18, 144}, {19, 40},  {20, 40}, {21, 32}, {22, 96},  {23, 32}, {24, 48},
              {25, 64},  {26, 32},  {27, 24},  {28, 24}, {29, 56}, {30, 40},  {31, 32}, {32, 24},
              {33, 152}, {34, 152}, {35, 120}, {36, 24}, {37, 24}, {38, 40},  {39, 24}, {40, 136},
              {41, 32},  {42, 32},  {43, 32},  {44, 32}, {45, 80}, {46, 168}, {47, 40}, {48, 40},
              {49, 120}, {50, 72},  {51, 48},  {52, 64}});
constexpr Sizes kSizes124 =
    With(kSizes118, {{3, 208}, {10, 208}, {8, 184}, {9, 24}, {17, 56}, {51, 56}, {52, 72}});
constexpr Sizes kSizes126 = With(kSizes124, {{9, 32}, {49, 128}});
constexpr Sizes kSizes130 =
    With(kSizes126, {{1, 96}, {3, 216}, {6, 0},   {7, 0},   {10, 216}, {13, 40},  {14, 0},
                     {15, 0}, {16, 0},  {21, 0},  {23, 0},  {24, 0},   {25, 104}, {29, 0},
                     {30, 0}, {31, 0},  {32, 0},  {36, 56}, {38, 56},  {41, 0},   {42, 0},
                     {43, 0}, {44, 0},  {50, 80}, {53, 56}, {54, 64},  {55, 32}});

// Every record grows, by different amounts, and two kinds are new.
constexpr Sizes FutureSizes() {
  Sizes sizes = kSizes130;
  for (int kind = 0; kind < kMaxKind; ++kind) {
    if (sizes.bytes[kind] != 0) sizes.bytes[kind] += static_cast<uint16_t>(8 * (1 + kind % 3));
  }
  return With(sizes, {{56, 72}, {60, 48}});
}
constexpr Sizes kSizesFuture = FutureSizes();

// What today's header calls these records, where it has them.
#if CUPTI_API_VERSION >= 130000
static_assert(kSizes130.bytes[1] == sizeof(CUpti_ActivityMemcpy6));
static_assert(kSizes130.bytes[2] == sizeof(CUpti_ActivityMemset4));
static_assert(kSizes130.bytes[10] == sizeof(CUpti_ActivityKernel10));
static_assert(kSizes130.bytes[4] == sizeof(CUpti_ActivityAPI));
static_assert(kSizes130.bytes[8] == sizeof(CUpti_ActivityDevice5));
static_assert(kSizes130.bytes[9] == sizeof(CUpti_ActivityContext3));
static_assert(kSizes130.bytes[17] == sizeof(CUpti_ActivityOverhead3));
static_assert(kSizes130.bytes[22] == sizeof(CUpti_ActivityMemcpyPtoP4));
static_assert(kSizes130.bytes[36] == sizeof(CUpti_ActivityCudaEvent2));
static_assert(kSizes130.bytes[37] == sizeof(CUpti_ActivityStream));
static_assert(kSizes130.bytes[38] == sizeof(CUpti_ActivitySynchronization2));
static_assert(kSizes130.bytes[39] == sizeof(CUpti_ActivityExternalCorrelation));
static_assert(kSizes130.bytes[49] == sizeof(CUpti_ActivityMemory4));
static_assert(kSizes130.bytes[51] == sizeof(CUpti_ActivityGraphTrace2));
static_assert(kSizes124.bytes[10] == sizeof(CUpti_ActivityKernel9));
static_assert(kSizes118.bytes[10] == sizeof(CUpti_ActivityKernel8));
static_assert(kSizes124.bytes[1] == sizeof(CUpti_ActivityMemcpy5));
static_assert(kSizes124.bytes[9] == sizeof(CUpti_ActivityContext2));
static_assert(kSizes118.bytes[9] == sizeof(CUpti_ActivityContext));
static_assert(kSizes124.bytes[38] == sizeof(CUpti_ActivitySynchronization));
static_assert(kSizes118.bytes[51] == sizeof(CUpti_ActivityGraphTrace));
static_assert(kSizes118.bytes[49] == sizeof(CUpti_ActivityMemory3));
static_assert(kSizes118.bytes[17] == sizeof(CUpti_ActivityOverhead));
#endif

struct Manners {
  const char* name;
  uint32_t api_version;
  bool is_13;
  bool is_11;
  uint64_t refused;
  int driver_names;
  int runtime_names;
  Sizes sizes;
};

constexpr Personality Make(const Manners& manners) {
  Personality personality{};
  personality.name = manners.name;
  personality.api_version = manners.api_version;
  personality.unusable_code = manners.is_13 ? 999 : 15;
  personality.unknown_kind_code = manners.is_11 ? 999 : 21;
  personality.per_thread_buffers = manners.is_13;
  personality.null_buffer_crashes = manners.api_version < 27;
  personality.remembers_errors = !manners.is_13;
  personality.finalize_crashes_with_graphs = manners.api_version < 24;
  personality.misses_early_graphs = manners.api_version <= 18;
  personality.sees_bodies = manners.api_version >= 24;
  personality.refused_kinds = manners.refused;
  personality.driver_name_count = manners.driver_names;
  personality.runtime_name_count = manners.runtime_names;
  for (int kind = 0; kind < kMaxKind; ++kind) {
    personality.record_bytes[kind] = manners.sizes.bytes[kind];
  }
  return personality;
}

constexpr Personality kPersonalities[] = {
    Make({"11.8", 18, false, true, kRefused11, 677, 434, kSizes118}),
    Make({"12.4", 22, false, false, kRefused12, 754, 468, kSizes124}),
    Make({"12.6", 24, false, false, kRefused12, 763, 480, kSizes126}),
    Make({"13.0", 130001, true, false, kRefused13, 807, 523, kSizes130}),
    Make({"future", 140000, true, false, kRefused13, kMaxKind * 100, kMaxKind * 100, kSizesFuture}),
};

}  // namespace

const Personality* FindPersonality(const char* name) {
  for (const Personality& personality : kPersonalities) {
    if (strcmp(personality.name, name) == 0) return &personality;
  }
  return nullptr;
}

const Personality& ThePersonality() {
  static const Personality* personality = [] {
    const Personality* found = FindPersonality(kPersonalityName);
    if (found == nullptr) Violation("no personality named %s", kPersonalityName);
    return found;
  }();
  return *personality;
}

}  // namespace stepagent::sim
