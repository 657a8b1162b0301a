#pragma once
// docs/configuration.md, from the table of settings.
//
// Purpose: `stepagent help-settings [--markdown]`; a test compares the committed file with it.
// Thread rule: pure. Failure rule: cannot fail.
#include <string>

namespace stepagent::cli {

[[nodiscard]] std::string SettingsMarkdown();

}  // namespace stepagent::cli
