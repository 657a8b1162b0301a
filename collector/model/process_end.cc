#include "collector/model/process_end.h"

#include "proto/settings.h"

namespace stepagent::model {

std::string EndText(uint32_t signal, uint32_t exit_status) {
  if (signal == 0) {
    return "the process exited with status " + std::to_string(exit_status) +
           " without its exit handlers (as _exit does), or the collector was gone";
  }
  const std::string number = std::to_string(signal);
  const std::string name = proto::SignalText(static_cast<int>(signal));
  return "killed by signal " + number + (name == number ? "" : " (SIG" + name + ")");
}

}  // namespace stepagent::model
