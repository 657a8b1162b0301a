#include "proto/build_id.h"

#include <elf.h>
#include <link.h>

#include <cstdint>
#include <cstring>

// The linker's name for this module's own ELF header.
extern "C" const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden")));

namespace stepagent::proto {
namespace {

constexpr size_t kShownBytes = 4;

std::string Hex(const unsigned char* bytes, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    text += "0123456789abcdef"[bytes[i] >> 4];
    text += "0123456789abcdef"[bytes[i] & 15U];
  }
  return text;
}

// In a segment of notes: each is a header, a name and a description, padded to four bytes.
std::string FindIn(const unsigned char* at, size_t bytes) {
  const auto padded = [](size_t n) { return (n + 3) & ~size_t{3}; };
  while (bytes >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) note;
    std::memcpy(&note, at, sizeof note);
    const size_t name = padded(note.n_namesz), whole = sizeof note + name + padded(note.n_descsz);
    if (whole > bytes) return {};
    const bool is_ours = note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
                         std::memcmp(at + sizeof note, "GNU", 4) == 0;
    if (is_ours && note.n_descsz >= kShownBytes)
      return Hex(at + sizeof note + name, kShownBytes);
    at += whole, bytes -= whole;
  }
  return {};
}

}  // namespace

std::string BuildId() {
  const auto* start = reinterpret_cast<const unsigned char*>(&__ehdr_start);
  const auto* headers = reinterpret_cast<const ElfW(Phdr)*>(start + __ehdr_start.e_phoff);
  const unsigned char* base = start;  // of addresses in the file: the header is at its offset 0
  for (int i = 0; i < __ehdr_start.e_phnum; ++i)
    if (headers[i].p_type == PT_LOAD && headers[i].p_offset == 0) base = start - headers[i].p_vaddr;
  for (int i = 0; i < __ehdr_start.e_phnum; ++i) {
    if (headers[i].p_type != PT_NOTE) continue;
    const std::string id = FindIn(base + headers[i].p_vaddr, headers[i].p_memsz);
    if (!id.empty()) return id;
  }
  return {};
}

std::string VersionText(const std::string& version) {
  const std::string id = BuildId();
  return id.empty() ? version : version + "+" + id;
}

}  // namespace stepagent::proto
