#pragma once
// Which numbers of a Kineto file are believed, and what is said of the others.
//
// Purpose: a byte count below zero or a device of number 99,999,999 is refused as a value: left out
// as if it were absent, counted by its key and told once, with the first place it stood.
// Thread rule: one owner. Failure rule: cannot fail.
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "collector/analysis/kineto_cycle.h"

namespace stepagent::analysis {

// No machine has more; what a file claims beyond is a damaged number.
inline constexpr int64_t kMostDevice = 1023;

struct KinetoArg {
  std::string_view key;
  std::optional<int64_t> KinetoEvent::*field;
  int64_t least, most;
  bool is_place;  // without it a row of device work cannot be placed
};
// nullptr: a key that is not used.
[[nodiscard]] const KinetoArg* FindKinetoArg(std::string_view key);
// What our own files say of a row by true or false; nullptr: a key that is not used.
[[nodiscard]] bool KinetoEvent::*FindKinetoFlag(std::string_view key);
// "0 to 1023", "0 or more".
[[nodiscard]] std::string AllowedText(int64_t least, int64_t most);

class RefusedValues {
 public:
  // `where`: "row 12 (name)" or a header's key. `consequence` in words: "the row is left out".
  void Add(std::string_view key, int64_t value, const std::string& allowed,
           const std::string& where, std::string_view consequence);
  [[nodiscard]] std::vector<std::string> Lines() const;

 private:
  struct Refused {
    std::string first;
    uint64_t count = 0;
  };
  std::map<std::string, Refused, std::less<>> by_key_;
};

}  // namespace stepagent::analysis
