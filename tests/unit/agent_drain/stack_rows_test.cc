#include "agent/drain/stack_rows.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "agent/core/clock.h"
#include "agent/core/name_table.h"
#include "agent/drain/batch_builder.h"
#include "agent/unwind/stack_capture.h"
#include "batch.pb.h"

namespace stepagent::drain {
namespace {

uintptr_t InLibc(const char* function) {
  // Of libc itself: a sanitizer has a qsort of its own.
  static void* const libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
  return reinterpret_cast<uintptr_t>(dlsym(libc, function)) + 8;
}

class StackRowsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    core::HostClock::Start();
    ASSERT_TRUE(core::NameTable::Init());
    ASSERT_TRUE(unwind::StackCapture::table().Map());
  }
  static uint32_t Put(const std::vector<uintptr_t>& frames, bool truncated = false) {
    return unwind::StackCapture::table().Intern(frames.data(), static_cast<uint32_t>(frames.size()),
                                                truncated);
  }
  void AddLaunch(uint32_t stack) {
    core::Record record{};
    record.kind = core::RecordKind::kCall;
    record.call_class = core::CallClass::kLaunch;
    record.name = core::NameTable::Intern("cuLaunchKernel");
    record.stack = stack;
    builder_.AddRecord(0, record);
  }
  v1::Batch Close() {
    const KindTotals totals[kActivityKinds] = {};
    v1::Batch batch;
    EXPECT_TRUE(batch.ParseFromString(builder_.Finish(0, 0, 0, totals, {})));
    return batch;
  }

  BatchBuilder builder_{BatchIdentity{"run", "session", "host", 0}};
};

std::string TextOf(const v1::Batch& batch, uint32_t id) {
  for (int i = 0; i < batch.strings().id_size(); ++i) {
    if (batch.strings().id(i) == id) return batch.strings().text(i);
  }
  return "not declared";
}

TEST_F(StackRowsTest, EveryBatchDeclaresWhatItUses) {
  const uintptr_t qsort = InLibc("qsort"), bsearch = InLibc("bsearch");
  const uint32_t first = Put({qsort, bsearch}), second = Put({bsearch, qsort, 0x1234}, true);
  for (int round = 0; round < 2; ++round) {
    SCOPED_TRACE(round);
    for (const uint32_t id : {first, second, first, first}) AddLaunch(id);
    const v1::Batch batch = Close();
    const v1::Stacks& stacks = batch.stacks();
    ASSERT_EQ(stacks.id_size(), 2);
    EXPECT_EQ(stacks.id(0), first);
    EXPECT_EQ(stacks.id(1), second);
    ASSERT_EQ(stacks.frames_size(), 3);  // each once
    EXPECT_EQ(std::vector<uint32_t>(stacks.stack(0).frame().begin(), stacks.stack(0).frame().end()),
              (std::vector<uint32_t>{0, 1}));
    EXPECT_EQ(std::vector<uint32_t>(stacks.stack(1).frame().begin(), stacks.stack(1).frame().end()),
              (std::vector<uint32_t>{1, 0, 2}));
    EXPECT_FALSE(stacks.stack(0).truncated());
    EXPECT_TRUE(stacks.stack(1).truncated());
    ASSERT_EQ(stacks.modules_size(), 1);
    EXPECT_NE(TextOf(batch, stacks.modules(0).path()).find("libc"), std::string::npos);
    EXPECT_EQ(stacks.modules(0).build_id().size(), 20U);
    EXPECT_EQ(stacks.frames(0).file(), 1U);
    EXPECT_EQ(stacks.frames(2).file(), 0U);  // in no file: as it was
    EXPECT_EQ(stacks.frames(2).address(), 0x1234U);
    EXPECT_EQ(stacks.frames(0).address() - stacks.frames(1).address(), qsort - bsearch);
    EXPECT_EQ(stacks.frames(0).kind(), v1::Frame::NATIVE);
    EXPECT_EQ(batch.calls().stack(1), second);
  }
}

TEST_F(StackRowsTest, WithoutStacksNothingIsThere) {
  AddLaunch(0);
  EXPECT_FALSE(Close().has_stacks());
}

TEST_F(StackRowsTest, ReservedAndUnknownIdsAreNotDeclared) {
  for (const uint32_t id : {1U, 2U, 900'000U, UINT32_MAX}) AddLaunch(id);
  const v1::Batch batch = Close();
  EXPECT_FALSE(batch.has_stacks());
  EXPECT_EQ(batch.calls().stack_size(), 4);
}

TEST_F(StackRowsTest, CountsTowardsTheSizeOfABatch) {
  const size_t before = builder_.approximate_bytes();
  std::vector<uintptr_t> frames;
  for (uintptr_t i = 0; i < 60; ++i) frames.push_back(InLibc("qsort") + 16 * i);
  AddLaunch(Put(frames));
  const size_t estimate = builder_.approximate_bytes() - before;
  EXPECT_GE(estimate, Close().stacks().ByteSizeLong());
}

}  // namespace
}  // namespace stepagent::drain
