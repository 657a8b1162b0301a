#pragma once
// What a Kineto file says before its rows: ranks, devices, versions; of our own files all the rest.
//
// Purpose: our Chrome files are Kineto's with one object more, `stepagent`, which holds what Kineto
// has no place for: labels, cycle, how it ended, notes, which part of a trace that was cut. Of
// others' files that is not known, and is said once. Thread rule: one owner. Failure rule: a value
// that cannot be is refused and told; an own object that somebody changed is taken as far as it is
// readable.
#include <map>
#include <string>
#include <string_view>

#include "collector/analysis/kineto_values.h"
#include "collector/model/cycle.h"

namespace stepagent::analysis {

class KinetoHeader {
 public:
  // Where a value stands: `depth` 1 is `top_key` itself, 2 `key` in it, 3 in an object of its array.
  struct Where {
    int depth;
    std::string_view top_key, key;
  };
  KinetoHeader(model::Cycle* cycle, RefusedValues* refused) : cycle_(*cycle), refused_(*refused) {}

  void Number(const Where& where, int64_t value);
  void Text(const Where& where, const std::string& text);
  void Boolean(const Where& where, bool value);
  // An object of an array begins.
  void BeginObject(std::string_view top_key);
  // The file is one of ours, as far as was read.
  [[nodiscard]] bool IsOwn() const { return !own_.empty(); }
  // A rank beyond the world's size, whichever of the two came first.
  void CheckRank();
  // Behind the rows: what the file tells of the cycle as a whole, and the note of what it does not.
  void Complete(model::Cycle* cycle) const;

 private:
  void DeviceNumber(const Where& where, int64_t value);
  [[nodiscard]] std::string Own(std::string_view key) const;
  void TakeOwn(model::Cycle* cycle) const;
  void TakeNotes(model::Cycle* cycle) const;
  void TakeDevice(model::Cycle* cycle) const;
  // Whether the number is one that can be; said otherwise.
  bool Believes(const Where& where, int64_t value, int64_t least, int64_t most);

  model::Cycle& cycle_;
  RefusedValues& refused_;
  std::map<std::string, std::string, std::less<>> own_;
};

}  // namespace stepagent::analysis
