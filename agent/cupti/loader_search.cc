// Where a libcupti may lie: mapped objects, wheels, toolkits.
#include <glob.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "agent/cupti/loader.h"

namespace stepagent::cupti {
namespace {

constexpr const char* kStem = "libcupti.so";

std::string BaseName(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

std::string Parent(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string() : path.substr(0, slash);
}

void AddPattern(const std::string& pattern, std::vector<Loader::Candidate>* out) {
  glob_t found{};
  if (glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found) == 0) {
    for (size_t i = 0; i < found.gl_pathc; ++i) {
      Loader::Candidate candidate = Loader::Parse(found.gl_pathv[i]);
      if (candidate.major != 0) out->push_back(candidate);
    }
  }
  globfree(&found);
}

void AddEnvironment(const char* variable, std::vector<std::string>* out) {
  const char* value = std::getenv(variable);
  if (value != nullptr && value[0] == '/') out->push_back(value);
}

// The first word of the command line: an interpreter in a virtual environment is a link, and the
// environment is where the link lies, not what it points to.
std::string CommandPath() {
  std::string path;
  FILE* file = std::fopen("/proc/self/cmdline", "re");
  if (file == nullptr) return path;
  int c;
  while ((c = std::fgetc(file)) > 0) path.push_back(static_cast<char>(c));
  std::fclose(file);
  return path;
}

std::string ExecutablePath() {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path));
  return length > 0 ? std::string(path, static_cast<size_t>(length)) : std::string();
}

int NotePython(dl_phdr_info* info, size_t /*bytes*/, void* data) {
  if (BaseName(info->dlpi_name).rfind("libpython", 0) == 0) *static_cast<bool*>(data) = true;
  return 0;
}

int NoteMapped(dl_phdr_info* info, size_t /*bytes*/, void* data) {
  const Loader::Candidate candidate = Loader::Parse(info->dlpi_name);
  if (candidate.major != 0) {
    static_cast<std::vector<Loader::Candidate>*>(data)->push_back(candidate);
  }
  return 0;
}

}  // namespace

Loader::Candidate Loader::Parse(const std::string& path) {
  Candidate candidate;
  const std::string name = BaseName(path);
  if (name.rfind(kStem, 0) != 0) return candidate;
  const char* rest = name.c_str() + std::strlen(kStem);
  candidate.path = path;
  unsigned major = 0, minor = 0;
  if (*rest == '\0') {
    candidate.major = 1;  // a bare name tells no version: it comes last
  } else if (std::sscanf(rest, ".%u.%u", &major, &minor) >= 1) {
    // Files behind the soname are numbered by year (libcupti.so.2024.1.0).
    candidate.major = major < 1000 ? major : 1;
    candidate.minor = major < 1000 ? minor : 0;
  }
  return candidate;
}

void Loader::Order(std::vector<Candidate>* candidates, uint32_t driver_major) {
  std::stable_sort(candidates->begin(), candidates->end(),
                   [driver_major](const Candidate& a, const Candidate& b) {
                     const bool a_fits = a.major <= driver_major;
                     const bool b_fits = b.major <= driver_major;
                     if (a_fits != b_fits) return a_fits;
                     if (a.major != b.major) return a_fits ? a.major > b.major : a.major < b.major;
                     return a.minor > b.minor;
                   });
}

std::vector<Loader::Candidate> Loader::Mapped() {
  std::vector<Candidate> found;
  dl_iterate_phdr(NoteMapped, &found);
  return found;
}

std::vector<std::string> Loader::InterpreterPrefixes() {
  std::vector<std::string> prefixes;
  const std::string executable = ExecutablePath();
  bool is_python = BaseName(executable).rfind("python", 0) == 0;
  if (!is_python) dl_iterate_phdr(NotePython, &is_python);
  if (!is_python) return prefixes;
  AddEnvironment("VIRTUAL_ENV", &prefixes);
  AddEnvironment("CONDA_PREFIX", &prefixes);
  for (const std::string& path : {CommandPath(), executable}) {
    if (!path.empty() && path[0] == '/') prefixes.push_back(Parent(Parent(path)));
  }
  return prefixes;
}

std::vector<Loader::Candidate> Loader::InWheels(const std::vector<std::string>& prefixes) {
  std::vector<Candidate> found;
  for (const std::string& prefix : prefixes) {
    for (const char* packages : {"/lib/python3*/site-packages", "/lib64/python3*/site-packages",
                                 "/lib/python3*/dist-packages", "/lib/python3/dist-packages",
                                 "/local/lib/python3*/dist-packages"}) {
      // cu11 and cu12 wheels: nvidia/cuda_cupti/lib; cu13: nvidia/cu13/lib.
      AddPattern(prefix + packages + "/nvidia/*/lib/libcupti.so.*", &found);
    }
  }
  return found;
}

std::vector<Loader::Candidate> Loader::InToolkits() {
  std::vector<std::string> roots;
  AddEnvironment("CUDA_HOME", &roots);
  AddEnvironment("CUDA_PATH", &roots);
  roots.insert(roots.end(), {"/usr/local/cuda", "/usr/local/cuda-*", "/opt/cuda"});
  std::vector<Candidate> found;
  for (const std::string& root : roots) {
    for (const char* folder : {"/extras/CUPTI/lib64", "/lib64", "/lib", "/targets/*/lib"}) {
      AddPattern(root + folder + "/libcupti.so.*", &found);
    }
  }
  return found;
}

}  // namespace stepagent::cupti
