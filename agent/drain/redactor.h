#pragma once
// Redactor: what --redact leaves of each text before it goes into a message.
//
// Purpose: one place that decides, per kind of text, whether it is told or hashed (decision 0006
// says why this happens in the agent). Equal texts give equal hashes, whatever kind they are of.
// Thread rule: made on any thread; used on the thread `stepagent`.
// Failure rule: cannot fail; a kernel name that cannot be taken apart is hashed whole.
//
//   kind    hashed
//   paths   programs, folders, libraries, and sentences' words with a slash
//   names   ranges, marks, domains, threads, kernels, the step source, labels
//   args    template and function arguments within kernel names
//   hosts   host names
//   any     the process title and the command line: they may hold all of these
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "agent/core/name_table.h"
#include "proto/keyed_hash.h"
#include "proto/redaction.h"

namespace stepagent::drain {

struct CycleReportData;
struct HelloData;

class Redactor {
 public:
  Redactor(uint32_t bits, proto::HashKey key) : bits_(bits), key_(key) {}

  [[nodiscard]] uint32_t bits() const { return bits_; }
  [[nodiscard]] bool IsOn() const { return bits_ != 0; }

  [[nodiscard]] std::string Range(std::string_view text) const;  // also a domain, a mark
  [[nodiscard]] std::string ThreadName(std::string_view text) const;
  [[nodiscard]] std::string Kernel(std::string_view mangled) const;
  [[nodiscard]] std::string Path(std::string_view text) const;
  [[nodiscard]] std::string Host(std::string_view text) const;
  [[nodiscard]] std::string Free(std::string_view text) const;      // of the application's own
  [[nodiscard]] std::string Sentence(std::string_view text) const;  // of ours, with a path in it

  // The same for interned names; remembered, so that it costs an index per record.
  [[nodiscard]] core::NameId RangeId(core::NameId id);
  [[nodiscard]] core::NameId KernelId(core::NameId id);
  // A file that a stack's frames lie in. The collector names functions by what it finds there, so
  // that hashing it keeps their names and arguments as well.
  [[nodiscard]] core::NameId StackFileId(core::NameId id);

  void Apply(CycleReportData* report) const;
  // All but `settings` and `step_source`, which the caller makes from redacted settings.
  void Apply(HelloData* hello) const;
  [[nodiscard]] std::string LabelKey(std::string_view key) const;
  [[nodiscard]] std::string LabelValue(std::string_view value) const;

 private:
  [[nodiscard]] bool Has(uint32_t bits) const { return (bits_ & bits) != 0; }
  [[nodiscard]] std::string Hash(std::string_view prefix, std::string_view text) const;
  [[nodiscard]] std::string WithoutArguments(std::string_view mangled) const;

  const uint32_t bits_;
  const proto::HashKey key_;
  std::vector<core::NameId> ranges_, kernels_, files_;  // 0: not asked for yet
};

}  // namespace stepagent::drain
