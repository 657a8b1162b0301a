#pragma once
// How large a trace will be, and where to cut one that its viewers could not open.
//
// Purpose: the Chrome and the Perfetto writer cut at step borders; notes for the manifest and the
// summary say so before anybody opens the file.
// Thread rule: pure functions of an immutable cycle.
// Failure rule: none; one step that is too large by itself stays whole, and the note says that.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "collector/model/cycle.h"
#include "collector/model/cycle_slice.h"
#include "collector/writers/writer.h"

namespace stepagent::writers {

// JSON text, before compression. Viewers hold it whole: Perfetto's page and Chrome's own stop at
// about 500 MB, the longest string of their engine; HTA needs ten times as much memory.
inline constexpr uint64_t kMaxTraceBytes = uint64_t{384} << 20;
// Device rows of one file. A browser tab of 2 GB holds about half a million of them in any format.
inline constexpr uint64_t kManyDeviceRows = 500'000;

struct TracePart {
  size_t first_step = 0, last_step = 0;  // [first, last) by position in cycle.steps
  uint64_t estimated_bytes = 0;          // of JSON text, or of packets
  uint64_t device_rows = 0;
  model::StepSpans spans;  // of its steps' records; only where there are several parts
};

// What the session asks for (--max-trace-bytes), else kMaxTraceBytes; 0: never cut.
[[nodiscard]] uint64_t TraceLimit(const model::SessionInfo& session);
// The cycle's Chrome JSON, within a third of its true size, seldom below it.
[[nodiscard]] uint64_t EstimateChromeBytes(const model::Cycle& cycle);
// At least one part; more than one only where the whole is past `limit` (0: never).
[[nodiscard]] std::vector<TracePart> PlanParts(const model::Cycle& cycle, uint64_t limit);
// The same for packets, which viewers also limit by their number: at most kManyDeviceRows a part.
[[nodiscard]] std::vector<TracePart> PlanPerfettoParts(const model::Cycle& cycle, uint64_t limit);
// Calls `write` with each part as a cycle of its own, and its number from 0, until one fails.
[[nodiscard]] WriteResult WriteParts(
    const model::Cycle& cycle, const std::vector<TracePart>& parts,
    const std::function<WriteResult(const model::Cycle& part, size_t number)>& write);
// Each part has a folder of its own: readers key the files of a folder by rank.
[[nodiscard]] std::string PartFolder(const std::string& traces_dir, size_t part);
// trace_split, trace_too_large, perfetto_split, many_device_rows: for formats that the session
// writes.
[[nodiscard]] std::vector<model::Note> SizeNotes(const model::Cycle& cycle);

}  // namespace stepagent::writers
