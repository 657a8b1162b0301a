#include "collector/symbols/symbolize.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <link.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "collector/symbols/elf_symbols.h"

namespace stepagent::symbols {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

// Where the sample called back from: in Hidden, in what was inlined there.
uintptr_t g_called_from = 0;
void Callback() { g_called_from = reinterpret_cast<uintptr_t>(__builtin_return_address(0)); }

struct Sample {
  std::string path, build_id;
  uint64_t address = 0;  // within the file
};

Sample LoadSample(const char* path) {
  Sample sample;
  sample.path = path;
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(library, nullptr) << dlerror();
  if (library == nullptr) return sample;
  const auto entry = reinterpret_cast<void (*)(void (*)())>(dlsym(library, "sample_entry"));
  entry(Callback);
  const link_map* map = nullptr;
  EXPECT_EQ(dlinfo(library, RTLD_DI_LINKMAP, &map), 0);
  sample.address = g_called_from - map->l_addr;
  sample.build_id = ElfFile::Open(path)->BuildId();
  EXPECT_EQ(sample.build_id.size(), 40U);
  return sample;
}

// A cycle of one launch, whose stack is one frame.
model::Cycle CycleOf(const Sample& sample) {
  model::Cycle cycle;
  const auto intern = [&cycle](const std::string& text) {
    cycle.strings.push_back(text);
    return static_cast<model::StringId>(cycle.strings.size() - 1);
  };
  model::Frame frame;
  frame.module = intern(sample.path);
  frame.build_id = sample.build_id;
  frame.address = sample.address;
  cycle.stacks.push_back({frame});
  model::Call call;
  call.stack = 0;
  cycle.calls.push_back(call);
  return cycle;
}

std::vector<std::string> Names(const model::Cycle& cycle) {
  std::vector<std::string> names;
  for (const model::Frame& frame : cycle.stacks[0]) names.emplace_back(cycle.Text(frame.name));
  return names;
}

TEST(Symbolize, InlinedFunctionsAreFrames) {
  model::Cycle cycle = CycleOf(LoadSample(STEPAGENT_SAMPLE_DEBUG));
  Symbolize(&cycle);
  EXPECT_THAT(Names(cycle), ElementsAre("void sample::Inlined<void (*)()>(void (*)())",
                                        "sample::Hidden(void (*)())"));
  const std::vector<model::Frame>& stack = cycle.stacks[0];
  // The call of the callback, then the line that it was inlined at.
  EXPECT_EQ(stack[0].line, 8U);
  EXPECT_EQ(stack[1].line, 13U);
  for (const model::Frame& frame : stack) {
    EXPECT_EQ(frame.address, stack[0].address);
    EXPECT_THAT(std::string(cycle.Text(frame.source)), EndsWith("symbols_sample.cc"));
  }
  EXPECT_TRUE(cycle.notes.empty());
}

TEST(Symbolize, TheSymbolTableWhereThereIsNoDebugInformation) {
  model::Cycle cycle = CycleOf(LoadSample(STEPAGENT_SAMPLE_TABLE));
  Symbolize(&cycle);
  EXPECT_THAT(Names(cycle), ElementsAre("sample::Hidden(void (*)())"));
  EXPECT_EQ(cycle.stacks[0][0].line, 0U);
  EXPECT_EQ(cycle.stacks[0][0].source, 0U);
}

// A hidden function of a stripped library is not given the name of an exported one nearby.
TEST(Symbolize, NoNameWhereThereIsNone) {
  const Sample sample = LoadSample(STEPAGENT_SAMPLE_STRIPPED);
  model::Cycle cycle = CycleOf(sample);
  Symbolize(&cycle);
  EXPECT_THAT(Names(cycle), ElementsAre(""));
  EXPECT_EQ(cycle.stacks[0][0].address, sample.address);
  EXPECT_TRUE(cycle.notes.empty());  // the file is there, it has no such name
}

TEST(Symbolize, AnotherBuildGivesNoNames) {
  Sample sample = LoadSample(STEPAGENT_SAMPLE_DEBUG);
  sample.build_id[0] = sample.build_id[0] == '0' ? '1' : '0';
  model::Cycle cycle = CycleOf(sample);
  Symbolize(&cycle);
  EXPECT_THAT(Names(cycle), ElementsAre(""));
  ASSERT_EQ(cycle.notes.size(), 1U);
  EXPECT_EQ(cycle.notes[0].code, "symbols_mismatched");
  EXPECT_THAT(cycle.notes[0].text, HasSubstr("symbols_sample_debug.so"));
}

TEST(Symbolize, WithoutABuildIdTheFileIsTakenAsItIs) {
  Sample sample = LoadSample(STEPAGENT_SAMPLE_TABLE);
  sample.build_id.clear();
  model::Cycle cycle = CycleOf(sample);
  Symbolize(&cycle);
  EXPECT_THAT(Names(cycle), ElementsAre("sample::Hidden(void (*)())"));
}

TEST(Symbolize, FilesThatAreNone) {
  char pattern[] = "/tmp/stepagent-symbols-XXXXXX";
  const int text = mkstemp(pattern);
  ASSERT_GE(text, 0);
  ASSERT_EQ(write(text, "no program\n", 11), 11);
  close(text);
  for (const char* path : {"/nowhere/libgone.so", "relative.so", "/dev/zero", "/tmp",
                           static_cast<const char*>(pattern)}) {
    SCOPED_TRACE(path);
    model::Cycle cycle = CycleOf({path, "0011", 0x1234});
    Symbolize(&cycle);
    EXPECT_THAT(Names(cycle), ElementsAre(""));
    ASSERT_EQ(cycle.notes.size(), 1U);
    EXPECT_EQ(cycle.notes[0].code, "symbols_missing");
  }
  unlink(pattern);
}

TEST(Symbolize, StacksNobodyUsesAreLeftAlone) {
  model::Cycle cycle = CycleOf(LoadSample(STEPAGENT_SAMPLE_DEBUG));
  cycle.calls[0].stack = model::kNoIndex;
  Symbolize(&cycle);
  EXPECT_THAT(Names(cycle), ElementsAre(""));
}

TEST(Symbolize, RedactionHoldsHereToo) {
  const Sample sample = LoadSample(STEPAGENT_SAMPLE_DEBUG);
  model::Cycle names = CycleOf(sample);
  names.session.redact = {"names"};
  Symbolize(&names);
  EXPECT_THAT(Names(names), ElementsAre(""));
  model::Cycle paths = CycleOf(sample);
  paths.session.redact = {"paths"};
  Symbolize(&paths);
  EXPECT_EQ(Names(paths).size(), 2U);
  for (const model::Frame& frame : paths.stacks[0]) EXPECT_EQ(frame.source, 0U);
}

TEST(Symbolize, TheSameInputGivesTheSameNames) {
  const Sample sample = LoadSample(STEPAGENT_SAMPLE_DEBUG);
  model::Cycle first = CycleOf(sample), second = CycleOf(sample);
  Symbolize(&first);
  Symbolize(&second);
  EXPECT_EQ(first.strings, second.strings);
  EXPECT_EQ(Names(first), Names(second));
}

}  // namespace
}  // namespace stepagent::symbols
