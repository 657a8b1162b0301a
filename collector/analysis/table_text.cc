#include "collector/analysis/table_text.h"

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "collector/analysis/text_format.h"
#include "fmt/format.h"

namespace stepagent::analysis {
namespace {

using Json = nlohmann::ordered_json;

enum class Show : uint8_t { kText, kCount, kTime, kBytes, kShare, kRate };

struct Column {
  const char* head;
  const char* key;  // of the row; kRate: bytes over total_ns
  Show show;
};

struct Table {
  std::string_view by;  // the word of --by
  const char* key;      // in the summary
  const char* title;    // what, and what the figures are shares or sums of
  const char* sort;     // default column
  std::span<const Column> columns;
};

constexpr Column kKernelColumns[] = {{"kernel", "name", Show::kText},
                                     {"count", "count", Show::kCount},
                                     {"total", "total_ns", Show::kTime},
                                     {"mean", "mean_ns", Show::kTime},
                                     {"min", "min_ns", Show::kTime},
                                     {"max", "max_ns", Show::kTime},
                                     {"of busy", "share_of_busy", Show::kShare}};
constexpr Column kRangeColumns[] = {
    {"range", "name", Show::kText},      {"domain", "domain", Show::kText},
    {"count", "count", Show::kCount},    {"total", "total_ns", Show::kTime},
    {"self", "self_ns", Show::kTime},    {"launch", "launch_ns", Show::kTime},
    {"wait", "wait_ns", Show::kTime},    {"other", "other_ns", Show::kTime},
    {"device", "device_ns", Show::kTime}};
constexpr Column kCallColumns[] = {
    {"call", "name", Show::kText},    {"domain", "domain", Show::kText},
    {"count", "count", Show::kCount}, {"total", "total_ns", Show::kTime},
    {"mean", "mean_ns", Show::kTime}, {"min", "min_ns", Show::kTime},
    {"max", "max_ns", Show::kTime}};
constexpr Column kWaitColumns[] = {{"call", "name", Show::kText},
                                   {"count", "count", Show::kCount},
                                   {"total", "total_ns", Show::kTime}};
constexpr Column kCopyColumns[] = {{"direction", "direction", Show::kText},
                                   {"from", "source", Show::kText},
                                   {"to", "target", Show::kText},
                                   {"count", "count", Show::kCount},
                                   {"bytes", "bytes", Show::kBytes},
                                   {"total", "total_ns", Show::kTime},
                                   {"rate", "", Show::kRate}};
constexpr Column kStreamColumns[] = {{"stream", "name", Show::kText},
                                     {"kernels", "kernels", Show::kCount},
                                     {"copies", "copies", Show::kCount},
                                     {"sets", "sets", Show::kCount},
                                     {"graphs", "graph_launches", Show::kCount},
                                     {"busy", "total_ns", Show::kTime}};
constexpr Column kThreadColumns[] = {
    {"thread", "name", Show::kText},         {"tid", "tid", Show::kCount},
    {"calls", "count", Show::kCount},        {"ranges", "ranges", Show::kCount},
    {"launching", "launch_ns", Show::kTime}, {"waiting", "wait_ns", Show::kTime}};
constexpr Column kStepColumns[] = {{"step", "index", Show::kCount},
                                   {"wall", "wall_ns", Show::kTime},
                                   {"device", "device_ns", Show::kTime},
                                   {"launches", "launches", Show::kCount},
                                   {"kernels", "kernels", Show::kCount},
                                   {"copies", "copies", Show::kCount},
                                   {"", "flags", Show::kText}};
constexpr Table kTables[] = {
    {"kernel", "kernels", "Kernels (share: time with one of them running, of all busy time)",
     "total_ns", kKernelColumns},
    {"range", "ranges",
     "Ranges (total: sum of host durations; device: union of work launched inside)", "total_ns",
     kRangeColumns},
    {"call", "calls", "Calls (sums of host time over all threads)", "total_ns", kCallColumns},
    {"wait", "waits", "Waits (host time in synchronising calls, summed over threads)", "total_ns",
     kWaitColumns},
    {"copy", "copies", "Copies (total: sum of device durations; rate: bytes over that)", "total_ns",
     kCopyColumns},
    {"stream", "streams", "Streams (busy: union of the stream's work)", "total_ns", kStreamColumns},
    {"thread", "threads", "Threads (host time in calls)", "total_ns", kThreadColumns},
    {"step", "steps", "Steps (wall: host time; device: union of the work the step launched)", "",
     kStepColumns},
};

const Table* Find(std::string_view by) {
  for (const Table& table : kTables) {
    if (table.by == by) return &table;
  }
  return nullptr;
}

std::string Cell(const Json& row, const Column& column) {
  if (column.show == Show::kRate) {
    if (!row.at("bytes").is_number()) return "-";
    const double bytes = row.at("bytes").get<double>(), ns = row.at("total_ns").get<double>();
    return ns <= 0 ? "-" : fmt::format("{:.2f} GB/s", bytes / ns);
  }
  const auto it = row.find(column.key);
  if (it == row.end() || it->is_null()) return "-";
  switch (column.show) {
    case Show::kText:
      return Printable(it->get_ref<const std::string&>());
    case Show::kCount:
      return std::string_view(column.key) == "tid" ? it->dump() : Count(it->get<uint64_t>());
    case Show::kTime:
      return Duration(it->get<int64_t>());
    case Show::kBytes:
      return Bytes(it->get<uint64_t>());
    default:
      return Percent(it->get<double>());
  }
}

// What --sort may name in a table, and the row's key of it: a column's head, or a word people use.
std::vector<std::pair<std::string, std::string>> SortKeysOf(const Table& table) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const Column& column : table.columns) {
    if (*column.head == 0 || *column.key == 0) continue;
    out.emplace_back(column.head, column.key);
    std::string key = column.key;
    if (key.ends_with("_ns")) out.emplace_back(key.substr(0, key.size() - 3), key);
  }
  out.emplace_back("name", table.columns.front().key);
  if (table.by == "kernel") out.emplace_back("share", "share_of_busy");
  return out;
}

