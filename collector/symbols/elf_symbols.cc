#include "collector/symbols/elf_symbols.h"

#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <gelf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <tuple>

namespace stepagent::symbols {
namespace {

constexpr size_t kMaxSymbols = 8U << 20;

uint8_t RankOf(unsigned char info) {
  switch (GELF_ST_BIND(info)) {
    case STB_GLOBAL:
      return 0;
    case STB_WEAK:
      return 1;
    default:
      return 2;
  }
}

}  // namespace

std::unique_ptr<ElfFile> ElfFile::Open(const std::string& path) {
  if (path.empty() || path[0] != '/' || elf_version(EV_CURRENT) == EV_NONE) return nullptr;
  // Not blocking: the path may name a pipe by now.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return nullptr;
  struct stat status {};
  Elf* elf = nullptr;
  if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode)) {
    elf = elf_begin(fd, ELF_C_READ_MMAP, nullptr);
  }
  if (elf == nullptr || elf_kind(elf) != ELF_K_ELF) {
    if (elf != nullptr) elf_end(elf);
    close(fd);
    return nullptr;
  }
  return std::unique_ptr<ElfFile>(new ElfFile(fd, elf));
}

ElfFile::~ElfFile() {
  elf_end(elf_);
  close(fd_);
}

std::string ElfFile::BuildId() const {
  const void* bytes = nullptr;
  const ssize_t count = dwelf_elf_gnu_build_id(elf_, &bytes);
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (ssize_t i = 0; i < count; ++i) {
    const unsigned char byte = static_cast<const unsigned char*>(bytes)[i];
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

void ElfSymbols::AddTable(Elf* elf, Elf_Scn* section, size_t strings, size_t count) {
  Elf_Data* data = elf_getdata(section, nullptr);
  if (data == nullptr) return;
  for (size_t i = 0; i < count && symbols_.size() < kMaxSymbols; ++i) {
    GElf_Sym symbol;
    if (gelf_getsym(data, static_cast<int>(i), &symbol) == nullptr) return;
    const int type = GELF_ST_TYPE(symbol.st_info);
    const bool is_code = type == STT_FUNC || type == STT_GNU_IFUNC;
    if (!is_code || symbol.st_shndx == SHN_UNDEF || symbol.st_value == 0) continue;
    const char* name = elf_strptr(elf, strings, symbol.st_name);
    if (name == nullptr || name[0] == '\0') continue;
    symbols_.push_back({symbol.st_value, symbol.st_size, name, RankOf(symbol.st_info)});
  }
}

// The full table where there is one; the dynamic one is part of it.
void ElfSymbols::Add(Elf* elf) {
  for (const uint32_t wanted : {uint32_t{SHT_SYMTAB}, uint32_t{SHT_DYNSYM}}) {
    Elf_Scn* section = nullptr;
    while ((section = elf_nextscn(elf, section)) != nullptr) {
      GElf_Shdr header;
      if (gelf_getshdr(section, &header) == nullptr || header.sh_type != wanted ||
          header.sh_entsize == 0) {
        continue;
      }
      AddTable(elf, section, header.sh_link, header.sh_size / header.sh_entsize);
    }
    if (!symbols_.empty()) return;
  }
}

void ElfSymbols::Sort() {
  std::sort(symbols_.begin(), symbols_.end(), [](const Symbol& a, const Symbol& b) {
    // Of several names of one place the best comes last, where Find looks first.
    return std::make_tuple(a.begin, -int{a.rank}, a.size, std::string_view(b.name)) <
           std::make_tuple(b.begin, -int{b.rank}, b.size, std::string_view(a.name));
  });
}

std::string_view ElfSymbols::Find(uint64_t address) const {
  auto at =
      std::upper_bound(symbols_.begin(), symbols_.end(), address,
                       [](uint64_t wanted, const Symbol& symbol) { return wanted < symbol.begin; });
  // Symbols may lie in one another (parts of hand-written code): a few steps back.
  for (int i = 0; i < 16 && at != symbols_.begin(); ++i) {
    --at;
    if (address - at->begin < at->size) return at->name;
  }
  return {};
}

}  // namespace stepagent::symbols
