#pragma once
// A SQLite file that is written once, whole, in one transaction.
//
// Purpose: the file appears under its name only after its content was checked; until then it has a
// temporary name in the same folder. No journal: a half-written file is thrown away, not repaired.
// Thread rule: one owner.
// Failure rule: the first error sticks ("path: what: text"), later calls do nothing, and the
// temporary file is removed unless Commit succeeded.
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "sqlite3.h"

namespace stepagent::writers {

class SqliteFile {
 public:
  explicit SqliteFile(std::string path);
  ~SqliteFile();
  SqliteFile(const SqliteFile&) = delete;
  SqliteFile& operator=(const SqliteFile&) = delete;

  void Run(const std::string& sql);
  // Ends the transaction, checks the content, gives the file its name.
  [[nodiscard]] bool Commit();

  [[nodiscard]] bool ok() const { return error_.empty(); }
  [[nodiscard]] const std::string& error() const { return error_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] uint64_t bytes() const { return bytes_; }
  [[nodiscard]] const std::string& sha256() const { return sha256_; }
  [[nodiscard]] sqlite3* handle() { return db_; }
  void Fail(const std::string& what);

 private:
  void CheckIntegrity();
  void Close();
  void Publish();
  void Measure();

  const std::string path_;
  std::string temporary_, error_, sha256_;
  sqlite3* db_ = nullptr;
  uint64_t bytes_ = 0;
};

// A number, or NULL where nobody knows it.
struct SqliteKnown {
  uint64_t value;
  bool is_known;
};

// An INSERT with as many values as the table has columns.
class SqliteInsert {
 public:
  SqliteInsert(SqliteFile& file, const std::string& table, int columns);
  ~SqliteInsert() { sqlite3_finalize(statement_); }
  SqliteInsert(const SqliteInsert&) = delete;
  SqliteInsert& operator=(const SqliteInsert&) = delete;

  template <typename... Values>
  void operator()(const Values&... values) {
    if (statement_ == nullptr) return;
    int column = 0;
    (Bind(++column, values), ...);
    Step();
  }
  [[nodiscard]] uint64_t rows() const { return rows_; }

 private:
  template <std::integral T>
  void Bind(int column, T value) {
    sqlite3_bind_int64(statement_, column, static_cast<sqlite3_int64>(value));
  }
  void Bind(int column, SqliteKnown number) {
    number.is_known ? Bind(column, number.value) : Bind(column, std::nullopt);
  }
  void Bind(int column, std::nullopt_t) { sqlite3_bind_null(statement_, column); }
  void Bind(int column, std::string_view text) {
    sqlite3_bind_text(statement_, column, text.data(), static_cast<int>(text.size()),
                      SQLITE_STATIC);
  }
  void Bind(int column, const std::string& text) { Bind(column, std::string_view(text)); }
  void Bind(int column, const char* text) { Bind(column, std::string_view(text)); }
  template <typename T>
  void Bind(int column, const std::optional<T>& value) {
    value ? Bind(column, *value) : Bind(column, std::nullopt);
  }
  void Step();

  SqliteFile& file_;
  sqlite3_stmt* statement_ = nullptr;
  uint64_t rows_ = 0;
};

}  // namespace stepagent::writers
