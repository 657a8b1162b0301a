#pragma once
// SQLite with the tables that scripts for Nsight Systems exports read: trace.sqlite.
//
// Purpose: other people's SQL works; our own facts are in tables that begin with STEPAGENT_.
// Documented as a compatible subset under our own product name (docs/formats.md).
// Thread rule and failure rule: those of Writer. Memory: the page cache and one bit per text.
#include "collector/writers/writer.h"

namespace stepagent::writers {

class SqliteWriter final : public Writer {
 public:
  [[nodiscard]] std::string_view format() const override { return "sqlite"; }
  [[nodiscard]] WriteResult Write(const model::Cycle& cycle, const WriteTarget& target) override;
};

}  // namespace stepagent::writers
