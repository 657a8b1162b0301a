#pragma once
// ElfFile: an open ELF file. ElfSymbols: its functions by address.
//
// Purpose: the fallback where there is no debug information: which function an address lies in.
// Thread rule: one object, one thread. Failure rule: an unreadable table is an empty one.
#include <libelf.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace stepagent::symbols {

class ElfFile {
 public:
  // nullptr: no regular file, or no ELF file for this machine's word size.
  [[nodiscard]] static std::unique_ptr<ElfFile> Open(const std::string& path);
  ~ElfFile();
  ElfFile(const ElfFile&) = delete;
  ElfFile& operator=(const ElfFile&) = delete;

  [[nodiscard]] Elf* elf() const { return elf_; }
  [[nodiscard]] std::string BuildId() const;  // hex digits; "" none

 private:
  ElfFile(int fd, Elf* elf) : fd_(fd), elf_(elf) {}
  int fd_;
  Elf* elf_;
};

class ElfSymbols {
 public:
  void Add(Elf* elf);
  [[nodiscard]] bool empty() const { return symbols_.empty(); }
  void Sort();
  // "" when no function holds the address.
  [[nodiscard]] std::string_view Find(uint64_t address) const;

 private:
  struct Symbol {
    uint64_t begin, size;
    const char* name;
    uint8_t rank;  // global before weak before local
  };
  void AddTable(Elf* elf, Elf_Scn* section, size_t strings, size_t count);
  std::vector<Symbol> symbols_;
};

}  // namespace stepagent::symbols
