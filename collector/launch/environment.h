#pragma once
// The environment that the target starts with.
//
// Purpose: what is there stays; ours is added. LD_PRELOAD: sanitizer runtimes that were in it, then
// libstepagent.so, then the rest in its order. An injection variable that names another library is
// left alone and said.
// Thread rule: a plain value.
// Failure rule: nothing fails.
#include <string>
#include <string_view>
#include <vector>

namespace stepagent::launch {

class Environment {
 public:
  explicit Environment(char* const* entries);
  [[nodiscard]] std::string Get(std::string_view name) const;  // "" unset
  [[nodiscard]] bool Has(std::string_view name) const;
  void Set(std::string_view name, std::string_view value);
  void Unset(std::string_view name);
  // Pointers into this object, null-terminated, valid until the next Set.
  [[nodiscard]] std::vector<char*> Pointers();

 private:
  std::vector<std::string> entries_;
};

[[nodiscard]] std::string ComposePreload(std::string_view present, const std::string& library);
// Sets the loader's and the vendor's variables; appends to `notes` a line for each that was taken.
void AddInjection(const std::string& library, Environment* environment,
                  std::vector<std::string>* notes);

}  // namespace stepagent::launch
