#include "player.h"

#include <sys/prctl.h>
#include <time.h>

#include <thread>

namespace stepagent::replay {
namespace {

int64_t NowNs() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1'000'000'000LL + time.tv_nsec;
}

}  // namespace

Player::Player(const Recording& recording, const std::vector<Action>& timeline, const Stage& stage,
               const PlayOptions& options)
    : recording_(recording),
      timeline_(timeline),
      stage_(stage),
      options_(options),
      turn_count_(timeline.size() * options.loops),
      places_(recording.threads.size()),
      open_ranges_(recording.annotations.size()) {
  for (uint64_t i = 0; i < timeline.size(); i++) places_[timeline[i].thread].push_back(i);
  loop_ns_ = timeline.empty() ? 0 : timeline.back().time_ns + 1;
}

CallCounts Player::Play() {
  start_ns_ = NowNs();
  std::vector<std::thread> others;
  for (uint32_t thread = 1; thread < recording_.threads.size(); thread++) {
    others.emplace_back([this, thread] { RunThread(thread); });
  }
  RunThread(0);
  for (std::thread& other : others) other.join();
  if (failure_ != nullptr) std::rethrow_exception(failure_);
  CallCounts counts{};
  for (size_t i = 0; i < counts.size(); i++) counts[i] = counts_[i].load();
  return counts;
}

void Player::RunThread(uint32_t thread) {
  // The default slack of 50 us is longer than most gaps between recorded calls.
  prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0);
  try {
    RunTurns(thread);
  } catch (...) {
    Fail(std::current_exception());
  }
}

void Player::RunTurns(uint32_t thread) {
  Actor actor = stage_.MakeActor();
  for (uint64_t loop = 0; loop < options_.loops; loop++) {
    for (const uint64_t place : places_[thread]) {
      const uint64_t turn = loop * timeline_.size() + place;
      if (!AwaitTurn(turn)) return;
      SleepUntilDue(turn);
      Perform(timeline_[place], turn, actor);
    }
  }
}

bool Player::AwaitTurn(uint64_t turn) {
  // Pairs with the release in PassTurn: what earlier turns did has happened.
  for (;;) {
    const uint64_t current = turn_.load(std::memory_order_acquire);
    if (has_failed_.load(std::memory_order_acquire)) return false;
    if (current == turn) return true;
    turn_.wait(current, std::memory_order_acquire);
  }
}

void Player::PassTurn(uint64_t turn) {
  if (has_failed_.load(std::memory_order_acquire)) return;
  turn_.store(turn + 1, std::memory_order_release);
  const bool is_last = turn + 1 == turn_count_;
  if (!is_last && ActionAt(turn).thread != ActionAt(turn + 1).thread) turn_.notify_all();
}

void Player::SleepUntilDue(uint64_t turn) const {
  if (options_.speed <= 0) return;
  const uint64_t loop = turn / timeline_.size();
  const double recorded_ns =
      static_cast<double>(static_cast<int64_t>(loop) * loop_ns_ + ActionAt(turn).time_ns);
  const int64_t due_ns = start_ns_ + static_cast<int64_t>(recorded_ns / options_.speed);
  const timespec due{static_cast<time_t>(due_ns / 1'000'000'000), due_ns % 1'000'000'000};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, nullptr) == EINTR) {
  }
}

void Player::Perform(const Action& action, uint64_t turn, Actor& actor) {
  if (action.type == ActionType::kCall) {
    const Call& call = recording_.calls[action.index];
    const bool waits = Waits(call.id);
    if (waits) PassTurn(turn);
    stage_.Issue(call, actor);
    counts_[static_cast<size_t>(call.id)].fetch_add(1, std::memory_order_relaxed);
    if (!waits) PassTurn(turn);
    return;
  }
  const char* name = recording_.names[recording_.annotations[action.index].name].c_str();
  switch (action.type) {
    case ActionType::kPush:
      nvtxRangePushA(name);
      break;
    case ActionType::kPop:
      nvtxRangePop();
      break;
    case ActionType::kRangeStart:
      open_ranges_[action.index] = nvtxRangeStartA(name);
      break;
    default:
      nvtxRangeEnd(open_ranges_[action.index]);
      break;
  }
  PassTurn(turn);
}

void Player::Fail(std::exception_ptr failure) {
  {
    const std::lock_guard lock(failure_lock_);
    if (failure_ == nullptr) failure_ = std::move(failure);
  }
  has_failed_.store(true, std::memory_order_release);
  // A changed value, so that nobody sleeps on the old one.
  turn_.store(UINT64_MAX, std::memory_order_release);
  turn_.notify_all();
}

}  // namespace stepagent::replay
