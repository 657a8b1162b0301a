#include "collector/ingest/cycle_amend.h"

#include <fstream>
#include <memory>
#include <sstream>
#include <vector>

#include "collector/analysis/cost_amend.h"
#include "collector/analysis/per_step.h"
#include "collector/analysis/summary.h"
#include "collector/spool/folders.h"
#include "collector/spool/names.h"
#include "collector/writers/manifest.h"
#include "collector/writers/sha256.h"
#include "collector/writers/steps_csv.h"
#include "nlohmann/json.hpp"

namespace stepagent::ingest {
namespace {

using Json = nlohmann::ordered_json;

std::string ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

std::string Document(const Json& json) {
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json* FileEntry(Json* manifest, const std::string& name) {
  for (Json& file : manifest->at("files")) {
    if (file.at("name").get_ref<const std::string&>().ends_with("/" + name)) return &file;
  }
  return nullptr;
}

class Amendment {
 public:
  Amendment(const model::LaterSteps& later, const std::string& folder)
      : later_(later), folder_(folder) {}

  [[nodiscard]] std::string Run() {
    manifest_ = Json::parse(ReadText(Path(spool::kManifestName)));
    const Json& source = manifest_.at("step_source");
    if (source.is_string() &&
        !analysis::WhyStepsDoNotCompare(source.get_ref<const std::string&>()).empty()) {
      return {};
    }
    recorded_ = analysis::RecordedStepsOf(manifest_);
    others_ = {.steps = &later_.all_steps,
               .until = later_.until,
               .why_not_compared = {},
               .why_none_before = {},
               .why_none_after = later_.why_none};
    const Json before = manifest_.at("cost");
    analysis::SetStepTimes(recorded_, others_, &manifest_.at("cost"));
    if (manifest_.at("cost") == before) return {};  // an earlier collector did
    manifest_["all_steps"] = writers::AllStepsJson(later_.all_steps);
    AmendCsv();
    AmendSummary();
    Replace(std::string(spool::kManifestName), Document(manifest_));
    for (const auto& file : replacements_) {
      if (error_.empty()) error_ = file->Commit();
    }
    return error_;
  }

 private:
  [[nodiscard]] std::string Path(std::string_view name) const {
    return folder_ + "/" + std::string(name);
  }
  // All are on the disk before the first takes its name: one that is full changes none.
  void Replace(const std::string& name, const std::string& text) {
    if (!error_.empty()) return;
    replacements_.push_back(std::make_unique<spool::FileReplacement>(Path(name)));
    replacements_.back()->Append(text);
    error_ = replacements_.back()->Prepare();
    Json* const entry = FileEntry(&manifest_, name);
    if (entry == nullptr) return;
    writers::Sha256 digest;
    digest.Update(text);
    (*entry)["bytes"] = text.size();
    (*entry)["sha256"] = digest.HexDigest();
  }
  void AmendCsv() {
    Json* const entry = FileEntry(&manifest_, "steps.csv");
    if (entry == nullptr || manifest_.at("steps").empty()) return;
    const Json& first = manifest_.at("steps").front();
    const uint64_t armed_at =
        first.at("process_index").get<uint64_t>() - first.at("index").get<uint64_t>();
    std::string text = ReadText(Path("steps.csv"));
    (*entry)["events"] = writers::AddLaterRows(later_.all_steps, armed_at, &text);
    Replace("steps.csv", text);
  }
  void AmendSummary() {
    Json summary = Json::parse(ReadText(Path("summary.json")));
    analysis::AmendSummary(recorded_, others_, &summary);
    Replace("summary.json", Document(summary));
    Replace("summary.txt", analysis::RenderSummaryText(summary, {}));
  }

  const model::LaterSteps& later_;
  const std::string folder_;
  Json manifest_;
  analysis::RecordedSteps recorded_;
  analysis::OtherSteps others_{};
  std::vector<std::unique_ptr<spool::FileReplacement>> replacements_;
  std::string error_;
};

}  // namespace

std::string AmendCycle(const model::LaterSteps& later, const CyclePlace& place) {
  if (!IsWritten(place, later.cycle)) return {};
  const std::string folder = place.session_dir + "/" + spool::CycleName(later.cycle);
  try {
    return Amendment(later, folder).Run();
  } catch (const Json::exception& error) {
    return folder + ": the times of later steps could not be added: " + error.what();
  }
}

}  // namespace stepagent::ingest
