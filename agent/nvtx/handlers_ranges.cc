// HOT PATH A. Ranges and marks.
//
// Idle, a push is: the thread's block (one TLS load), its depth, one look at the phase words and,
// with a step source, the first byte of the name. All else is out of line.
#include <atomic>

#include "agent/core/clock.h"
#include "agent/core/phase_words.h"
#include "agent/core/record.h"
#include "agent/core/ring_registry.h"
#include "agent/nvtx/event_text.h"
#include "agent/nvtx/handlers.h"
#include "agent/nvtx/seen_ranges.h"
#include "agent/nvtx/start_ids.h"
#include "agent/nvtx/step_range.h"
#include "agent/nvtx/thread_block.h"

namespace stepagent::nvtx {
namespace {

using core::g_words;
using core::HostClock;
using core::kBitCountNames;
using core::kBitRanges;
using core::kBitStepSource;
using core::NameId;
using core::RecordKind;

constexpr int kNoSuchRange = -1;

constinit std::atomic<uint64_t> shared_starts{0};
alignas(64) constinit std::atomic<uint64_t> unmatched_ends{0};

uint32_t Bits() { return g_words->bits.load(std::memory_order_relaxed); }
bool IsAlive() { return g_words->alive.load(std::memory_order_relaxed) != 0; }
void CountUnmatched() { unmatched_ends.fetch_add(1, std::memory_order_relaxed); }

// What a begin has to do beyond its depth or id.
struct Duty {
  enum class Kind : uint8_t {
    kIdle,      // nothing
    kRecorded,  // its record and nothing else: the common one of a recording window
    kBusy,      // find out
  };
  Kind kind;
  bool is_counted;  // its name, this time
};

// Idle: no phase records, the name is not counted this time, and it cannot be a step.
template <typename Text>
[[gnu::always_inline]] inline Duty DutyOf(ThreadBlock* block, const Text& text) noexcept {
  const uint32_t bits = Bits();
  if (!IsAlive()) [[unlikely]]
    return {Duty::Kind::kBusy, false};
  if (bits == 0) return {Duty::Kind::kIdle, false};
  if ((bits & kBitCountNames) != 0) {
    if ((bits & kBitRanges) != 0) return {Duty::Kind::kBusy, true};
    if (block != nullptr) {
      if (block->count_left == 0) [[unlikely]]
        return {Duty::Kind::kBusy, true};
      --block->count_left;
    }
  }
  const StepPattern* pattern = StepPattern::Current();
  if (pattern != nullptr && text.MayMatch(*pattern)) return {Duty::Kind::kBusy, false};
  return {(bits & kBitRanges) != 0 ? Duty::Kind::kRecorded : Duty::Kind::kIdle, false};
}

// With which a name is counted; 0 not. Where everything is recorded each begin is counted.
uint32_t WeightOf(ThreadBlock* block, bool is_counted) noexcept {
  if (!is_counted) return 0;
  return block == nullptr || (Bits() & kBitRanges) != 0 ? 1 : NextSeenWeight(block);
}

// Is this range a step? In a child that is not alive a match revives it first, if it can.
template <typename Text>
bool IsStep(const Text& text, NameId name, NameId domain, bool is_alive) noexcept {
  const StepPattern* pattern = StepPattern::Current();
  if (pattern == nullptr || !pattern->MatchesDomain(domain)) return false;
  const bool is_match = pattern->is_glob() && name > core::kOverflowNameId
                            ? pattern->MatchesName(name)
                            : text.Matches(*pattern);
  if (!is_match) return false;
  return is_alive || IsAliveOrRevived();
}

[[gnu::always_inline]] inline void Fill(core::Record* record, uint64_t range_id, NameId name,
                                        NameId domain, EventStyle style) noexcept {
  record->range_id = range_id;
  record->name = name;
  record->domain = domain;
  record->category = style.category;
  record->color = style.color;
}

[[gnu::always_inline]] inline void Record(RecordKind kind, uint64_t range_id, NameId name,
                                          NameId domain, EventStyle style) noexcept {
  core::Append(kind, core::CallClass::kOther, [=](core::Record* record) {
    Fill(record, range_id, name, domain, style);
    record->begin_ticks = HostClock::Ticks();
  });
}

// A push or pop; returns its level. See TryAppend.
[[gnu::noinline]] int RecordSlowly(RecordKind kind, uint32_t level, NameId name, NameId domain,
                                   EventStyle style) noexcept {
  Record(kind, level, name, domain, style);
  return static_cast<int>(level);
}
[[gnu::always_inline]] inline int RecordLevel(RecordKind kind, uint32_t level, NameId name,
                                              NameId domain, EventStyle style) noexcept {
  const auto fill = [=](core::Record* record) {
    Fill(record, level, name, domain, style);
    record->begin_ticks = HostClock::RegisterTicks();
  };
  if (HostClock::is_register() && core::TryAppend(kind, core::CallClass::kOther, fill)) [[likely]] {
    return static_cast<int>(level);
  }
  return RecordSlowly(kind, level, name, domain, style);
}

// What a begin does beyond its depth or id. `begin_step` is called if the range is a step.
template <typename Text, typename Style, typename BeginStep>
[[gnu::always_inline]] inline void BeginRange(RecordKind kind, uint64_t range_id, NameId domain,
                                              Text text, Style style, uint32_t weight,
                                              BeginStep&& begin_step) noexcept {
  uint32_t bits = Bits();
  const bool is_alive = IsAlive();
  NameId name = core::kNoName;
  const bool is_known = (bits & kBitRanges) != 0 || weight != 0;
  if (is_known) name = text.Intern();
  if (weight != 0) CountSeen(domain, name, Text::kIsRegistered && name != core::kNoName, weight);
  if (((bits & kBitStepSource) != 0 || !is_alive) && IsStep(text, name, domain, is_alive)) {
    begin_step();
    bits = Bits();  // the step may have begun a phase; its own range belongs to it
  }
  if ((bits & kBitRanges) == 0) return;
  if (!is_known) name = text.Intern();
  Record(kind, range_id, name, domain, style.Get());
}

// --- push and pop ---

template <typename Text, typename Style>
[[gnu::noinline]] int PushBusy(ThreadBlock* block, NameId domain, uint32_t level, Text text,
                               Style style, bool is_counted) noexcept {
  // A step this thread's parent process had open is not ours to end.
  if (!IsAlive() && block != nullptr) block->step_depth = 0;
  BeginRange(RecordKind::kRangePush, level, domain, text, style, WeightOf(block, is_counted),
             [=] { BeginPushStep(block, domain, level); });
  return static_cast<int>(level);
}

// Apart from PushBusy because it keeps next to nothing across its one call.
template <typename Text, typename Style>
[[gnu::noinline]] int PushRecorded(NameId domain, uint32_t level, Text text, Style style) noexcept {
  return RecordLevel(RecordKind::kRangePush, level, text.Intern(), domain, style.Get());
}

template <typename Text, typename Style>
[[gnu::always_inline]] inline int Push(NameId domain, Text text, Style style) noexcept {
  ThreadBlock* block = LocalBlock();
  uint32_t* depth = block == nullptr ? nullptr : MakeDepth(block, domain);
  uint32_t level = 0;
  if (depth != nullptr) [[likely]]
    level = (*depth)++;
  const Duty duty = DutyOf(block, text);
  if (duty.kind == Duty::Kind::kIdle) [[likely]]
    return static_cast<int>(level);
  if (duty.kind == Duty::Kind::kRecorded) return PushRecorded(domain, level, text, style);
  return PushBusy(block, domain, level, text, style, duty.is_counted);
}

// `level` is the depth of the range being ended.
[[gnu::noinline]] int PopBusy(ThreadBlock* block, NameId domain, uint32_t level) noexcept {
  // The range's own end comes before the step's, so that it lies within [begin, end) of it.
  if ((Bits() & kBitRanges) != 0) Record(RecordKind::kRangePop, level, core::kNoName, domain, {});
  if (block->step_depth == level + 1 && block->step_domain == domain) EndPushStep(block);
  return static_cast<int>(level);
}

// As PopBusy where the range cannot be the step.
[[gnu::noinline]] int PopRecorded(NameId domain, uint32_t level) noexcept {
  if ((Bits() & kBitRanges) == 0) return static_cast<int>(level);
  return RecordLevel(RecordKind::kRangePop, level, core::kNoName, domain, {});
}

[[gnu::noinline]] int PopNothing() noexcept {
  // A thread that found no block answers 0, as its push did.
  if (t_block == kNoBlock) return 0;
  CountUnmatched();
  return kNoSuchRange;
}

[[gnu::always_inline]] inline int Pop(NameId domain) noexcept {
  ThreadBlock* block = ExistingBlock();
  uint32_t* depth = block == nullptr ? nullptr : FindDepth(block, domain);
  if (depth == nullptr || *depth == 0) [[unlikely]]
    return PopNothing();
  const uint32_t level = --*depth;
  if (((Bits() & kBitRanges) | block->step_depth) == 0) [[likely]]
    return static_cast<int>(level);
  return block->step_depth == level + 1 ? PopBusy(block, domain, level)
                                        : PopRecorded(domain, level);
}

// --- start and end ---

template <typename Text, typename Style>
[[gnu::noinline]] void StartBusy(ThreadBlock* block, uint64_t id, NameId domain, Text text,
                                 Style style, bool is_counted) noexcept {
  BeginRange(RecordKind::kRangeStart, id, domain, text, style, WeightOf(block, is_counted),
             [=] { BeginStartStep(id); });
}

template <typename Text, typename Style>
inline nvtxRangeId_t StartRange(NameId domain, Text text, Style style) noexcept {
  ThreadBlock* block = LocalBlock();
  const uint64_t id = block != nullptr ? NextStartId(block) : NextSharedStartId();
  const Duty duty = DutyOf(block, text);
  if (duty.kind != Duty::Kind::kIdle) StartBusy(block, id, domain, text, style, duty.is_counted);
  return id;
}

void EndRange(NameId domain, uint64_t id) noexcept {
  if (!TakeStart(id)) {
    CountUnmatched();
    return;
  }
  if ((Bits() & kBitRanges) != 0) Record(RecordKind::kRangeEnd, id, core::kNoName, domain, {});
  if (IsStartStep(id)) EndStartStep(id);
}

template <typename Text, typename Style>
inline void Mark(NameId domain, Text text, Style style) noexcept {
  if ((Bits() & kBitRanges) == 0) return;
  Record(RecordKind::kMark, 0, text.Intern(), domain, style.Get());
}

// --- the table's functions ---

int PushEvent(NameId domain, const nvtxEventAttributes_t* event) noexcept {
  const StyleIn style{event};
  return WithText(event, [&](const auto& text) { return Push(domain, text, style); });
}
nvtxRangeId_t StartEvent(NameId domain, const nvtxEventAttributes_t* event) noexcept {
  const StyleIn style{event};
  return WithText(event, [&](const auto& text) { return StartRange(domain, text, style); });
}
void MarkEvent(NameId domain, const nvtxEventAttributes_t* event) noexcept {
  const StyleIn style{event};
  WithText(event, [&](const auto& text) { Mark(domain, text, style); });
}

void OnMarkEx(const nvtxEventAttributes_t* event) noexcept { MarkEvent(core::kNoName, event); }
void OnMarkA(const char* text) noexcept { Mark(core::kNoName, PlainText{text}, NoStyle{}); }
void OnMarkW(const wchar_t* text) noexcept { Mark(core::kNoName, WideText{text}, NoStyle{}); }
nvtxRangeId_t OnStartEx(const nvtxEventAttributes_t* event) noexcept {
  return StartEvent(core::kNoName, event);
}
nvtxRangeId_t OnStartA(const char* text) noexcept {
  return StartRange(core::kNoName, PlainText{text}, NoStyle{});
}
nvtxRangeId_t OnStartW(const wchar_t* text) noexcept {
  return StartRange(core::kNoName, WideText{text}, NoStyle{});
}
void OnEnd(nvtxRangeId_t id) noexcept { EndRange(core::kNoName, id); }
int OnPushEx(const nvtxEventAttributes_t* event) noexcept {
  return PushEvent(core::kNoName, event);
}
int OnPushA(const char* text) noexcept { return Push(core::kNoName, PlainText{text}, NoStyle{}); }
int OnPushW(const wchar_t* text) noexcept { return Push(core::kNoName, WideText{text}, NoStyle{}); }
int OnPop() noexcept { return Pop(core::kNoName); }

void OnDomainMarkEx(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event) noexcept {
  MarkEvent(DomainOfHandle(domain), event);
}
nvtxRangeId_t OnDomainStartEx(nvtxDomainHandle_t domain,
                              const nvtxEventAttributes_t* event) noexcept {
  return StartEvent(DomainOfHandle(domain), event);
}
void OnDomainEnd(nvtxDomainHandle_t domain, nvtxRangeId_t id) noexcept {
  EndRange(DomainOfHandle(domain), id);
}
int OnDomainPushEx(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event) noexcept {
  return PushEvent(DomainOfHandle(domain), event);
}
int OnDomainPop(nvtxDomainHandle_t domain) noexcept { return Pop(DomainOfHandle(domain)); }

}  // namespace

uint64_t NextSharedStartId() noexcept {
  const uint64_t sequence = shared_starts.fetch_add(1, std::memory_order_relaxed) + 1;
  return (kSharedBlock + 1) << kSequenceBits | (sequence & kSequenceMask);
}

uint64_t UnmatchedEnds() noexcept { return unmatched_ends.load(std::memory_order_relaxed); }
void ForgetUnmatchedEnds() noexcept { unmatched_ends.store(0, std::memory_order_relaxed); }

void PutCoreRanges(const Slots& slots) noexcept {
  slots.Put<nvtxMarkEx_impl_fntype>(NVTX_CBID_CORE_MarkEx, OnMarkEx);
  slots.Put<nvtxMarkA_impl_fntype>(NVTX_CBID_CORE_MarkA, OnMarkA);
  slots.Put<nvtxMarkW_impl_fntype>(NVTX_CBID_CORE_MarkW, OnMarkW);
  slots.Put<nvtxRangeStartEx_impl_fntype>(NVTX_CBID_CORE_RangeStartEx, OnStartEx);
  slots.Put<nvtxRangeStartA_impl_fntype>(NVTX_CBID_CORE_RangeStartA, OnStartA);
  slots.Put<nvtxRangeStartW_impl_fntype>(NVTX_CBID_CORE_RangeStartW, OnStartW);
  slots.Put<nvtxRangeEnd_impl_fntype>(NVTX_CBID_CORE_RangeEnd, OnEnd);
  slots.Put<nvtxRangePushEx_impl_fntype>(NVTX_CBID_CORE_RangePushEx, OnPushEx);
  slots.Put<nvtxRangePushA_impl_fntype>(NVTX_CBID_CORE_RangePushA, OnPushA);
  slots.Put<nvtxRangePushW_impl_fntype>(NVTX_CBID_CORE_RangePushW, OnPushW);
  slots.Put<nvtxRangePop_impl_fntype>(NVTX_CBID_CORE_RangePop, OnPop);
}

void PutCore2Ranges(const Slots& slots) noexcept {
  slots.Put<nvtxDomainMarkEx_impl_fntype>(NVTX_CBID_CORE2_DomainMarkEx, OnDomainMarkEx);
  slots.Put<nvtxDomainRangeStartEx_impl_fntype>(NVTX_CBID_CORE2_DomainRangeStartEx,
                                                OnDomainStartEx);
  slots.Put<nvtxDomainRangeEnd_impl_fntype>(NVTX_CBID_CORE2_DomainRangeEnd, OnDomainEnd);
  slots.Put<nvtxDomainRangePushEx_impl_fntype>(NVTX_CBID_CORE2_DomainRangePushEx, OnDomainPushEx);
  slots.Put<nvtxDomainRangePop_impl_fntype>(NVTX_CBID_CORE2_DomainRangePop, OnDomainPop);
}

}  // namespace stepagent::nvtx