// "": the table has no such column.
std::string SortKey(const Table& table, const std::string& word) {
  for (const auto& [name, key] : SortKeysOf(table)) {
    if (name == word) return key;
  }
  return "";
}

void Sort(std::vector<const Json*>& rows, const std::string& key) {
  if (key.empty()) return;
  const auto value = [&](const Json& row) -> std::optional<double> {
    const auto it = row.find(key);
    if (it == row.end() || !it->is_number()) return std::nullopt;
    return it->get<double>();
  };
  std::stable_sort(rows.begin(), rows.end(), [&](const Json* a, const Json* b) {
    const auto text = [&](const Json& row) {
      const auto it = row.find(key);
      return it != row.end() && it->is_string() ? it->get<std::string>() : std::string();
    };
    if (a->contains(key) && a->at(key).is_string()) return text(*a) < text(*b);
    return value(*a) > value(*b);  // absent last
  });
}

// One line from cells: the first column takes what the others leave.
class Layout {
 public:
  Layout(std::span<const Column> columns, const std::vector<std::vector<std::string>>& cells)
      : columns_(columns), widths_(columns.size()) {
    for (size_t i = 1; i < columns.size(); ++i) {
      widths_[i] = Columns(columns[i].head);
      for (const auto& row : cells) widths_[i] = std::max(widths_[i], Columns(row[i]));
      if (columns[i].show == Show::kText) widths_[i] = std::min<size_t>(widths_[i], 26);
      taken_ += widths_[i] + 2;
    }
    size_t wanted = Columns(columns[0].head);
    for (const auto& row : cells) wanted = std::max(wanted, Columns(row[0]));
    const size_t room = kTextColumns - 2 > taken_ ? kTextColumns - 2 - taken_ : 8;
    widths_[0] = std::min(wanted, std::max<size_t>(room, 8));
  }
  // Names in the first column that would look alike once cut.
  void TellApart(std::vector<std::vector<std::string>>* cells) const {
    if (columns_[0].show != Show::kText) return;
    std::vector<std::string> names;
    for (const auto& row : *cells) names.push_back(row[0]);
    names = FitApart(names, widths_[0]);
    for (size_t i = 0; i < names.size(); ++i) (*cells)[i][0] = std::move(names[i]);
  }
  [[nodiscard]] std::string Line(const std::vector<std::string>& cells) const {
    std::string out = "  ";
    for (size_t i = 0; i < columns_.size(); ++i) {
      const std::string cell = Fit(cells[i], widths_[i]);
      const bool is_text =
          i == 0 ? columns_[0].show == Show::kText : columns_[i].show == Show::kText;
      if (i > 0) out += "  ";
      out += is_text ? PadRight(cell, widths_[i]) : PadLeft(cell, widths_[i]);
    }
    while (!out.empty() && out.back() == ' ') out.pop_back();
    return out + "\n";
  }

 private:
  std::span<const Column> columns_;
  std::vector<size_t> widths_;
  size_t taken_ = 0;
};

