#include "collector/symbols/debug_info.h"

#include <dwarf.h>

#include <algorithm>
#include <cstdlib>

namespace stepagent::symbols {
namespace {

// The list of units alone takes about a second for a GiB of debug information.
constexpr uint64_t kMaxInfoBytes = 1U << 30;

struct FreeDies {
  void operator()(Dwarf_Die* dies) const { std::free(dies); }
};
using Dies = std::unique_ptr<Dwarf_Die, FreeDies>;

bool IsFunction(Dwarf_Die* die) {
  const int tag = dwarf_tag(die);
  return tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine || tag == DW_TAG_entry_point;
}

std::string NameOf(Dwarf_Die* die) {
  Dwarf_Attribute attribute;
  for (const unsigned wanted : {DW_AT_linkage_name, DW_AT_MIPS_linkage_name}) {
    const char* name = dwarf_formstring(dwarf_attr_integrate(die, wanted, &attribute));
    if (name != nullptr) return name;
  }
  const char* name = dwarf_diename(die);
  return name == nullptr ? "" : name;
}

uint32_t NumberOf(Dwarf_Die* die, unsigned wanted) {
  Dwarf_Attribute attribute;
  Dwarf_Word value = 0;
  if (dwarf_formudata(dwarf_attr(die, wanted, &attribute), &value) != 0) return 0;
  return static_cast<uint32_t>(value);
}

std::string FileOf(Dwarf_Die* unit, uint32_t index) {
  Dwarf_Files* files = nullptr;
  size_t count = 0;
  if (index == 0 || dwarf_getsrcfiles(unit, &files, &count) != 0 || index >= count) return "";
  const char* name = dwarf_filesrc(files, index, nullptr, nullptr);
  return name == nullptr ? "" : name;
}

}  // namespace

std::unique_ptr<DebugInfo> DebugInfo::Read(Elf* elf) {
  Dwarf* dwarf = dwarf_begin_elf(elf, DWARF_C_READ, nullptr);
  if (dwarf == nullptr) return nullptr;
  std::unique_ptr<DebugInfo> info(new DebugInfo(dwarf));
  info->ReadUnits();
  if (info->units_.empty()) return nullptr;
  return info;
}

DebugInfo::~DebugInfo() { dwarf_end(dwarf_); }

void DebugInfo::ReadUnits() {
  Dwarf_Off offset = 0, next = 0;
  size_t header_bytes = 0;
  while (offset < kMaxInfoBytes &&
         dwarf_nextcu(dwarf_, offset, &next, &header_bytes, nullptr, nullptr, nullptr) == 0) {
    Dwarf_Die die;
    const Dwarf_Off unit = offset + header_bytes;
    offset = next;
    if (dwarf_offdie(dwarf_, unit, &die) == nullptr) continue;
    Dwarf_Addr base = 0, begin = 0, end = 0;
    ptrdiff_t place = 0;
    while ((place = dwarf_ranges(&die, place, &base, &begin, &end)) > 0) {
      // Functions that the linker left out lie at 0.
      if (begin != 0 && begin < end) units_.push_back({begin, end, unit});
    }
  }
  std::sort(units_.begin(), units_.end(), [](const UnitRange& a, const UnitRange& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.unit < b.unit;
  });
}

const DebugInfo::UnitRange* DebugInfo::UnitOf(uint64_t address) const {
  auto at = std::upper_bound(
      units_.begin(), units_.end(), address,
      [](uint64_t wanted, const UnitRange& range) { return wanted < range.begin; });
  if (at == units_.begin()) return nullptr;
  --at;
  return address < at->end ? &*at : nullptr;
}

std::vector<Place> DebugInfo::Find(uint64_t address) {
  std::vector<Place> places;
  const UnitRange* range = UnitOf(address);
  Dwarf_Die unit;
  if (range == nullptr || dwarf_offdie(dwarf_, range->unit, &unit) == nullptr) return places;
  Dwarf_Die* found = nullptr;
  const int depth = dwarf_getscopes(&unit, address, &found);
  const Dies innermost(found);
  if (depth <= 0) return places;
  // The chain of calls: outwards from the innermost scope where it was inlined to.
  Dwarf_Die* chain = nullptr;
  const int scopes = dwarf_getscopes_die(innermost.get(), &chain);
  const Dies owner(chain);
  Place place;
  if (Dwarf_Line* line = dwarf_getsrc_die(&unit, address); line != nullptr) {
    int number = 0;
    const char* source = dwarf_linesrc(line, nullptr, nullptr);
    if (source != nullptr) place.source = source;
    if (dwarf_lineno(line, &number) == 0) place.line = static_cast<uint32_t>(number);
  }
  for (int i = 0; i < scopes; ++i) {
    Dwarf_Die* scope = &chain[i];
    if (!IsFunction(scope)) continue;
    place.function = NameOf(scope);
    places.push_back(place);
    if (dwarf_tag(scope) != DW_TAG_inlined_subroutine) break;
    place = {.function = {},
             .source = FileOf(&unit, NumberOf(scope, DW_AT_call_file)),
             .line = NumberOf(scope, DW_AT_call_line)};
  }
  return places;
}

}  // namespace stepagent::symbols
