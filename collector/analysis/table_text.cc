#include "collector/analysis/table_text.h"

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "collector/analysis/idle_text.h"
#include "collector/analysis/table_layout.h"
#include "collector/analysis/text_format.h"
#include "fmt/format.h"

namespace stepagent::analysis {
namespace {

using Json = nlohmann::ordered_json;

struct Table {
  std::string_view by;  // the word of --by
  const char* key;      // in the summary
  const char* title;    // what, and what the figures are shares or sums of
  const char* more;     // what else a reader must know of them; may be empty
  const char* sort;     // default column
  std::span<const Column> columns;
  std::span<const char* const> sums;  // the row's keys that add up over rows
};

constexpr Column kKernelColumns[] = {{"kernel", "name", Show::kText},
                                     {"count", "count", Show::kCount},
                                     {"total", "total_ns", Show::kTime},
                                     {"mean", "mean_ns", Show::kTime},
                                     {"min", "min_ns", Show::kTime},
                                     {"max", "max_ns", Show::kTime},
                                     {"of busy", "share_of_busy", Show::kShare}};
constexpr Column kRangeColumns[] = {
    {"range", "name", Show::kText},       {"domain", "domain", Show::kText},
    {"count", "count", Show::kCount},     {"total", "total_ns", Show::kTime},
    {"self", "self_ns", Show::kTime},     {"launching", "launch_ns", Show::kTime},
    {"waiting", "wait_ns", Show::kTime},  {"other", "other_ns", Show::kTime},
    {"device", "device_ns", Show::kTime}, {"projected", "projected_ns", Show::kTime}};
constexpr Column kIdleColumns[] = {{"range", "range", Show::kText},
                                   {"call", "call", Show::kText},
                                   {"waits for", "waits_for", Show::kText},
                                   {"GPU", "device", Show::kText},
                                   {"idle", "idle_ns", Show::kTime},
                                   {"of idle", "share_of_idle", Show::kShare},
                                   {"outside steps", "outside_steps_ns", Show::kTime}};
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
                                   {"kernel+graph launches", "launches", Show::kCount},
                                   {"kernels", "kernels", Show::kCount},
                                   {"copies", "copies", Show::kCount},
                                   {"", "flags", Show::kText}};
// Neither a union of time nor what nests in another row is among them.
constexpr const char* kTotalSums[] = {"count", "total_ns"};
constexpr const char* kRangeSums[] = {"count", "self_ns"};
constexpr const char* kIdleSums[] = {"idle_ns", "outside_steps_ns"};
constexpr const char* kCopySums[] = {"count", "bytes", "total_ns"};
constexpr const char* kStreamSums[] = {"kernels", "copies", "sets", "graph_launches"};
constexpr const char* kThreadSums[] = {"count", "ranges", "launch_ns", "wait_ns"};
constexpr const char* kStepSums[] = {"wall_ns", "launches", "kernels", "copies"};
constexpr Table kTables[] = {
    {"kernel", "kernels", "Kernels (share: time with one of them running, of all busy time)", "",
     "total_ns", kKernelColumns, kTotalSums},
    {"range", "ranges", "Ranges (host time summed; launching: in launch calls, waiting: in waits)",
     "device: time in which work launched inside ran, whenever that was; projected: from its first "
     "begin to its last end, gaps counted",
     "total_ns", kRangeColumns, kRangeSums},
    {"idle", "idle", "Idle (no work of this process on the device), by where the host was", "",
     "idle_ns", kIdleColumns, kIdleSums},
    {"call", "calls", "Calls (sums of host time over all threads)", "", "total_ns", kCallColumns,
     kTotalSums},
    {"wait", "waits", "Waits (host time in synchronising calls, summed over threads)", "",
     "total_ns", kWaitColumns, kTotalSums},
    {"copy", "copies", "Copies (total: sum of device durations; rate: bytes over that)", "",
     "total_ns", kCopyColumns, kCopySums},
    {"stream", "streams", "Streams (busy: union of the stream's work)", "", "total_ns",
     kStreamColumns, kStreamSums},
    {"thread", "threads", "Threads (host time; launching: in launch calls, waiting: in waits)", "",
     "total_ns", kThreadColumns, kThreadSums},
    {"step", "steps", "Steps (wall: host time; device: union of the work the step launched)", "",
     "", kStepColumns, kStepSums},
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
    const std::string word = key.ends_with("_ns") ? key.substr(0, key.size() - 3) : key;
    if (word != column.head) out.emplace_back(word, key);
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

// Names from A on, figures from the largest down; absent last.
void Sort(std::vector<const Json*>& rows, const std::string& key) {
  if (key.empty()) return;
  const auto find = [&](const Json& row) { return row.contains(key) ? &row.at(key) : nullptr; };
  const bool is_text = std::any_of(rows.begin(), rows.end(), [&](const Json* row) {
    const Json* value = find(*row);
    return value != nullptr && value->is_string();
  });
  const auto text = [&](const Json& row) -> std::optional<std::string> {
    const Json* value = find(row);
    if (value == nullptr || !value->is_string()) return std::nullopt;
    return value->get<std::string>();
  };
  const auto figure = [&](const Json& row) -> std::optional<double> {
    const Json* value = find(row);
    if (value == nullptr || !value->is_number()) return std::nullopt;
    return value->get<double>();
  };
  std::stable_sort(rows.begin(), rows.end(), [&](const Json* a, const Json* b) {
    if (!is_text) return figure(*a) > figure(*b);
    const auto ta = text(*a), tb = text(*b);
    return ta && (!tb || *ta < *tb);
  });
}

std::string StepFlags(const Json& row) {
  std::string out;
  if (row.at("complete") == false) out += "incomplete ";
  if (row.at("contains_tracer_start") == true) out += "tracer started ";
  if (row.at("partial") == true) out += "device partial ";
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
  const Json& list = table.by == "idle" ? node.at("rows") : node;
  return {list.begin(), list.end()};
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

// Of all rows, what adds up: counts, bytes and sums of time. A mean, a share and what is a union of
// time do not; nor does a column that is not known in some row.
Json Totals(const Table& table, const std::vector<Json>& rows) {
  Json out = {{"rows", rows.size()}};
  for (const char* key : table.sums) {
    int64_t sum = 0;
    const bool is_known = std::all_of(rows.begin(), rows.end(), [&](const Json& row) {
      const auto it = row.find(key);
      if (it == row.end() || !it->is_number()) return false;
      sum += it->get<int64_t>();
      return true;
    });
    out[key] = is_known ? Json(sum) : Json(nullptr);
  }
  return out;
}

}  // namespace

Json TableDocument(const Json& summary, std::string_view by, const RenderOptions& options) {
  const Table* table = Find(by);
  Json out = {{"table", by}, {"rows", nullptr}, {"rows_left_out", nullptr}, {"totals", nullptr}};
  if (table == nullptr || !summary.contains(table->key) || summary.at(table->key).is_null()) {
    return out;
  }
  const Selection selection = Select(summary, *table, options);
  out["rows"] = Json::array();
  for (const Json* row : selection.order) out["rows"].push_back(*row);
  out["rows_left_out"] = selection.rows.size() - selection.order.size();
  out["totals"] = Totals(*table, selection.rows);
  return out;
}

Json WithFewerRows(Json summary, size_t top) {
  Json left_out = Json::object();
  for (const Table& table : kTables) {
    if (!summary.contains(table.key)) continue;
    Json* rows = &summary[table.key];
    if (rows->is_object()) rows = &(*rows)[table.by == "step" ? "each" : "rows"];
    if (!rows->is_array() || rows->size() <= top) continue;
    left_out[table.key] = {{"rows", rows->size() - top},
                           {"totals", Totals(table, Rows(summary, table))}};
    rows->erase(rows->begin() + static_cast<std::ptrdiff_t>(top), rows->end());
  }
  summary["left_out"] = std::move(left_out);
  return summary;
}

std::string TableText(const Json& summary, std::string_view by, const RenderOptions& options) {
  const Table* table = Find(by);
  if (table == nullptr) return "";
  std::string out = std::string(table->title) + "\n";
  if (*table->more != 0) out += Paragraph("", 2, table->more, kTextColumns);
  if (!summary.contains(table->key) || summary.at(table->key).is_null()) {
    const Json absent = summary.value("absent", Json::object());
    return out + "  not available: " + FitSentence(absent.value(table->key, "not collected"), 80) + "\n";
  }
  const Selection selection = Select(summary, *table, options);
  if (table->by == "idle") out += IdleLead(summary);
  if (selection.rows.empty()) return out + "  none\n";
  std::vector<const Json*> order = selection.order;
  std::vector<Json> in_words;
  if (table->by == "idle") {
    for (const Json* row : order) in_words.push_back(IdleRowInWords(summary, *row));
    for (size_t i = 0; i < order.size(); ++i) order[i] = &in_words[i];
  }
  const std::vector<Column> columns = UsefulColumns(*table, order);
  std::vector<std::vector<std::string>> cells;
  for (const Json* row : order) {
    std::vector<std::string> line;
    for (const Column& column : columns) line.push_back(Cell(*row, column));
    cells.push_back(std::move(line));
  }
  std::vector<std::string> head;
  for (const Column& column : columns) head.emplace_back(column.head);
  const TableLayout layout(columns, cells);
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