std::string StepFlags(const Json& row) {
  std::string out;
  if (!row.at("complete").get<bool>()) out += "incomplete ";
  if (row.at("contains_tracer_start").get<bool>()) out += "tracer started ";
  if (row.at("partial").get<bool>()) out += "device partial ";
  if (!out.empty()) out.pop_back();
  return out;
}

std::vector<Json> Rows(const Json& summary, const Table& table) {
  const Json& node = summary.at(table.key);
  std::vector<Json> rows;
  if (table.by == "step") {
    for (const Json& row : node.at("each")) {
      rows.push_back(row);
      rows.back()["flags"] = StepFlags(row);
    }
    return rows;
  }
  return {node.begin(), node.end()};
}

// A column that says the same nothing in every row (no domain, no flags) is left out.
std::vector<Column> UsefulColumns(const Table& table, const std::vector<const Json*>& rows) {
  std::vector<Column> out;
  for (const Column& column : table.columns) {
    const bool can_go = column.show == Show::kText && &column != &table.columns.front();
    const bool is_used = std::any_of(rows.begin(), rows.end(), [&](const Json* row) {
      const auto it = row->find(column.key);
      return it != row->end() && !it->is_null() && *it != "";
    });
    if (!can_go || is_used) out.push_back(column);
  }
  return out;
}

}  // namespace

const std::vector<std::string_view>& KnownTables() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> out;
    for (const Table& table : kTables) out.push_back(table.by);
    return out;
  }();
  return names;
}

const std::vector<std::string>& KnownSortKeys() {
  static const std::vector<std::string> keys = [] {
    std::vector<std::string> out;
    for (const Table& table : kTables) {
      for (const auto& [name, key] : SortKeysOf(table)) {
        if (std::find(out.begin(), out.end(), name) == out.end()) out.push_back(name);
      }
    }
    return out;
  }();
  return keys;
}

std::string WhyNotSorted(std::string_view by, const std::string& sort) {
  const Table* table = Find(by);
  if (table == nullptr || sort.empty() || !SortKey(*table, sort).empty()) return "";
  std::string names;
  for (const auto& [name, key] : SortKeysOf(*table)) {
    if (names.find(name) == std::string::npos) names += (names.empty() ? "" : ", ") + name;
  }
  return fmt::format("--sort {}: --by {} has no such column; it has {}", sort, by, names);
}

namespace {

struct Selection {
  std::vector<Json> rows;          // all
  std::vector<const Json*> order;  // those to show
};

Selection Select(const Json& summary, const Table& table, const RenderOptions& options) {
  Selection out{Rows(summary, table), {}};
  for (const Json& row : out.rows) out.order.push_back(&row);
  const std::string wanted = options.sort.empty() ? "" : SortKey(table, options.sort);
  Sort(out.order, wanted.empty() ? table.sort : wanted);
  if (options.top != 0) out.order.resize(std::min(out.order.size(), options.top));
  return out;
}

}  // namespace

Json TableRows(const Json& summary, std::string_view by, const RenderOptions& options) {
  const Table* table = Find(by);
  if (table == nullptr || !summary.contains(table->key) || summary.at(table->key).is_null()) {
    return nullptr;
  }
  Json out = Json::array();
  for (const Json* row : Select(summary, *table, options).order) out.push_back(*row);
  return out;
}

std::string TableText(const Json& summary, std::string_view by, const RenderOptions& options) {
  const Table* table = Find(by);
  if (table == nullptr) return "";
  std::string out = std::string(table->title) + "\n";
  if (!summary.contains(table->key) || summary.at(table->key).is_null()) {
    const Json absent = summary.value("absent", Json::object());
    return out + "  not available: " + Fit(absent.value(table->key, "not collected"), 80) + "\n";
  }
  const Selection selection = Select(summary, *table, options);
  const std::vector<const Json*>& order = selection.order;
  if (selection.rows.empty()) return out + "  none\n";
  const std::vector<Column> columns = UsefulColumns(*table, order);
  std::vector<std::vector<std::string>> cells;
  for (const Json* row : order) {
    std::vector<std::string> line;
    for (const Column& column : columns) line.push_back(Cell(*row, column));
    cells.push_back(std::move(line));
  }
  std::vector<std::string> head;
  for (const Column& column : columns) head.emplace_back(column.head);
  const Layout layout(columns, cells);
  layout.TellApart(&cells);
  out += layout.Line(head);
  for (const auto& line : cells) out += layout.Line(line);
  if (selection.rows.size() > order.size()) {
    out += fmt::format("  … {} more (--top 0 shows all)\n",
                       Count(selection.rows.size() - order.size()));
  }
  return out;
}

}  // namespace stepagent::analysis
