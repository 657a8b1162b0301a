#include "collector/writers/chrome.h"
#include "collector/writers/writer.h"

namespace stepagent::writers {

std::unique_ptr<Writer> MakeWriter(std::string_view format) {
  if (format == "chrome") return std::make_unique<ChromeWriter>();
  return nullptr;
}

std::vector<std::string_view> KnownFormats() { return {"chrome"}; }

}  // namespace stepagent::writers
