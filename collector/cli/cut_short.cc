#include "collector/cli/cut_short.h"

#include <filesystem>

#include "collector/model/process_end.h"
#include "collector/spool/names.h"
#include "collector/spool/raw_file.h"
#include "collector/spool/recover.h"

namespace stepagent::cli {

std::string CutShortLine(const std::string& origin, bool is_complete, const std::string& ended,
                         const std::string& reason) {
  const bool is_bad_end = ended == "killed" || ended == "error" || ended == "limit";
  if (is_complete || !is_bad_end) return {};
  if (reason == model::kGoesOnText) return origin + ": recording goes on, this is what came so far";
  return origin + ": cut short (" + ended + ")";
}

bool GoesOn(const std::string& raw_path) {
  const std::filesystem::path path(raw_path);
  if (spool::IsLive(raw_path)) return true;
  return path.filename() == spool::kRawName &&
         spool::ProcessLives(path.has_parent_path() ? path.parent_path().string() : ".")
             .value_or(false);
}

void NoteGoesOn(model::Cycle* cycle) {
  if (cycle->complete || cycle->ended != "killed") return;
  cycle->reason = model::kGoesOnText;
  cycle->why_no_later_steps = model::kGoesOnText;
}

}  // namespace stepagent::cli
