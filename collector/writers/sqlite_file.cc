#include "collector/writers/sqlite_file.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <vector>

#include "collector/writers/sha256.h"

namespace stepagent::writers {
namespace {

std::string TemporaryName(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  const size_t base = slash == std::string::npos ? 0 : slash + 1;
  return path.substr(0, base) + "." + path.substr(base, 200) + "." + std::to_string(getpid()) +
         ".tmp";
}

// As in output_file: a rename that refuses to replace.
int RenameExclusive(const char* from, const char* to) {
  if (syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return -1;
  if (link(from, to) != 0) return -1;
  unlink(from);
  return 0;
}

}  // namespace

SqliteFile::SqliteFile(std::string path)
    : path_(std::move(path)), temporary_(TemporaryName(path_)) {
  // Created here so that nothing is opened that somebody else put under the name.
  const int fd =
      ::open(temporary_.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (fd < 0) {
    error_ = path_ + ": create: " + std::strerror(errno);
    temporary_.clear();
    return;
  }
  ::close(fd);
  if (sqlite3_open_v2(temporary_.c_str(), &db_, SQLITE_OPEN_READWRITE, nullptr) != SQLITE_OK) {
    Fail("open");
    return;
  }
  Run("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA locking_mode=EXCLUSIVE;"
      "PRAGMA encoding='UTF-8'; PRAGMA page_size=4096; PRAGMA temp_store=MEMORY; BEGIN");
}

SqliteFile::~SqliteFile() {
  Close();
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void SqliteFile::Close() {
  if (db_ != nullptr) sqlite3_close_v2(db_);
  db_ = nullptr;
}

void SqliteFile::Fail(const std::string& what) {
  if (!error_.empty()) return;
  error_ = path_ + ": " + what + ": " + (db_ != nullptr ? sqlite3_errmsg(db_) : "out of memory");
}

void SqliteFile::Run(const std::string& sql) {
  if (!ok()) return;
  if (sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
    Fail(sql.substr(0, 60));
  }
}

void SqliteFile::CheckIntegrity() {
  if (!ok()) return;
  std::string verdict;
  const auto keep = [](void* to, int count, char** values, char**) {
    if (count > 0 && values[0] != nullptr) *static_cast<std::string*>(to) += values[0];
    return 0;
  };
  if (sqlite3_exec(db_, "PRAGMA integrity_check(1)", keep, &verdict, nullptr) != SQLITE_OK) {
    return Fail("integrity check");
  }
  if (verdict != "ok") error_ = path_ + ": integrity check: " + verdict;
}

void SqliteFile::Publish() {
  if (!ok()) return;
  if (RenameExclusive(temporary_.c_str(), path_.c_str()) != 0) {
    error_ = path_ + ": rename: " + std::strerror(errno);
    return;
  }
  temporary_.clear();
}

void SqliteFile::Measure() {
  if (!ok()) return;
  std::ifstream file(temporary_, std::ios::binary);
  std::vector<char> block(size_t{1} << 18);
  Sha256 hash;
  while (file.read(block.data(), static_cast<std::streamsize>(block.size())), file.gcount() > 0) {
    const auto count = static_cast<size_t>(file.gcount());
    hash.Update({block.data(), count});
    bytes_ += count;
  }
  sha256_ = hash.HexDigest();
  if (file.bad()) error_ = path_ + ": read back: " + std::strerror(errno);
}

bool SqliteFile::Commit() {
  Run("COMMIT");
  CheckIntegrity();
  Close();
  Measure();
  Publish();
  return ok();
}

SqliteInsert::SqliteInsert(SqliteFile& file, const std::string& table, int columns) : file_(file) {
  if (!file.ok()) return;
  std::string sql = "INSERT INTO " + table + " VALUES (?";
  for (int i = 1; i < columns; ++i) sql += ",?";
  sql += ")";
  if (sqlite3_prepare_v2(file.handle(), sql.c_str(), -1, &statement_, nullptr) != SQLITE_OK) {
    file.Fail(sql);
  }
}

void SqliteInsert::Step() {
  if (file_.ok() && sqlite3_step(statement_) != SQLITE_DONE) file_.Fail("insert");
  sqlite3_reset(statement_);
  ++rows_;
}

}  // namespace stepagent::writers
