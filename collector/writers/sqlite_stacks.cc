#include "collector/writers/sqlite_stacks.h"

#include <vector>

#include "collector/writers/json_text.h"
#include "collector/writers/sqlite_schema.h"
#include "collector/writers/stack_frames.h"

namespace stepagent::writers {

std::optional<int64_t> CallchainId(const model::Cycle& cycle, const model::Call& call) {
  const std::vector<model::Frame>* stack = StackOf(cycle, call);
  if (stack == nullptr || stack->empty()) return std::nullopt;
  return int64_t{call.stack} + 1;
}

uint64_t WriteCallchains(const model::Cycle& cycle, SqliteFile& file,
                         const std::function<int64_t(const std::string&)>& string) {
  // Others were declared for calls outside the window.
  std::vector<bool> is_used(cycle.stacks.size() + 1, false);
  for (const model::Call& call : cycle.calls) {
    is_used[static_cast<size_t>(CallchainId(cycle, call).value_or(0))] = true;
  }
  is_used[0] = false;
  std::optional<SqliteInsert> insert;
  const auto text = [&](model::StringId id) {
    if (id == 0) return SqliteKnown{0, false};
    return SqliteKnown{static_cast<uint64_t>(string(ValidUtf8(cycle.Text(id)))), true};
  };
  for (size_t id = 1; id < is_used.size(); ++id) {
    if (!is_used[id]) continue;
    if (!insert) {
      file.Run(kCallchainTable);
      insert.emplace(file, "CUDA_CALLCHAINS", 8);
    }
    const std::vector<model::Frame>& stack = cycle.stacks[id - 1];
    for (size_t depth = 0; depth < stack.size(); ++depth) {
      const model::Frame& frame = stack[depth];
      const SqliteKnown unresolved{1, frame.name == 0}, address{frame.address, frame.address != 0},
          line{frame.line, frame.line != 0};
      (*insert)(id, string(FrameName(cycle, frame)), text(frame.module), unresolved, address, depth,
                text(frame.source), line);
    }
  }
  return insert ? insert->rows() : 0;
}

}  // namespace stepagent::writers
