#include "collector/writers/stack_frames.h"

#include <cstdio>
#include <string_view>

#include "collector/writers/json_text.h"

namespace stepagent::writers {
namespace {

// Chrome JSON repeats the text at every launch: 64 frames of a framework's templates would be 20 kB
// a launch, thirty times the rest of a kernel's rows. 4 kB hold some forty plain frames, more than
// a panel shows.
constexpr size_t kMaxCallStackBytes = 4096;

std::string_view LastPart(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// ';' and line breaks separate frames in what readers make of the text.
void AppendClean(std::string& out, std::string_view text) {
  for (const char c : text) {
    const bool is_bad = c == ';' || static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
    out += is_bad ? '_' : c;
  }
}

std::string FrameText(const model::Cycle& cycle, const model::Frame& frame) {
  std::string text;
  if (frame.source != 0 && frame.line != 0) {
    AppendClean(text, ValidUtf8(LastPart(cycle.Text(frame.source))));
    text += "(" + std::to_string(frame.line) + "): ";
  }
  AppendClean(text, FrameName(cycle, frame));
  return text;
}

}  // namespace

const std::vector<model::Frame>* StackOf(const model::Cycle& cycle, const model::Call& call) {
  const bool is_known = call.stack >= 0 && static_cast<size_t>(call.stack) < cycle.stacks.size();
  return is_known ? &cycle.stacks[static_cast<size_t>(call.stack)] : nullptr;
}

std::string FrameName(const model::Cycle& cycle, const model::Frame& frame) {
  if (frame.name != 0) return ValidUtf8(cycle.Text(frame.name));
  char address[24];
  std::snprintf(address, sizeof address, "0x%llx", static_cast<unsigned long long>(frame.address));
  const std::string module = ValidUtf8(cycle.Text(frame.module));
  return module.empty() ? std::string(address) : std::string(LastPart(module)) + "+" + address;
}

std::string CallStackText(const model::Cycle& cycle, const std::vector<model::Frame>& stack) {
  std::string text;
  for (size_t i = 0; i < stack.size(); ++i) {
    const std::string frame = FrameText(cycle, stack[i]);
    if (i > 0 && text.size() + frame.size() > kMaxCallStackBytes) {
      return text + ";(" + std::to_string(stack.size() - i) + " outer frames left out)";
    }
    if (i > 0) text += ';';
    text += frame;
  }
  return text;
}

}  // namespace stepagent::writers
