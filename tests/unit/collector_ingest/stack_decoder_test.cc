#include "collector/model/stack_decoder.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "batch.pb.h"

namespace stepagent::model {
namespace {

class StackDecoder : public ::testing::Test {
 protected:
  void SetUp() override {
    dictionary_.DeclareString(10, "/lib/libone.so");
    dictionary_.DeclareString(11, "/lib/libtwo.so");
    for (const uint32_t name : {10U, 11U}) {
      v1::Module* module = stacks_.add_modules();
      module->set_path(name);
      module->set_build_id(name == 10 ? "\x01\xab" : "");
    }
    AddFrame(0x100, 1);
    AddFrame(0x200, 2);
    AddFrame(0x7f00, 0);
  }
  void AddFrame(uint64_t address, uint32_t file) {
    v1::Frame* frame = stacks_.add_frames();
    frame->set_kind(v1::Frame::NATIVE);
    frame->set_address(address);
    frame->set_file(file);
  }
  v1::Stack* AddStack(uint32_t id, const std::vector<uint32_t>& frames) {
    stacks_.add_id(id);
    v1::Stack* stack = stacks_.add_stack();
    for (const uint32_t frame : frames) stack->add_frame(frame);
    return stack;
  }
  // "module+address" of each frame, or the name of one that has one.
  std::vector<std::string> Read(uint32_t id) {
    std::vector<std::string> texts;
    const int32_t index = dictionary_.StackIndex(id);
    if (index < 0) return {"no stack"};
    for (const Frame& frame : dictionary_.stacks()[static_cast<size_t>(index)]) {
      texts.push_back(frame.name != 0 ? dictionary_.strings()[frame.name]
                                      : dictionary_.strings()[frame.module] + "+" +
                                            std::to_string(frame.address));
    }
    return texts;
  }

  v1::Stacks stacks_;
  Dictionary dictionary_;
};
using Texts = std::vector<std::string>;

TEST_F(StackDecoder, FramesAreReferredTo) {
  AddStack(7, {1, 0});
  AddStack(8, {0, 0, 2});
  DeclareStacks(stacks_, &dictionary_);
  EXPECT_EQ(Read(7), (Texts{"/lib/libtwo.so+512", "/lib/libone.so+256"}));
  EXPECT_EQ(Read(8), (Texts{"/lib/libone.so+256", "/lib/libone.so+256", "+32512"}));
  const Frame& frame = dictionary_.stacks()[0][1];
  EXPECT_EQ(frame.build_id, "01ab");
  EXPECT_EQ(dictionary_.stacks()[0][0].build_id, "");
  EXPECT_EQ(frame.kind, Frame::Kind::kNative);
}

TEST_F(StackDecoder, SpelledOutFramesAreReadToo) {
  stacks_.add_id(9);
  v1::Frame* frame = stacks_.add_stack()->add_frames();
  frame->set_kind(v1::Frame::PYTHON);
  frame->set_name(11);
  frame->set_line(5);
  DeclareStacks(stacks_, &dictionary_);
  EXPECT_EQ(Read(9), (Texts{"/lib/libtwo.so"}));
  EXPECT_EQ(dictionary_.stacks()[0][0].kind, Frame::Kind::kPython);
  EXPECT_EQ(dictionary_.stacks()[0][0].line, 5U);
}

TEST_F(StackDecoder, MissingFramesAreSaid) {
  AddStack(7, {0})->set_truncated(true);
  AddStack(8, {0, 99});  // no such frame
  DeclareStacks(stacks_, &dictionary_);
  EXPECT_EQ(Read(7), (Texts{"/lib/libone.so+256", "(frames missing)"}));
  EXPECT_EQ(Read(8), (Texts{"/lib/libone.so+256", "(frames missing)"}));
}

TEST_F(StackDecoder, ReservedIdsAreWords) {
  EXPECT_EQ(Read(0), Texts{"no stack"});
  EXPECT_EQ(Read(1), Texts{"(stack table full)"});
  EXPECT_EQ(Read(2), Texts{"(stack not taken)"});
  EXPECT_EQ(Read(3), Texts{"no stack"});
}

TEST_F(StackDecoder, ADeclarationIsTakenOnce) {
  AddStack(7, {0});
  DeclareStacks(stacks_, &dictionary_);
  stacks_.mutable_stack(0)->set_frame(0, 1);
  DeclareStacks(stacks_, &dictionary_);
  EXPECT_EQ(dictionary_.stacks().size(), 1U);
  EXPECT_EQ(Read(7), Texts{"/lib/libone.so+256"});
}

TEST_F(StackDecoder, HostileSizesAreBounded) {
  v1::Stack* stack = AddStack(7, std::vector<uint32_t>(100'000, 0));
  stack->set_truncated(false);
  stacks_.add_id(8);  // an id without a stack
  stacks_.mutable_frames(0)->set_file(77);
  stacks_.mutable_modules(0)->set_build_id(std::string(100'000, 'x'));
  DeclareStacks(stacks_, &dictionary_);
  EXPECT_LE(Read(7).size(), 1025U);
  EXPECT_EQ(Read(7).back(), "(frames missing)");
  EXPECT_EQ(Read(8), Texts{"no stack"});
}

}  // namespace
}  // namespace stepagent::model
