#include "collector/writers/chrome.h"
#include "collector/writers/folded.h"
#include "collector/writers/html.h"
#include "collector/writers/perfetto.h"
#include "collector/writers/pprof.h"
#include "collector/writers/sqlite.h"
#include "collector/writers/writer.h"

namespace stepagent::writers {

std::unique_ptr<Writer> MakeWriter(std::string_view format) {
  if (format == "chrome") return std::make_unique<ChromeWriter>();
  if (format == "perfetto") return std::make_unique<PerfettoWriter>();
  if (format == "sqlite") return std::make_unique<SqliteWriter>();
  if (format == "html") return std::make_unique<HtmlWriter>();
  if (format == "folded") return std::make_unique<FoldedWriter>();
  if (format == "pprof") return std::make_unique<PprofWriter>();
  return nullptr;
}

std::vector<std::string_view> KnownFormats() {
  return {"chrome", "perfetto", "sqlite", "html", "folded", "pprof"};
}

}  // namespace stepagent::writers
