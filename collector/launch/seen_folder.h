#pragma once
// Whether a run's folder was there while the program ran.
//
// Purpose: nothing is left at the end both where nothing was recorded and where somebody removed
// what was. The launcher looks now and then until it has seen the folder once.
// Thread rule: main thread only.
// Failure rule: a folder that came and went between two looks is not seen.
#include <string>

namespace stepagent::launch {

class SeenFolder {
 public:
  explicit SeenFolder(std::string path) : path_(std::move(path)) {}
  // The time until the next look, in milliseconds; -1: none is needed.
  int Look();
  [[nodiscard]] bool was_there() const { return was_there_; }

 private:
  std::string path_;
  bool was_there_ = false;
  int pause_ms_ = 50;
};

}  // namespace stepagent::launch
