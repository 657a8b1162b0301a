#include "collector/cli/doctor_results.h"

#include <algorithm>
#include <cstring>

#include "proto/settings.h"

namespace stepagent::cli {
namespace {

using launch::Member;
using launch::TextMember;
using nlohmann::json;

// Asked again later, these may be otherwise.
constexpr const char* kPassing[] = {"no_driver", "cuda_not_initialized", "forked_child",
                                    "too_late"};

// Counts since the process's start, beside what the windows show of nesting and time.
void AddRanges(const json& manifest, std::vector<launch::SeenRange>* all) {
  for (const json& row : Member(manifest, "ranges_seen")) {
    if (!row.is_object()) continue;
    launch::SeenRange& range =
        launch::RangeOf(TextMember(row, "name"), TextMember(row, "domain"), all);
    range.count += row.value("count", uint64_t{0});
    range.registered += row.value("registered", uint64_t{0});
  }
}

// A program of a few ms may have ended before the list of processes met it, or saw more than that
// it was there.
void NoteRecorded(const launch::SessionEntry& session, Trial* trial) {
  const auto known = std::find_if(
      trial->processes.begin(), trial->processes.end(),
      [&](const TrialProcess& process) { return process.seen.pid == session.pid; });
  TrialProcess& process =
      known != trial->processes.end() ? *known : trial->processes.emplace_back();
  process.has_agent = true;
  if (process.seen.pid != 0) return;
  process.seen.pid = static_cast<pid_t>(session.pid);
  process.seen.title = session.title;
}

// Of `windows` only what the counts do not tell; ranges that never were among the most frequent
// ones of their process have the windows' count.
void AddNesting(std::vector<launch::SeenRange> windows, std::vector<launch::SeenRange>* all) {
  for (const launch::SeenRange& seen : windows) {
    launch::SeenRange& range = launch::RangeOf(seen.name, seen.domain, all);
    range.count = std::max(range.count, seen.count);
    range.total_ns = seen.total_ns;
    range.level = seen.level;
  }
}

}  // namespace

bool Asks(uint32_t activities, const char* activity) {
  for (uint32_t i = 1; *proto::ActivityText(i) != '\0'; ++i)
    if (std::strcmp(proto::ActivityText(i), activity) == 0)
      return (activities & proto::ActivityBit(i)) != 0;
  return false;
}

WindowAnswer AnswerOf(const json& manifest, uint32_t activities) {
  const json& gpu = Member(manifest, "gpu");
  const std::string code = TextMember(gpu, "reason_code"), status = TextMember(gpu, "status");
  if (status == "unavailable") {
    const bool is_passing = std::any_of(std::begin(kPassing), std::end(kPassing),
                                        [&](const char* passing) { return code == passing; });
    return is_passing ? WindowAnswer::kNone : WindowAnswer::kFinal;
  }
  const char* kind = Asks(activities, "kernel")   ? "kernel"
                     : Asks(activities, "memcpy") ? "memcpy"
                                                  : "";
  if (*kind == '\0') return status.empty() ? WindowAnswer::kNone : WindowAnswer::kWork;
  const json& written = Member(Member(Member(manifest, "balance"), kind), "written");
  const bool has_work = written.is_number_unsigned() && written.get<uint64_t>() > 0;
  return has_work ? WindowAnswer::kWork : WindowAnswer::kNone;
}

json ReadManifest(const launch::SessionEntry& session, const launch::CycleEntry& cycle) {
  return launch::ReadJson(launch::CycleFolder(session, cycle.index) + "/manifest.json");
}

void AddResults(const std::vector<launch::SessionEntry>& sessions, Trial* trial) {
  std::vector<launch::SeenRange> windows;
  for (const launch::SessionEntry& session : sessions) {
    NoteRecorded(session, trial);
    // Counts run from the process's start: the last cycle's hold the others'.
    json last;
    for (const launch::CycleEntry& cycle : session.cycles) {
      json manifest = ReadManifest(session, cycle);
      if (manifest.empty()) continue;
      trial->manifests.push_back(manifest);
      last = std::move(manifest);
      launch::AddRangesOf(
          launch::ReadJson(launch::CycleFolder(session, cycle.index) + "/summary.json"), &windows);
    }
    if (!last.is_null()) AddRanges(last, &trial->ranges);
  }
  AddNesting(std::move(windows), &trial->ranges);
  launch::OrderAsSteps(&trial->ranges);
}

}  // namespace stepagent::cli
