#pragma once
// What the launcher is about to start, and whether the loader will let us in.
//
// Purpose: say before the start what will not be traceable (set-user-ID, file capabilities, static,
// musl, another machine's program), and with which status a missing command ends. Scripts are
// followed to their interpreter.
// Thread rule: pure, but for reading files.
// Failure rule: what cannot be read is taken for an ordinary program: the kernel has the last word.
#include <string>
#include <string_view>

namespace stepagent::launch {

enum class Found { kYes, kMissing, kNotExecutable };

struct Program {
  Found found = Found::kMissing;
  std::string path;         // as execvp would find it
  std::string checked;      // the file that was looked into: path or its interpreter
  bool is_secure = false;   // secure-execution mode: the loader ignores preloads
  bool is_static = false;   // no loader at all
  bool is_musl = false;     // a loader that is not glibc's
  bool is_foreign = false;  // a program of another word size or machine
  // Whether preloading may do harm or print the loader's complaints: nothing is preloaded then.
  [[nodiscard]] bool RefusesPreload() const { return is_musl || is_foreign; }
};

// `search_path`: the value of PATH.
[[nodiscard]] Program InspectProgram(const std::string& command, std::string_view search_path);
// One line for what will not work, "" when all will.
[[nodiscard]] std::string ProgramWarning(const Program& program);

// The bytes of an ELF file's head, or of a script's first line, as InspectProgram sees them.
struct FileHead {
  bool is_elf = false, is_native = false, has_loader = false;
  std::string loader;       // PT_INTERP
  std::string interpreter;  // of a script: "#!" line's first word
};
[[nodiscard]] FileHead ReadFileHead(const std::string& path);

}  // namespace stepagent::launch
