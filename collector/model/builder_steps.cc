// Step times: of a cycle when it is given, and of the steps behind it once they are told.
#include <utility>

#include "collector/model/builder_impl.h"

namespace stepagent::model {
namespace {

// Why the steps behind a cycle are not known.
constexpr const char* kNotEndedText = "this was written when the cycle ended";
constexpr const char* kReportLostText = "the report that held the later steps never came";
constexpr const char* kNotToldText =
    "the agent, of an older version, told no step times after its last cycle";
constexpr const char* kNoGoodbyeText =
    "the session ended without a goodbye, so that the times of later steps never came";

}  // namespace

void CycleBuilder::Impl::TakeSteps(const PendingCycle& p, bool has_agents_word, Cycle* cycle) {
  const bool has_rows = p.report && p.report->all_steps().count() > 0;
  if (has_rows) {
    step_rows.Take(p.report->all_steps());
    cycle->all_steps = step_rows.All();
    if (step_rows.has_gap()) {
      cycle->notes.push_back({"all_steps_incomplete",
                              "a report of step times was lost on the way: all_steps lacks rows"});
    }
  } else {
    cycle->all_steps = AllSteps{.count = seen_step_count, .each = seen_steps};
  }
  const char* const why_no_rows = has_agents_word ? kReportLostText : kNoGoodbyeText;
  TellLaterSteps(p.index, has_rows ? "" : why_no_rows);
  cycle->why_no_later_steps = has_agents_word ? kNotEndedText : kNoGoodbyeText;
  given.reset();
  if (cycle->steps.empty()) return;
  given = p.index;
  is_last_told = false;
}

// Steps behind the cycle given last, up to where `next` began to collect.
void CycleBuilder::Impl::TellLaterSteps(std::optional<uint32_t> next, std::string why_none) {
  if (!given) return;
  LaterSteps later{*given, step_rows.All(), std::nullopt, std::move(why_none)};
  const auto first = next ? first_steps.find(*next) : first_steps.end();
  if (first != first_steps.end()) later.until = first->second;
  later_steps.push_back(std::move(later));
  is_last_told = true;
}

void CycleBuilder::Impl::TellLaterStepsAtEnd() {
  if (!goodbye) return TellLaterSteps(std::nullopt, kNoGoodbyeText);
  TellLaterSteps(std::nullopt, tells_later_steps ? "" : kNotToldText);
}

void CycleBuilder::Impl::Leave(uint32_t cycle) {
  last_done = cycle;
  first_steps.erase(first_steps.begin(), first_steps.upper_bound(cycle));
}

std::vector<LaterSteps> CycleBuilder::TakeLaterSteps() {
  return std::exchange(impl_->later_steps, {});
}

// The times of all steps stay whole, and the cycle's own losses are not the next one's.
void CycleBuilder::Impl::EndLetGo(const PendingCycle& p) {
  if (p.HasActive()) let_go.push_back(p.index);
  const bool has_rows = p.report && p.report->all_steps().count() > 0;
  if (has_rows) step_rows.Take(p.report->all_steps());
  TellLaterSteps(p.index, has_rows ? "" : kReportLostText);
  given.reset();
  accounted = p.losses.value_or(CurrentLosses());
}

}  // namespace stepagent::model
