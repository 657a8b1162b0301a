#pragma once
// SymbolFile: one ELF file as a source of names.
//
// Purpose: where an address within a file lies: function, inlined functions, source line. Names
// come from its debug information, else from its symbol table, else from the separate debug file
// that its build id leads to. Thread rule: one object, one thread. Failure rule: the file is
// somebody's: what cannot be read leaves an address without a name. Only regular files are opened,
// never the network.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace stepagent::symbols {

struct Place {
  std::string function;  // as the linker or, without that, the compiler calls it (mangled)
  std::string source;    // "" not known
  uint32_t line = 0;     // 0 not known
};

class DebugInfo;
class ElfFile;
class ElfSymbols;

class SymbolFile {
 public:
  enum class State : uint8_t {
    kGood,
    kMissing,     // no such file, or not readable, or no ELF file
    kMismatched,  // another build than the one that ran
  };
  // `build_id`: hex digits of the file that ran; "" it had none, and the file is taken as it is.
  SymbolFile(const std::string& path, const std::string& build_id);
  ~SymbolFile();
  SymbolFile(const SymbolFile&) = delete;
  SymbolFile& operator=(const SymbolFile&) = delete;

  // Of the file itself; names may be there all the same, from a separate debug file.
  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] bool has_debug_info() const { return debug_ != nullptr; }
  // Innermost first: every function but the last is inlined into the next. Empty: no name.
  [[nodiscard]] std::vector<Place> Find(uint64_t address, bool with_debug_info);

 private:
  State state_ = State::kMissing;
  std::unique_ptr<ElfFile> file_, separate_;
  std::unique_ptr<DebugInfo> debug_;
  std::unique_ptr<ElfSymbols> symbols_;
};

}  // namespace stepagent::symbols
