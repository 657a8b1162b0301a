#include "agent/cupti/loader.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>

#include "agent/cupti/availability.h"

namespace stepagent::cupti {
namespace {

constexpr const char* kOverride = "STEPAGENT_CUPTI";
// Before 12 the soname carries the minor version.
constexpr int kNewestMinorOf11 = 8;
constexpr uint32_t kOldestMajor = 11;

using Rejected = std::vector<std::string>;

std::string PathOf(void* handle) {
  link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr && map->l_name != nullptr) {
    return map->l_name;
  }
  return {};
}

bool Contains(const Rejected& list, const std::string& path) {
  return std::find(list.begin(), list.end(), path) != list.end();
}

// A library that is there and does not load says more than that none was found.
void NoteBroken(const std::string& name, LoadedLibrary* out) {
  const char* text = dlerror();
  const std::string error = text != nullptr ? text : "";
  const bool is_absent = error.starts_with(name + ": cannot open shared object file: No such file");
  if (!error.empty() && !is_absent) out->tried += name + " cannot be loaded (" + error + "); ";
}

// Opens `name` and keeps it unless it turns out to be a rejected file.
bool Open(const std::string& name, int extra_flags, const Rejected& rejected,
          const std::string& choice, LoadedLibrary* out) {
  if (Contains(rejected, name)) return false;
  void* handle = dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL | extra_flags);
  if (handle == nullptr) return NoteBroken(name, out), false;
  const std::string path = PathOf(handle);
  if (Contains(rejected, path)) {
    dlclose(handle);
    return false;
  }
  out->handle = handle;
  out->path = path.empty() ? name : path;
  out->choice = choice;
  return true;
}

// only_fitting: none of a newer release than the driver. Such a library is no use, and need not say
// so: libcupti 13.2, where it finds no driver it can use, recurses in every function, even in
// cuptiGetVersion, until the stack ends, and with it the application.
bool OpenFirst(std::vector<Loader::Candidate> candidates, uint32_t driver_major, bool only_fitting,
               int extra_flags, const Rejected& rejected, const std::string& choice,
               LoadedLibrary* out) {
  Loader::Order(&candidates, driver_major);
  for (const Loader::Candidate& candidate : candidates) {
    if (only_fitting && candidate.major > driver_major) continue;
    if (Open(candidate.path, extra_flags, rejected, choice, out)) return true;
  }
  return false;
}

std::vector<std::string> Sonames(uint32_t driver_major) {
  std::vector<std::string> names;
  for (uint32_t major = driver_major; major > kOldestMajor; --major) {
    names.push_back("libcupti.so." + std::to_string(major));
  }
  for (int minor = kNewestMinorOf11; minor >= 0; --minor) {
    names.push_back("libcupti.so.11." + std::to_string(minor));
  }
  return names;
}

bool IsFolder(const std::string& path) {
  struct stat status;
  return stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

// An explicit name is final: when it does not load, nothing else is taken in its place.
void OpenOverride(const std::string& value, uint32_t driver_major, LoadedLibrary* out) {
  const std::string choice = std::string("named by ") + kOverride;
  if (!IsFolder(value)) {
    if (Open(value, 0, {}, choice, out)) return;
    const std::string why = out->tried.empty() ? "no such file; " : out->tried;
    out->tried = std::string(kOverride) + "=" + value + ": " + why.substr(0, why.size() - 2);
    return;
  }
  std::vector<Loader::Candidate> candidates;
  for (const std::string& soname : Sonames(std::max(driver_major, 64U))) {
    candidates.push_back(Loader::Parse(value + "/" + soname));
  }
  if (OpenFirst(candidates, driver_major, false, 0, {}, choice, out)) return;
  const std::string why =
      out->tried.empty() ? "no libcupti.so.<version> in that folder; " : out->tried;
  out->tried = std::string(kOverride) + "=" + value + ": " + why.substr(0, why.size() - 2);
}

bool OpenBySoname(uint32_t driver_version, const Rejected& rejected, LoadedLibrary* out) {
  for (const std::string& soname : Sonames(driver_version / 1000)) {
    const std::string choice = "found by the name " + soname + " (the driver supports CUDA " +
                               CudaVersionText(driver_version) + ")";
    if (Open(soname, 0, rejected, choice, out)) return true;
  }
  return false;
}

}  // namespace

LoadedLibrary Loader::Load(uint32_t driver_version, const Rejected& rejected) {
  LoadedLibrary library = Search(driver_version, rejected);
  if (library.handle != nullptr && !library.tried.empty()) {
    library.tried.resize(library.tried.size() - 2);  // "; "
    library.passed_over.swap(library.tried);
  }
  return library;
}

LoadedLibrary Loader::Search(uint32_t driver_version, const Rejected& rejected) {
  LoadedLibrary library;
  const uint32_t driver_major = driver_version / 1000;
  const char* override_value = std::getenv(kOverride);
  if (override_value != nullptr && override_value[0] != '\0') {
    OpenOverride(override_value, driver_major, &library);
    return library;
  }
  const std::vector<Candidate> mapped = Mapped();
  if (OpenFirst(mapped, driver_major, true, RTLD_NOLOAD, rejected,
                "already loaded by the application", &library)) {
    return library;
  }
  if (OpenFirst(InWheels(InterpreterPrefixes()), driver_major, true, 0, rejected,
                "Python wheel beside the interpreter", &library)) {
    return library;
  }
  if (OpenBySoname(driver_version, rejected, &library)) return library;
  if (OpenFirst(InToolkits(), driver_major, true, 0, rejected, "in a CUDA toolkit", &library)) {
    return library;
  }
  for (const Candidate& candidate : mapped) {
    if (candidate.major > driver_major)
      library.tried += candidate.path + ", loaded by the application, is newer than the driver; ";
  }
  library.tried += "looked among loaded libraries, Python wheels, the loader's paths for CUDA " +
                   std::to_string(driver_major) + " and older, and CUDA toolkits";
  return library;
}

}  // namespace stepagent::cupti
