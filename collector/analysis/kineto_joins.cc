// Whose call launched what: several processes in one file, and numbers that several calls have.
#include <algorithm>
#include <iterator>
#include <set>

#include "collector/analysis/kineto_cycle.h"

namespace stepagent::analysis {
namespace {

constexpr size_t kNamedProcesses = 4;

}  // namespace

// A cycle is one process's. Of a file that several wrote, the one with most host rows is read: put
// together, their steps would overlap and their correlations, which start from 1 in each, would
// join the work of one to the calls of the other.
void KinetoCycle::KeepOneProcess() {
  if (pids_.size() < 2) return;
  const auto most = std::max_element(
      pids_.begin(), pids_.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  const auto is_other = [&](const auto& row) { return pid_of_thread_[row.thread] != most->first; };
  std::vector<model::Call> others;
  std::copy_if(cycle_.calls.begin(), cycle_.calls.end(), std::back_inserter(others), is_other);
  std::erase_if(cycle_.calls, is_other), std::erase_if(cycle_.steps, is_other);
  std::erase_if(cycle_.ranges, is_other), std::erase_if(cycle_.marks, is_other);
  DropWorkOfOthers(others);
  std::string left_out;
  size_t named = 0;
  for (const auto& [pid, rows] : pids_) {
    if (pid == most->first || ++named > kNamedProcesses) continue;
    left_out += (left_out.empty() ? "" : ", ") + std::to_string(pid) + " (" +
                std::to_string(rows) + " rows)";
  }
  if (named > kNamedProcesses) left_out += ", …";
  const std::string text = "host rows of " + std::to_string(pids_.size()) +
                           " processes in one file: read is pid " + std::to_string(most->first) +
                           " (" + std::to_string(most->second) + " rows); left out, with the work " +
                           "they launched: pid " + left_out;
  problems_.push_back(text);
  cycle_.notes.push_back({"several_processes", text});
}

// Device rows do not say whose they are. What only a call of another process can have launched
// goes with it; a number that both have is told apart no more, and stays unjoined.
void KinetoCycle::DropWorkOfOthers(const std::vector<model::Call>& others) {
  std::set<uint32_t> theirs, ours;
  for (const model::Call& call : cycle_.calls) ours.insert(call.correlation);
  for (const model::Call& call : others) {
    if (call.correlation == 0) continue;
    if (ours.contains(call.correlation)) {
      call_of_correlation_[call.correlation] = kAmbiguous;
    } else {
      theirs.insert(call.correlation);
    }
  }
  const auto is_theirs = [&](const auto& item) { return theirs.contains(item.correlation); };
  std::erase_if(cycle_.kernels, is_theirs), std::erase_if(cycle_.copies, is_theirs);
  std::erase_if(cycle_.sets, is_theirs), std::erase_if(cycle_.graph_launches, is_theirs);
  std::erase_if(cycle_.syncs, is_theirs);
}

// A runtime call and the driver call within it, where rounded times make the inner one stick out.
bool KinetoCycle::IsSameCall(const model::Call& a, const model::Call& b) const {
  return a.thread == b.thread && a.begin_ns <= b.end_ns && b.begin_ns <= a.end_ns;
}

// Times do not settle whose a shared number is: device stamps may run ahead of the host's.
void KinetoCycle::IndexCalls() {
  for (size_t i = 0; i < cycle_.calls.size(); ++i) {
    const model::Call& call = cycle_.calls[i];
    if (call.correlation == 0) continue;
    const auto [it, is_new] =
        call_of_correlation_.try_emplace(call.correlation, static_cast<int32_t>(i));
    if (is_new || it->second == kAmbiguous) continue;
    if (!IsSameCall(cycle_.calls[static_cast<size_t>(it->second)], call)) it->second = kAmbiguous;
  }
}

void KinetoCycle::NoteAmbiguous() {
  if (ambiguous_rows_ == 0) return;
  cycle_.notes.push_back(
      {"ambiguous_correlation",
       std::to_string(ambiguous_rows_) +
           " rows of device work have a correlation that several calls have (the first: " +
           std::to_string(first_ambiguous_) + "): joined to none of them, and to no step"});
}

}  // namespace stepagent::analysis
