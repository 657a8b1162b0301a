#pragma once
// The agent's few lines.
//
// Purpose: one write(2) per line to stderr (or to the file --log names), never to anything else.
// Thread rule: any thread of ours; not on a hot path, not in a signal handler, not on stepagent-io.
// Failure rule: silent, but for one line when the file cannot be written; stderr then stands in for
// it. stderr is written only while descriptor 2 still has the device and inode it
// had when the process started (stub/stub_stderr.c): after a close and an open our line would land
// in the application's file.
#include <cstdint>
#include <string_view>

#include "proto/settings.h"

namespace stepagent::guard {

// `file` empty: stderr, while `stderr_is_ours` says 1.
void StartLog(proto::LogLevel level, std::string_view file, int (*stderr_is_ours)()) noexcept;
[[nodiscard]] bool WouldLog(proto::LogLevel level) noexcept;
void Log(proto::LogLevel level, std::string_view text) noexcept;

}  // namespace stepagent::guard
