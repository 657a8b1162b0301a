#include "collector/model/verdict_notes.h"

#include <algorithm>
#include <utility>

#include "collector/model/lost_batches.h"

namespace stepagent::model {
namespace {

void AddNote(Cycle* cycle, const char* code, std::string text) {
  const bool is_there = std::any_of(cycle->notes.begin(), cycle->notes.end(),
                                    [code](const Note& n) { return n.code == code; });
  if (!is_there) cycle->notes.push_back({code, std::move(text)});
}

// What was lost on the way, and which setting gives it more room.
void AddLossAdvice(const LossTotals& losses, Cycle* cycle) {
  struct Advice {
    uint64_t count;
    const char *code, *text;
  };
  for (const Advice& advice :
       {Advice{losses.ring_full, "ring_full",
               " came faster than they were taken and found their thread's buffer full; "
               "--ring-memory gives buffers more room, --activities records less"},
        Advice{
            losses.no_buffer, "no_buffer",
            " found no buffer: the memory for them has a fixed limit; --activities records less"},
        Advice{
            losses.uplink, "uplink_full",
            " could not be sent to the collector in time; --activities records less, or --out on "
            "a faster disk"},
        Advice{losses.past_limit, "record_limit",
               " came when no more were wanted; --max-records lets a cycle hold more"}}) {
    if (advice.count > 0) AddNote(cycle, advice.code, Plural(advice.count, "record") + advice.text);
  }
}

void NoteClocks(const Verdict& v, Cycle* cycle) {
  if (v.clock_step_ns != 0) {
    AddNote(cycle, "wall_clock_step",
            "the wall clock was stepped by " + std::to_string(v.clock_step_ns / 1000) +
                " us during this cycle; device times near the step are uncertain by as much");
  }
  if (v.suspended_ms != 0) {
    AddNote(cycle, "machine_suspended",
            "the machine slept for " + std::to_string(v.suspended_ms) + " ms during this cycle");
  }
  if (!v.has_clock_samples && !cycle->HostOnly()) {
    AddNote(cycle, "no_clock_samples", "device times are mapped by the session's start alone");
  }
  if (v.assembly->before_launch() > 0) {
    AddNote(cycle, "device_before_launch",
            Plural(v.assembly->before_launch(), "piece") +
                " of device work stamped before the launch by more than the clocks' residual");
  }
}

void NoteLosses(const Verdict& v, Cycle* cycle) {
  const LossTotals& losses = v.losses;
  if (losses.dropped[0] > 0) {
    AddNote(cycle, "cupti_dropped",
            "CUPTI dropped " + Plural(losses.dropped[0], "device record") +
                " and does not say of which kind");
  }
  if (std::any_of(losses.is_unknown.begin(), losses.is_unknown.end(),
                  [](bool unknown) { return unknown; })) {
    AddNote(cycle, "drops_unknown", "CUPTI's count of dropped records could not be read");
  }
  if (losses.invalid[0] > 0) {
    AddNote(cycle, "unreadable_buffers",
            Plural(losses.invalid[0], "buffer") +
                " of CUPTI's held a record that CUPTI itself cannot pass; what followed is lost");
  }
  const bool is_touched = IsTouchedByLoss(v, *cycle);
  if (losses.lost_batches > 0 || is_touched) {
    AddNote(cycle, "lost_batches",
            LostText(v) +
                (is_touched ? "; the steps that their records may belong to are marked incomplete"
                            : ", all of them before the first active step"));
  }
  if (cycle->joins.launches_without_device_work.value_or(0) > 0) {
    AddNote(cycle, "launches_without_device_work",
            Plural(*cycle->joins.launches_without_device_work, "launch") +
                " without a device record; their steps are marked incomplete");
  }
}

// Records that came and are not drawn.
void NoteOddRecords(const Verdict& v, Cycle* cycle) {
  const uint64_t impossible = v.assembly->impossible(), twice = v.assembly->duplicates();
  if (impossible > 0) {
    AddNote(cycle, "impossible_stamps",
            Plural(impossible, "device record") +
                " with impossible times: counted as invalid, not drawn");
  }
  if (const uint64_t unfinished = v.assembly->unfinished(); unfinished > 0) {
    AddNote(cycle, "unfinished_work",
            Plural(unfinished, "piece") +
                " of device work had not ended when its window's grace time was over: not "
                "observed, counted as invalid, not drawn");
  }
  if (v.assembly->impossible_waits() > 0) {
    AddNote(
        cycle, "impossible_waits",
        Plural(v.assembly->impossible_waits(), "wait") +
            " with impossible times in CUPTI's record, as when one is under way when collection "
            "comes on or the wall clock is set back: their calls stand for them");
  }
  if (twice > 0) {
    AddNote(cycle, "duplicate_records",
            Plural(twice, "device record") +
                " came a second time: drawn once, the second counted as invalid");
  }
  std::string unreadable;
  for (size_t i = 1; i < kActivityCount; ++i) {
    if (v.losses.invalid[i] == 0) continue;
    const std::string kind(ActivityName(static_cast<Activity>(i)));
    unreadable += (unreadable.empty() ? "" : ", ") + Plural(v.losses.invalid[i], kind + " record");
  }
  if (unreadable.empty()) return;
  AddNote(cycle, "unreadable_records",
          unreadable + " without believable content: counted as invalid, not drawn");
}

}  // namespace

std::string Plural(uint64_t n, std::string_view what) {
  const bool hisses = what.ends_with("ch") || what.ends_with("s") || what.ends_with("x");
  return std::to_string(n) + " " + std::string(what) + (n == 1 ? "" : hisses ? "es" : "s");
}

std::string LostText(const Verdict& v) {
  if (v.losses.lost_batches == 0) return "a batch that an earlier cycle counts never came";
  return Plural(v.losses.lost_batches, "batch") + " never reached the collector";
}

void FillNotes(const Verdict& v, Cycle* cycle) {
  const CycleAssembly& a = *v.assembly;
  for (const Note& note : v.pending->notes) cycle->notes.push_back(note);
  const bool has_start = std::any_of(cycle->steps.begin(), cycle->steps.end(),
                                     [](const Step& s) { return s.contains_tracer_start; });
  if (has_start) {
    AddNote(cycle, "tracer_start_in_window",
            "collection was being set up while an active step ran; that step is left out of means");
  }
  if (a.unclosed_ranges() > 0) {
    AddNote(cycle, "unclosed_ranges",
            Plural(a.unclosed_ranges(), "range") + " begun in the window had no end yet");
  }
  if (cycle->overlapping_steps > 0) {
    AddNote(cycle, "overlapping_steps",
            Plural(cycle->overlapping_steps, "match") +
                " of the step range came while a step was open on another thread");
  }
  if (a.unknown_graph() > 0) {
    AddNote(cycle, "unknown_graph",
            Plural(a.unknown_graph(), "piece") + " of graph work without a launch in the record");
  }
  NoteClocks(v, cycle);
  NoteLosses(v, cycle);
  NoteOddRecords(v, cycle);
  AddLossAdvice(v.losses, cycle);
}

}  // namespace stepagent::model
