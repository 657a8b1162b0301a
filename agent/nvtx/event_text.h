#pragma once
// HOT PATH A. EventText: the string kinds of NVTX under one shape.
//
// Purpose: a handler is written once for plain, wide and registered strings; which one it is is
// known where the function table is entered, or from the attributes' message type.
// Thread rule: values on the caller's stack.
// Failure rule: what cannot be read is "no name".
#include <cstddef>
#include <cstdint>

#include "agent/core/name_table.h"
#include "agent/nvtx/step_pattern.h"
#include "agent/nvtx/storage.h"

#ifndef NVTX_NO_IMPL
#define NVTX_NO_IMPL  // a tool: types only, none of the client's code
#endif
#include <nvtx3/nvToolsExt.h>

namespace stepagent::nvtx {

struct PlainText {
  static constexpr bool kIsRegistered = false;
  const char* text;
  [[nodiscard]] core::NameId Intern() const noexcept { return core::NameTable::InternText(text); }
  [[nodiscard]] bool MayMatch(const StepPattern& pattern) const noexcept {
    return pattern.MayMatch(text);
  }
  [[nodiscard]] bool Matches(const StepPattern& pattern) const noexcept {
    return pattern.MatchesText(text);
  }
};

struct WideText {
  static constexpr bool kIsRegistered = false;
  const wchar_t* text;
  [[nodiscard]] core::NameId Intern() const noexcept { return core::NameTable::InternWide(text); }
  [[nodiscard]] bool MayMatch(const StepPattern&) const noexcept { return text != nullptr; }
  [[nodiscard]] bool Matches(const StepPattern& pattern) const noexcept {
    return pattern.MatchesWide(text);
  }
};

struct KnownText {
  static constexpr bool kIsRegistered = true;
  core::NameId name;
  [[nodiscard]] core::NameId Intern() const noexcept { return name; }
  [[nodiscard]] bool MayMatch(const StepPattern& pattern) const noexcept {
    return pattern.MatchesName(name);
  }
  [[nodiscard]] bool Matches(const StepPattern& pattern) const noexcept {
    return pattern.MatchesName(name);
  }
};

struct EventStyle {
  uint32_t category = 0;
  uint32_t color = 0;  // ARGB
};

// Every size up to and beyond ours is read by prefix: a field counts only if the caller has it.
[[nodiscard]] inline bool HasField(const nvtxEventAttributes_t* event, size_t end) noexcept {
  return event != nullptr && event->version != 0 && event->size >= end;
}

[[nodiscard]] inline EventStyle StyleOf(const nvtxEventAttributes_t* event) noexcept {
  EventStyle style;
  if (HasField(event, offsetof(nvtxEventAttributes_t, colorType))) style.category = event->category;
  if (HasField(event, offsetof(nvtxEventAttributes_t, payloadType)) &&
      event->colorType == NVTX_COLOR_ARGB) {
    style.color = event->color;
  }
  return style;
}

// Where a range's style comes from; asked only when it is recorded.
struct NoStyle {
  [[nodiscard]] EventStyle Get() const noexcept { return {}; }
};
struct StyleIn {
  const nvtxEventAttributes_t* event;
  [[nodiscard]] EventStyle Get() const noexcept { return StyleOf(event); }
};

// Calls `use` with the event's text in its own kind.
template <typename Use>
inline auto WithText(const nvtxEventAttributes_t* event, Use&& use) noexcept {
  if (HasField(event, offsetof(nvtxEventAttributes_t, message) + sizeof(event->message))) {
    switch (event->messageType) {
      case NVTX_MESSAGE_TYPE_ASCII:
        return use(PlainText{event->message.ascii});
      case NVTX_MESSAGE_TYPE_UNICODE:
        return use(WideText{event->message.unicode});
      case NVTX_MESSAGE_TYPE_REGISTERED:
        return use(KnownText{StringOfHandle(event->message.registered)});
      default:
        break;
    }
  }
  return use(KnownText{core::kNoName});
}

}  // namespace stepagent::nvtx
