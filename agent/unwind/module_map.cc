#include "agent/unwind/module_map.h"

#include <elf.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <string_view>

#include "agent/guard/loader_gate.h"

namespace stepagent::unwind {
namespace {

// A fork holds the gate for as long as the kernel copies the process. Next round is soon enough.
constexpr uint64_t kGateWaitNs = 20'000'000;

struct Counts {
  uint64_t added = 0, removed = 0;
};

int ReadCounts(dl_phdr_info* info, size_t, void* out) {
  *static_cast<Counts*>(out) = {info->dlpi_adds, info->dlpi_subs};
  return 1;
}

std::string LinkTarget(const char* link) {
  char path[PATH_MAX];
  const ssize_t bytes = readlink(link, path, sizeof path);
  return bytes > 0 ? std::string(path, static_cast<size_t>(bytes)) : std::string();
}

// The loader keeps a name as it was given: empty for the program, relative for LD_PRELOAD=./x.so.
std::string AbsolutePath(const char* name, bool is_program) {
  if (is_program) return LinkTarget("/proc/self/exe");
  if (name == nullptr || name[0] == '\0') return "";
  if (name[0] == '/' || std::strchr(name, '/') == nullptr) return name;
  const std::string folder = LinkTarget("/proc/self/cwd");
  return folder.empty() ? name : folder + "/" + name;
}

// The description of the note NT_GNU_BUILD_ID in a mapped PT_NOTE segment.
std::string BuildIdIn(const char* notes, size_t bytes, size_t alignment) {
  const size_t align = alignment == 8 ? 8 : 4;
  const auto round = [align](size_t size) { return (size + align - 1) & ~(align - 1); };
  while (bytes >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) note;
    std::memcpy(&note, notes, sizeof note);
    const size_t name_at = sizeof note, text_at = name_at + round(note.n_namesz);
    const size_t next = text_at + round(note.n_descsz);
    if (next > bytes || next < text_at) return "";
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
        std::memcmp(notes + name_at, "GNU", 4) == 0) {
      return std::string(notes + text_at, note.n_descsz);
    }
    notes += next;
    bytes -= next;
  }
  return "";
}

bool IsBelowCall(std::string_view path, uintptr_t begin, uintptr_t end) {
  const auto here = reinterpret_cast<uintptr_t>(&BuildIdIn);
  if (here >= begin && here < end) return true;
  const std::string_view name = path.substr(path.find_last_of('/') + 1);
  return name.starts_with("libcupti.so") || name.starts_with("libcuda.so") ||
         name.starts_with("libcudart.so");
}

struct Walk {
  std::vector<Module>* modules;
  Counts counts;
  bool is_first = true;
};

int TakeModule(dl_phdr_info* info, size_t, void* out) {
  auto* walk = static_cast<Walk*>(out);
  walk->counts = {info->dlpi_adds, info->dlpi_subs};
  Module module;
  module.load_address = info->dlpi_addr;
  module.begin = UINTPTR_MAX;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    const uintptr_t at = info->dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD) {
      module.begin = std::min(module.begin, at);
      module.end = std::max(module.end, at + segment.p_memsz);
    } else if (segment.p_type == PT_NOTE && module.build_id.empty()) {
      module.build_id =
          BuildIdIn(reinterpret_cast<const char*>(at), segment.p_filesz, segment.p_align);
    }
  }
  const std::string path = AbsolutePath(info->dlpi_name, walk->is_first);
  walk->is_first = false;
  if (module.begin >= module.end) return 0;
  module.path = path.empty() ? core::kNoName : core::NameTable::Intern(path);
  module.is_below_call = IsBelowCall(path, module.begin, module.end);
  walk->modules->push_back(std::move(module));
  return 0;
}

}  // namespace

bool ModuleMap::Refresh() {
  const guard::LoaderGate::Scope gate(kGateWaitNs);
  if (!gate) return false;
  Counts now;
  dl_iterate_phdr(ReadCounts, &now);
  if (!modules_.empty() && now.added == added_ && now.removed == removed_) return false;
  const bool went = !modules_.empty() && now.removed != removed_;
  std::vector<Module> modules;
  Walk walk{.modules = &modules, .counts = {}};
  dl_iterate_phdr(TakeModule, &walk);
  std::sort(modules.begin(), modules.end(),
            [](const Module& a, const Module& b) { return a.begin < b.begin; });
  modules_ = std::move(modules);
  added_ = walk.counts.added;
  removed_ = walk.counts.removed;
  return went;
}

const Module* ModuleMap::Find(uintptr_t address) const {
  const auto after = std::upper_bound(
      modules_.begin(), modules_.end(), address,
      [](uintptr_t wanted, const Module& module) { return wanted < module.begin; });
  if (after == modules_.begin()) return nullptr;
  const Module& module = *std::prev(after);
  return address < module.end ? &module : nullptr;
}

}  // namespace stepagent::unwind
