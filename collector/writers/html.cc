#include "collector/writers/html.h"

#include <array>
#include <string>

#include "collector/analysis/summary.h"
#include "collector/writers/html_parts.h"
#include "collector/writers/html_text.h"
#include "collector/writers/html_trace.h"
#include "collector/writers/manifest.h"
#include "collector/writers/output_file.h"
#include "nlohmann/json.hpp"

namespace stepagent::writers {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kTableRows = 2000;  // more than anybody reads; the page says how many there are

// Tables are sorted by total, so that the first rows are the ones to keep.
Json CutTables(Json& summary) {
  Json cut = Json::object();
  const auto shorten = [&](const std::string& name, Json& table) {
    if (!table.is_array() || table.size() <= kTableRows) return;
    cut[name] = table.size();
    table.erase(table.begin() + kTableRows, table.end());
  };
  for (const auto& [name, table] : summary.items()) shorten(name, table);
  shorten("steps", summary.at("steps").at("each"));
  if (summary.at("idle").is_object()) shorten("idle", summary.at("idle").at("rows"));
  return cut;
}

std::string Dump(const Json& document) {
  return ScriptSafe(document.dump(-1, ' ', false, Json::error_handler_t::replace));
}

std::string Title(const model::Cycle& cycle) {
  const model::SessionInfo& s = cycle.session;
  std::string title = s.exe.empty() ? "stepagent" : ShortenedName(s.exe);
  if (s.rank >= 0) title += " rank " + std::to_string(s.rank);
  return title + " cycle " + std::to_string(cycle.index);
}

// Nothing may be loaded and nobody may be asked; exactly these two blocks may act.
std::string Policy() {
  return "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; script-src " +
         PolicyHash(html::kScript) + "; style-src " + PolicyHash(html::kStyle);
}

class Page {
 public:
  Page(const model::Cycle& cycle, OutputFile& file, uint64_t drawn_limit,
       const std::function<void(uint64_t, uint64_t)>& progress)
      : cycle_(cycle), file_(file), trace_(cycle, file, drawn_limit, progress) {}

  void Write() {
    std::string_view rest = html::kPage;
    for (;;) {
      const size_t at = rest.find('@');
      const size_t end = at == std::string_view::npos ? at : rest.find('@', at + 1);
      if (end == std::string_view::npos) break;
      file_.Write(rest.substr(0, at));
      Fill(rest.substr(at + 1, end - at - 1));
      rest.remove_prefix(end + 1);
    }
    file_.Write(rest);
  }
  [[nodiscard]] uint64_t drawn() const { return trace_.drawn(); }

 private:
  void Fill(std::string_view name) {
    if (name == "TITLE") file_.Write(HtmlText(Title(cycle_)));
    if (name == "POLICY") file_.Write(Policy());
    if (name == "STYLE") file_.Write(html::kStyle);
    if (name == "SCRIPT") file_.Write(html::kScript);
    if (name == "TEXT") file_.Write(HtmlText(analysis::RenderSummaryText(cycle_)));
    if (name == "DATA") Data();
  }
  void Data() {
    Json summary = analysis::Summarize(cycle_), manifest = BuildManifest(cycle_, {}, "");
    const Json cut = CutTables(summary);
    manifest.erase("files");
    ShortenStrings(summary);
    ShortenStrings(manifest);
    file_.Write(
        "{\"schema\":\"stepagent.page/1\",\"version\":\"" STEPAGENT_VERSION "\",\"manifest\":" +
        Dump(manifest) + ",\"summary\":" + Dump(summary) + ",\"cut\":" + Dump(cut) + ",\"trace\":");
    trace_.Write();
    file_.Write("}");
  }

  const model::Cycle& cycle_;
  OutputFile& file_;
  HtmlTrace trace_;
};

}  // namespace

WriteResult HtmlWriter::Write(const model::Cycle& cycle, const WriteTarget& target) {
  OutputFile file(target.cycle_dir + "/report.html", Compression::kNone);
  if (!file.ok()) return {false, file.error(), {}};
  Page page(cycle, file, drawn_limit_, target.progress);
  page.Write();
  if (!file.Commit()) return {false, file.error(), {}};
  return {true, "", {{file.path(), "html", file.bytes(), page.drawn(), file.sha256()}}};
}

}  // namespace stepagent::writers
