#pragma once
// Loader: which libcupti, and why that one.
//
// Purpose: find the copy that is right for this process: an explicit file, the copy that is mapped
// already, the wheel beside the interpreter, the system's by soname from the driver's major version
// downwards, the toolkit's. The choice and its reason are written into every manifest.
// Thread rule: under the loader gate. Failure rule: no candidate leaves `handle` null and says what
// was tried.
// Never linked and never early: mapping an older libcupti.so.12 makes a later load of a library
// that needs a newer one fail. Always RTLD_LOCAL; a handle is never closed.
#include <cstdint>
#include <string>
#include <vector>

namespace stepagent::cupti {

struct LoadedLibrary {
  void* handle = nullptr;
  std::string path;    // the file, as the dynamic loader names it
  std::string choice;  // "already loaded by the application", …
  std::string tried;   // when handle is null
  // Of files that stood in the way and do not load, while another was found; "" none.
  std::string passed_over;
};

class Loader {
 public:
  // `rejected`: paths that were loaded before and did not work with the driver.
  [[nodiscard]] static LoadedLibrary Load(uint32_t driver_version,
                                          const std::vector<std::string>& rejected);

  // Load, where `tried` holds what did not load even when another did.
  [[nodiscard]] static LoadedLibrary Search(uint32_t driver_version,
                                            const std::vector<std::string>& rejected);

  struct Candidate {
    std::string path;
    uint32_t major = 0;  // 13 of libcupti.so.13; 11 of libcupti.so.11.8
    uint32_t minor = 0;
  };
  // Of a file name such as libcupti.so.12 or libcupti.so.2024.1.0; major 0: not a libcupti.
  [[nodiscard]] static Candidate Parse(const std::string& path);
  // Those the driver supports first, newest first; then the rest, oldest first.
  static void Order(std::vector<Candidate>* candidates, uint32_t driver_major);
  // Mapped copies, wheels below the prefixes of the interpreter, toolkits.
  [[nodiscard]] static std::vector<Candidate> Mapped();
  [[nodiscard]] static std::vector<Candidate> InWheels(const std::vector<std::string>& prefixes);
  [[nodiscard]] static std::vector<Candidate> InToolkits();
  // Installation prefixes of the Python interpreter this process is; empty when it is none.
  [[nodiscard]] static std::vector<std::string> InterpreterPrefixes();
};

}  // namespace stepagent::cupti
