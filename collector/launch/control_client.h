#pragma once
// Asks an agent: one request frame, one answer frame, over its control socket.
//
// Purpose: `status`, `start`, `stop`, `toggle`, `wait` and the launcher's toggle signal speak to
// agents with this. The answering side must run as the same user or root (for root: anyone) and be
// the process that the socket is named after.
// Thread rule: functions without state; AskAll uses threads of its own and joins them.
// Failure rule: an Answer without a message says why; nothing blocks longer than the timeout.
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "control.pb.h"
#include "proto/address.h"

namespace stepagent::launch {

struct Answer {
  proto::AgentEntry agent;
  std::optional<v1::ControlAnswer> message;
  std::string error;     // why there is no message
  std::string title;     // as far as known from elsewhere, where there is no message
  int64_t rank = -1;     // the same; -1 not known
  bool is_gone = false;  // nobody listens (any more: then `message` has its last words)
};

// An agent answers from a thread that only waits; this is for one that is stopped or swapped out.
inline constexpr std::chrono::milliseconds kAnswerTimeout{2000};

[[nodiscard]] Answer Ask(const proto::AgentEntry& agent, const v1::ControlRequest& request,
                         std::chrono::milliseconds timeout = kAnswerTimeout);
// Side by side, so that one that hangs does not hold up the others. In the order of `agents`.
[[nodiscard]] std::vector<Answer> AskAll(const std::vector<proto::AgentEntry>& agents,
                                         const v1::ControlRequest& request,
                                         std::chrono::milliseconds timeout = kAnswerTimeout);
[[nodiscard]] v1::ControlRequest MakeRequest(v1::ControlRequest::Verb verb);
[[nodiscard]] const char* PhaseText(v1::Phase phase);

}  // namespace stepagent::launch
