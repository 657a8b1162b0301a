#include "collector/model/stack_decoder.h"

#include <algorithm>
#include <utility>

#include "batch.pb.h"

namespace stepagent::model {
namespace {

// The agent walks 64; later kinds of frames add to that.
constexpr int kMaxFrames = 1024;
constexpr size_t kMaxBuildIdBytes = 64;

std::string Hex(const std::string& bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const char byte : bytes.substr(0, kMaxBuildIdBytes)) {
    text += kDigits[static_cast<unsigned char>(byte) >> 4];
    text += kDigits[static_cast<unsigned char>(byte) & 15];
  }
  return text;
}

Frame::Kind KindOf(const v1::Frame& frame) {
  return frame.kind() == v1::Frame::PYTHON ? Frame::Kind::kPython : Frame::Kind::kNative;
}

Frame FrameOf(const v1::Stacks& stacks, const v1::Frame& f, Dictionary* dictionary) {
  Frame frame;
  frame.kind = KindOf(f);
  frame.module = dictionary->String(f.module());
  frame.name = dictionary->String(f.name());
  frame.address = f.address();
  frame.line = f.line();
  frame.build_id = Hex(f.build_id());
  if (f.file() != 0 && f.file() <= static_cast<uint32_t>(stacks.modules_size())) {
    const v1::Module& module = stacks.modules(static_cast<int>(f.file() - 1));
    frame.module = dictionary->String(module.path());
    frame.build_id = Hex(module.build_id());
  }
  return frame;
}

}  // namespace

void DeclareStacks(const v1::Stacks& stacks, Dictionary* dictionary) {
  std::vector<Frame> table;
  table.reserve(static_cast<size_t>(stacks.frames_size()));
  for (const v1::Frame& frame : stacks.frames()) {
    table.push_back(FrameOf(stacks, frame, dictionary));
  }
  for (int i = 0; i < std::min(stacks.id_size(), stacks.stack_size()); ++i) {
    if (dictionary->HasStack(stacks.id(i))) continue;
    const v1::Stack& stack = stacks.stack(i);
    bool is_cut =
        stack.truncated() || stack.frame_size() > kMaxFrames || stack.frames_size() > kMaxFrames;
    std::vector<Frame> frames;
    for (int k = 0; k < std::min(stack.frames_size(), kMaxFrames); ++k) {
      frames.push_back(FrameOf(stacks, stack.frames(k), dictionary));
    }
    for (int k = 0; k < std::min(stack.frame_size(), kMaxFrames); ++k) {
      const uint32_t index = stack.frame(k);
      index < table.size() ? frames.push_back(table[index]) : void(is_cut = true);
    }
    if (is_cut) {
      Frame word;  // no code, a word on the stack as a whole
      word.name = dictionary->OwnText("(frames missing)");
      frames.push_back(word);
    }
    dictionary->DeclareStack(stacks.id(i), std::move(frames));
  }
}

}  // namespace stepagent::model
