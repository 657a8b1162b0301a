#pragma once
// Makes folders, links and small files below OUT.
//
// Purpose: exclusive creation, no symbolic link followed below OUT, nothing half-written under its
// final name.
// Thread rule: any thread; the file system arbitrates.
// Failure rule: "" is success, anything else is "path: what: errno text".
#include <string>
#include <string_view>
#include <vector>

namespace stepagent::spool {

// `path` and its missing parents, for OUT itself (its parents may be links: they are the user's).
[[nodiscard]] std::string MakeOut(const std::string& path);
// One folder; there already is fine when it is a real folder of ours, not a link.
[[nodiscard]] std::string MakeFolder(const std::string& path);
// One folder that must not exist yet. *existed tells EEXIST from other errors.
[[nodiscard]] std::string MakeNewFolder(const std::string& path, bool* existed);
// OUT/latest -> name, replaced atomically. A `latest` that is no link is left alone.
[[nodiscard]] std::string PointLatest(const std::string& out, const std::string& name);
// Replaces a file by a whole new content, piece by piece: a temporary file in the same folder, then
// rename. Until Commit, and without it, the old one stays.
class FileReplacement {
 public:
  explicit FileReplacement(std::string path);
  ~FileReplacement();
  FileReplacement(const FileReplacement&) = delete;
  FileReplacement& operator=(const FileReplacement&) = delete;
  void Append(std::string_view text);
  // The new content is on the disk, under its temporary name: of several files, all or none.
  [[nodiscard]] std::string Prepare();
  [[nodiscard]] std::string Commit();

 private:
  void Flush();

  const std::string path_, temporary_;
  std::string buffer_;
  int fd_ = -1;
  bool is_prepared_ = false;  // and not given its name yet
  std::string error_;
};
[[nodiscard]] std::string ReplaceFile(const std::string& path, std::string_view text);
[[nodiscard]] bool IsRealFolder(const std::string& path);
// Names in a folder, sorted; links are left out.
[[nodiscard]] std::vector<std::string> RealFoldersIn(const std::string& path);
[[nodiscard]] std::string ErrnoText(const std::string& path, const char* what, int error);

}  // namespace stepagent::spool
