#include "collector/analysis/table_layout.h"

#include <algorithm>

#include "collector/analysis/summary.h"
#include "collector/analysis/text_format.h"

namespace stepagent::analysis {
namespace {

constexpr size_t kMostOfAText = 26;  // columns of a text that is not the first
constexpr size_t kLeastOfAText = 8;
constexpr size_t kLeastOfTheFirst = 12;

}  // namespace

TableLayout::TableLayout(std::span<const Column> columns,
                         const std::vector<std::vector<std::string>>& cells)
    : columns_(columns), widths_(columns.size()) {
  size_t taken = 0;
  for (size_t i = 1; i < columns.size(); ++i) {
    widths_[i] = Columns(columns[i].head);
    for (const auto& row : cells) widths_[i] = std::max(widths_[i], Columns(row[i]));
    if (columns[i].show == Show::kText) widths_[i] = std::min(widths_[i], kMostOfAText);
    taken += widths_[i] + 2;
  }
  // Texts give way before the line grows too long.
  const size_t most = kTextColumns - 2 - kLeastOfTheFirst;
  for (size_t i = columns.size(); i-- > 1 && taken > most;) {
    if (columns[i].show != Show::kText || widths_[i] <= kLeastOfAText) continue;
    const size_t less = std::min(widths_[i] - kLeastOfAText, taken - most);
    widths_[i] -= less, taken -= less;
  }
  size_t wanted = Columns(columns[0].head);
  for (const auto& row : cells) wanted = std::max(wanted, Columns(row[0]));
  const size_t room = kTextColumns - 2 > taken ? kTextColumns - 2 - taken : kLeastOfTheFirst;
  widths_[0] = std::min(wanted, std::max(room, kLeastOfTheFirst));
}

void TableLayout::TellApart(std::vector<std::vector<std::string>>* cells) const {
  if (columns_[0].show != Show::kText) return;
  std::vector<std::string> names;
  for (const auto& row : *cells) names.push_back(row[0]);
  names = FitApart(names, widths_[0]);
  for (size_t i = 0; i < names.size(); ++i) (*cells)[i][0] = std::move(names[i]);
}

std::string TableLayout::Line(const std::vector<std::string>& cells) const {
  std::string out = "  ";
  for (size_t i = 0; i < columns_.size(); ++i) {
    const std::string cell = Fit(cells[i], widths_[i]);
    if (i > 0) out += "  ";
    out += columns_[i].show == Show::kText ? PadRight(cell, widths_[i]) : PadLeft(cell, widths_[i]);
  }
  while (!out.empty() && out.back() == ' ') out.pop_back();
  return out + "\n";
}

}  // namespace stepagent::analysis
