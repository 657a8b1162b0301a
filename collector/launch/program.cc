#include "collector/launch/program.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

namespace stepagent::launch {
namespace {

constexpr int kMaxInterpreters = 4;  // the kernel's own limit for scripts of scripts
constexpr size_t kMaxHeaders = 256;

std::vector<std::string> SplitPath(std::string_view search_path) {
  std::vector<std::string> folders;
  for (size_t from = 0; from <= search_path.size();) {
    const size_t end = std::min(search_path.find(':', from), search_path.size());
    folders.emplace_back(search_path.substr(from, end - from));
    if (folders.back().empty()) folders.back() = ".";
    from = end + 1;
  }
  return folders;
}

bool IsExecutableFile(const std::string& path) {
  struct stat st {};
  return stat(path.c_str(), &st) == 0 && S_ISREG(st.st_mode) && access(path.c_str(), X_OK) == 0;
}

// As execvp: a file that is there but cannot be run is remembered, the search goes on.
Found FindCommand(const std::string& command, std::string_view search_path, std::string* path) {
  *path = command;
  if (command.empty()) return Found::kMissing;
  if (command.find('/') != std::string::npos) {
    if (IsExecutableFile(command)) return Found::kYes;
    return access(command.c_str(), F_OK) == 0 || errno == EACCES ? Found::kNotExecutable
                                                                 : Found::kMissing;
  }
  Found found = Found::kMissing;
  for (const std::string& folder : SplitPath(search_path)) {
    std::string candidate = folder + "/" + command;
    if (IsExecutableFile(candidate)) {
      *path = std::move(candidate);
      return Found::kYes;
    }
    struct stat st {};
    if (stat(candidate.c_str(), &st) == 0 && S_ISREG(st.st_mode)) found = Found::kNotExecutable;
  }
  return found;
}

bool IsSecure(const std::string& path) {
  struct stat st {};
  struct statvfs mount {};
  if (stat(path.c_str(), &st) != 0) return false;
  if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1) return false;
  if (statvfs(path.c_str(), &mount) == 0 && (mount.f_flag & ST_NOSUID)) return false;
  if ((st.st_mode & S_ISUID) && st.st_uid != geteuid()) return true;
  if ((st.st_mode & S_ISGID) && (st.st_mode & S_IXGRP) && st.st_gid != getegid()) return true;
  return geteuid() != 0 && getxattr(path.c_str(), "security.capability", nullptr, 0) > 0;
}

void ReadLoader(int fd, const ElfW(Ehdr) & header, FileHead* head) {
  for (size_t i = 0; i < header.e_phnum && i < kMaxHeaders; ++i) {
    ElfW(Phdr) segment{};
    const off_t at = static_cast<off_t>(header.e_phoff + i * sizeof segment);
    if (pread(fd, &segment, sizeof segment, at) != static_cast<ssize_t>(sizeof segment)) return;
    if (segment.p_type != PT_INTERP) continue;
    char name[4096];
    const size_t bytes = std::min(sizeof name, static_cast<size_t>(segment.p_filesz));
    const ssize_t got = pread(fd, name, bytes, static_cast<off_t>(segment.p_offset));
    head->has_loader = true;
    if (got > 0) head->loader.assign(name, strnlen(name, static_cast<size_t>(got)));
    return;
  }
}

std::string_view ScriptInterpreter(std::string_view line) {
  line.remove_prefix(2);
  while (!line.empty() && (line[0] == ' ' || line[0] == '\t')) line.remove_prefix(1);
  return line.substr(0, line.find_first_of(std::string_view(" \t\n\0", 4)));
}

constexpr bool IsNativeMachine(unsigned machine) {
#if defined(__x86_64__)
  return machine == EM_X86_64;
#elif defined(__aarch64__)
  return machine == EM_AARCH64;
#else
  return true;
#endif
}

}  // namespace

FileHead ReadFileHead(const std::string& path) {
  FileHead head;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return head;
  char bytes[512];
  const ssize_t got = pread(fd, bytes, sizeof bytes, 0);
  const std::string_view text(bytes, got > 0 ? static_cast<size_t>(got) : 0);
  if (text.starts_with("#!")) {
    head.interpreter = std::string(ScriptInterpreter(text));
  } else if (text.size() >= EI_NIDENT && text.starts_with(ELFMAG)) {
    head.is_elf = true;
    ElfW(Ehdr) header{};
    std::memcpy(&header, bytes, std::min(sizeof header, text.size()));
    head.is_native = text.size() >= sizeof header && bytes[EI_CLASS] == ELFCLASS64 &&
                     IsNativeMachine(header.e_machine);
    if (head.is_native && header.e_phentsize == sizeof(ElfW(Phdr))) ReadLoader(fd, header, &head);
  }
  close(fd);
  return head;
}

Program InspectProgram(const std::string& command, std::string_view search_path) {
  Program program;
  program.found = FindCommand(command, search_path, &program.path);
  if (program.found != Found::kYes) return program;
  program.checked = program.path;
  FileHead head = ReadFileHead(program.checked);
  for (int i = 0; i < kMaxInterpreters && !head.interpreter.empty(); ++i) {
    program.checked = head.interpreter;
    head = ReadFileHead(program.checked);
  }
  program.is_secure = IsSecure(program.checked);
  if (!head.is_elf) return program;
  program.is_foreign = !head.is_native;
  program.is_static = head.is_native && !head.has_loader;
  program.is_musl = head.loader.find("ld-musl") != std::string::npos;
  return program;
}

std::string ProgramWarning(const Program& program) {
  const std::string& name = program.checked;
  if (program.is_secure)
    return name +
           ": not traceable: secure mode (set-user-ID, set-group-ID or file capabilities); "
           "it runs without stepagent";
  if (program.is_static)
    return name + ": not traceable: statically linked; only programs that it starts can be";
  if (program.is_musl)
    return name + ": not traceable: uses musl, not glibc; it runs without stepagent";
  if (program.is_foreign)
    return name +
           ": not traceable: a program of another word size or machine; it runs without "
           "stepagent";
  return "";
}

}  // namespace stepagent::launch
