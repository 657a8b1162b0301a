#pragma once
// Names of everything below OUT.
//
// Purpose: contract section 4 in one place: run, session, cycle folders and trace stems.
// Thread rule: pure. Failure rule: hostile text becomes harmless text, never an error.
#include <cstdint>
#include <string>
#include <string_view>

#include "collector/model/cycle.h"

namespace stepagent::spool {

inline constexpr std::string_view kRawName = "raw.steps";
inline constexpr std::string_view kSessionJsonName = "session.json";
inline constexpr std::string_view kManifestName = "manifest.json";

// Letters, digits, '.', '_' and '-'; anything else becomes '_', no leading '.', never empty.
[[nodiscard]] std::string SafeName(std::string_view text, size_t longest = 64);
// 8 hex digits: the beginning of an id that is hexadecimal, else a checksum of it.
[[nodiscard]] std::string ShortId(std::string_view id);
// The launcher's choice, the run's id when it is a folder name already, else a name made from
// `now`.
[[nodiscard]] std::string RunName(const std::string& run_dir, const std::string& run_id,
                                  int64_t now_unix_ns);
[[nodiscard]] bool IsRunName(std::string_view name);  // <yyyymmddThhmmss>_<8 hex>
[[nodiscard]] std::string SessionName(const model::SessionInfo& session);
[[nodiscard]] std::string CycleName(uint32_t cycle);  // "cycle-0000"
[[nodiscard]] std::string TraceStem(const model::SessionInfo& session, bool with_pid,
                                    uint32_t cycle);

}  // namespace stepagent::spool
