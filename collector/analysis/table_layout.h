#pragma once
// Rows of cells as lines of text that fit a terminal.
//
// Purpose: columns as wide as their cells; the first takes what the others leave.
// Thread rule: plain values. Failure rule: what does not fit is cut; names that would look alike
// once cut are told apart.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace stepagent::analysis {

enum class Show : uint8_t { kText, kCount, kTime, kBytes, kShare, kRate };

struct Column {
  const char* head;
  const char* key;  // of the row; kRate: bytes over total_ns
  Show show;
};

class TableLayout {
 public:
  TableLayout(std::span<const Column> columns, const std::vector<std::vector<std::string>>& cells);
  // Names in the first column that would look alike once cut.
  void TellApart(std::vector<std::vector<std::string>>* cells) const;
  [[nodiscard]] std::string Line(const std::vector<std::string>& cells) const;

 private:
  std::span<const Column> columns_;
  std::vector<size_t> widths_;
};

}  // namespace stepagent::analysis
