// What is recorded: kinds, texts, domains, categories, colours, ids.
#include <thread>

#include "tests/unit/agent_nvtx/nvtx_fixture.h"

namespace stepagent::nvtx {
namespace {

using core::RecordKind;

TEST_F(NvtxTest, NothingIsRecordedWhileIdle) {
  StepOn("step");
  nvtxMarkA("mark");
  nvtxRangePushA("range");
  nvtxRangePop();
  nvtxRangeEnd(nvtxRangeStartA("async"));
  EXPECT_TRUE(Take().empty());
}

TEST_F(NvtxTest, RecordsPushAndPop) {
  RecordAll();
  nvtxRangePushA("outer");
  nvtxRangePushW(L"innér €");
  nvtxRangePop();
  nvtxRangePop();
  const auto seen = Take();
  ASSERT_EQ(seen.size(), 4U);
  EXPECT_EQ(seen[0].kind, RecordKind::kRangePush);
  EXPECT_EQ(seen[0].text, "outer");
  EXPECT_EQ(seen[0].range_id, 0U);
  EXPECT_EQ(seen[1].text, "innér €");
  EXPECT_EQ(seen[1].range_id, 1U);
  EXPECT_EQ(seen[2].kind, RecordKind::kRangePop);
  EXPECT_EQ(seen[2].range_id, 1U);
  EXPECT_EQ(seen[3].range_id, 0U);
}

TEST_F(NvtxTest, RecordsMarksOfEveryKind) {
  RecordAll();
  const nvtxDomainHandle_t domain = nvtxDomainCreateW(L"märks");
  nvtxMarkA("a");
  nvtxMarkW(L"w");
  nvtxEventAttributes_t event = Ascii("x");
  event.category = 5;
  event.colorType = NVTX_COLOR_ARGB;
  event.color = 0xFF00FF00;
  nvtxMarkEx(&event);
  event = Registered(nvtxDomainRegisterStringA(domain, "registered"));
  nvtxDomainMarkEx(domain, &event);
  nvtxMarkEx(nullptr);
  nvtxMarkA(nullptr);
  const auto seen = Take();
  ASSERT_EQ(seen.size(), 6U);
  for (const Seen& mark : seen) EXPECT_EQ(mark.kind, RecordKind::kMark);
  EXPECT_EQ(seen[0].text, "a");
  EXPECT_EQ(seen[1].text, "w");
  EXPECT_EQ(seen[2].text, "x");
  EXPECT_EQ(seen[2].category, 5U);
  EXPECT_EQ(seen[2].color, 0xFF00FF00U);
  EXPECT_EQ(seen[3].text, "registered");
  EXPECT_EQ(seen[3].domain, "märks");
  EXPECT_EQ(seen[4].text, "");
  EXPECT_EQ(seen[5].text, "");
}

TEST_F(NvtxTest, AttributesAreReadByTheirOwnSize) {
  RecordAll();
  nvtxEventAttributes_t event = Ascii("text");
  event.category = 7;
  event.colorType = NVTX_COLOR_ARGB;
  event.color = 0x11223344;
  for (uint16_t size : {0, 4, 8, 16, 24, 40, 47, 48, 64, 65535}) {
    event.size = size;
    nvtxMarkEx(&event);
  }
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  event.version = 0;
  nvtxMarkEx(&event);
  event.version = 1;
  nvtxMarkEx(&event);
  event.version = NVTX_VERSION;
  event.messageType = 77;
  nvtxMarkEx(&event);
  const auto seen = Take();
  ASSERT_EQ(seen.size(), 13U);
  const bool has_category[] = {false, false, true, true,  true, true, true,
                               true,  true,  true, false, true, true};
  const bool has_color[] = {false, false, false, true,  true, true, true,
                            true,  true,  true,  false, true, true};
  const bool has_text[] = {false, false, false, false, false, false, false,
                           true,  true,  true,  false, true,  false};
  for (size_t i = 0; i < seen.size(); ++i) {
    EXPECT_EQ(seen[i].category, has_category[i] ? 7U : 0U) << i;
    EXPECT_EQ(seen[i].color, has_color[i] ? 0x11223344U : 0U) << i;
    EXPECT_EQ(seen[i].text, has_text[i] ? "text" : "") << i;
  }
}

TEST_F(NvtxTest, StartAndEndArePairedByIdAcrossThreads) {
  RecordAll();
  nvtxRangeId_t first = 0, second = 0;
  std::thread([&] {
    first = nvtxRangeStartA("first");
    second = nvtxRangeStartW(L"second");
  }).join();
  EXPECT_NE(first, 0U);
  EXPECT_NE(first, second);
  nvtxRangeEnd(second);
  std::thread([&] { nvtxRangeEnd(first); }).join();
  const auto seen = Take();
  ASSERT_EQ(seen.size(), 4U);
  EXPECT_EQ(seen[0].kind, RecordKind::kRangeStart);
  EXPECT_EQ(seen[0].range_id, first);
  EXPECT_EQ(seen[2].kind, RecordKind::kRangeEnd);
  EXPECT_EQ(seen[2].range_id, second);
  EXPECT_EQ(seen[3].range_id, first);
  EXPECT_NE(seen[3].tid, seen[0].tid);
  EXPECT_EQ(counters().unmatched_ends, 0U);
}

TEST_F(NvtxTest, DoubleUnknownAndMadeUpEndsAreCounted) {
  RecordAll();
  const nvtxRangeId_t id = nvtxRangeStartA("once");
  nvtxRangeEnd(id);
  nvtxRangeEnd(id);
  nvtxRangeEnd(0);
  nvtxRangeEnd(id + 1);
  nvtxRangeEnd(12345);
  nvtxRangeEnd(UINT64_MAX);
  EXPECT_EQ(counters().unmatched_ends, 5U);
  EXPECT_EQ(Take().size(), 2U);
}

TEST_F(NvtxTest, TenThousandRangesEndedOnOtherThreads) {
  RecordAll();
  constexpr int kRanges = 10000, kEnders = 3, kBatch = 50;
  int expected_bad = 0;
  for (int begin = 0; begin < kRanges; begin += kBatch) {
    std::vector<nvtxRangeId_t> ids;
    for (int i = 0; i < kBatch; ++i) ids.push_back(nvtxRangeStartA("swapped"));
    std::vector<std::thread> enders;
    for (int e = 0; e < kEnders; ++e) {
      enders.emplace_back([&ids, e] {
        for (int i = e; i < kBatch; i += kEnders) {
          if (i % 10 == 9) continue;  // never ended
          nvtxRangeEnd(ids[i]);
          if (i % 10 == 8) nvtxRangeEnd(ids[i]);  // ended twice
        }
      });
    }
    for (std::thread& ender : enders) ender.join();
    expected_bad += kBatch / 10;
    if (begin % 1000 == 0) Take();
  }
  EXPECT_EQ(counters().unmatched_ends, static_cast<uint64_t>(expected_bad));
}

TEST_F(NvtxTest, OldOpenStartsAreTakenOnTrust) {
  const nvtxRangeId_t old = nvtxRangeStartA("old");
  for (int i = 0; i < 200; ++i) nvtxRangeEnd(nvtxRangeStartA("young"));
  nvtxRangeEnd(old);
  EXPECT_EQ(counters().unmatched_ends, 0U);
}

TEST_F(NvtxTest, TextIsKeyedByContentNotByPointer) {
  RecordAll();
  char buffer[32];
  for (int i = 0; i < 3; ++i) {
    std::snprintf(buffer, sizeof buffer, "layer%d", i);
    nvtxMarkA(buffer);
  }
  const auto seen = Take();
  ASSERT_EQ(seen.size(), 3U);
  EXPECT_EQ(seen[0].text, "layer0");
  EXPECT_EQ(seen[2].text, "layer2");
}

TEST_F(NvtxTest, ARegisteredStringMayBeUsedInAnotherDomain) {
  RecordAll();
  const nvtxDomainHandle_t a = nvtxDomainCreateA("A"), b = nvtxDomainCreateA("B");
  const nvtxStringHandle_t text = nvtxDomainRegisterStringW(a, L"of A");
  const nvtxEventAttributes_t event = Registered(text);
  nvtxDomainMarkEx(b, &event);
  nvtxMarkEx(&event);
  const auto seen = Take();
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_EQ(seen[0].text, "of A");
  EXPECT_EQ(seen[0].domain, "B");
  EXPECT_EQ(seen[1].domain, "");
}

TEST_F(NvtxTest, ForeignHandlesDoNoHarm) {
  RecordAll();
  int stranger = 0;
  const nvtxEventAttributes_t event = Registered(reinterpret_cast<nvtxStringHandle_t>(&stranger));
  nvtxMarkEx(&event);
  const auto domain = reinterpret_cast<nvtxDomainHandle_t>(&stranger);
  EXPECT_EQ(nvtxDomainRangePushEx(domain, &event), 0);
  EXPECT_EQ(nvtxDomainRangePop(domain), 0);
  EXPECT_EQ(Take()[0].text, "");
}

TEST_F(NvtxTest, MakingTheSameTwiceIsTheSame) {
  const nvtxDomainHandle_t domain = nvtxDomainCreateA("twice");
  EXPECT_EQ(nvtxDomainCreateW(L"twice"), domain);
  EXPECT_EQ(nvtxDomainRegisterStringA(domain, "s"), nvtxDomainRegisterStringW(domain, L"s"));
  nvtxDomainDestroy(domain);
  EXPECT_EQ(nvtxDomainRangePushEx(domain, nullptr), 0);  // another user's handle still works
  EXPECT_EQ(nvtxDomainRangePop(domain), 0);
  const nvtxDomainHandle_t empty = nvtxDomainCreateA("");
  EXPECT_NE(empty, nullptr);
  EXPECT_EQ(nvtxDomainRangePushEx(empty, nullptr), 0);
  EXPECT_EQ(nvtxRangePushA("default is another"), 0);
  EXPECT_EQ(nvtxRangePop(), 0);
  EXPECT_EQ(nvtxDomainRangePop(empty), 0);
}

TEST_F(NvtxTest, NamesOfThreadsAndCategoriesAreKept) {
  nvtxNameOsThreadA(4711, "loader");
  nvtxNameOsThreadW(4712, L"träger");
  nvtxNameCategoryA(3, "copies");
  const nvtxDomainHandle_t domain = nvtxDomainCreateA("named");
  nvtxDomainNameCategoryA(domain, 3, "other");
  nvtxDomainNameCategoryW(domain, 4, L"wide");
  const core::NameId id = core::NameTable::Intern(std::string_view("named"));
  EXPECT_EQ(core::NameTable::Text(ThreadName(4711)), "loader");
  EXPECT_EQ(core::NameTable::Text(ThreadName(4712)), "träger");
  EXPECT_EQ(ThreadName(4713), core::kNoName);
  EXPECT_EQ(core::NameTable::Text(CategoryName(0, 3)), "copies");
  EXPECT_EQ(core::NameTable::Text(CategoryName(id, 3)), "other");
  EXPECT_EQ(core::NameTable::Text(CategoryName(id, 4)), "wide");
  nvtxNameOsThreadA(4711, "renamed");
  EXPECT_EQ(core::NameTable::Text(ThreadName(4711)), "renamed");
  nvtxResourceAttributes_t attributes = {};
  const nvtxResourceHandle_t resource = nvtxDomainResourceCreate(domain, &attributes);
  EXPECT_NE(resource, nullptr);
  nvtxDomainResourceDestroy(resource);
  nvtxInitialize(nullptr);
}

TEST_F(NvtxTest, CountingGoesOnBySamplesThatAddUp) {
  StepOn("never");
  ArmActive(1);
  constexpr uint64_t kRounds = 100'000;
  std::thread([] {
    for (uint64_t i = 0; i < kRounds; ++i) {  // eight ranges a round: no distance may fall in step
      for (const char* name : {"a", "b", "a", "c", "a", "d", "a", "e"}) {
        nvtxRangePushA(name);
        nvtxRangePop();
      }
    }
  }).join();
  EXPECT_NEAR(static_cast<double>(counters().ranges_seen), 8.0 * kRounds, 96);
  SeenRange top[8];
  ASSERT_EQ(TopRanges(top, 8), 5U);
  EXPECT_EQ(core::NameTable::Text(top[0].name), "a");
  EXPECT_NEAR(static_cast<double>(top[0].count), 4.0 * kRounds, 0.05 * 4 * kRounds);
  EXPECT_NEAR(static_cast<double>(top[4].count), 1.0 * kRounds, 0.1 * kRounds);
}

TEST_F(NvtxTest, RegisteredStringsAreCountedApart) {
  StepOn("never");
  ArmActive(1);
  const nvtxDomainHandle_t domain = nvtxDomainCreateA("D");
  nvtxEventAttributes_t event = Ascii("same");
  nvtxDomainRangePushEx(domain, &event);
  nvtxDomainRangePop(domain);
  event.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  event.message.registered = nvtxDomainRegisterStringA(domain, "same");
  for (int i = 0; i < 3; ++i) nvtxDomainRangePushEx(domain, &event);
  for (int i = 0; i < 3; ++i) nvtxDomainRangePop(domain);
  SeenRange top[4];
  ASSERT_EQ(TopRanges(top, 4), 2U);
  EXPECT_TRUE(top[0].is_registered);
  EXPECT_EQ(top[0].count, 3U);
  EXPECT_FALSE(top[1].is_registered);
  EXPECT_EQ(top[1].count, 1U);
  for (const SeenRange& row : {top[0], top[1]}) {
    EXPECT_EQ(core::NameTable::Text(row.name), "same");
    EXPECT_EQ(core::NameTable::Text(row.domain), "D");
  }
}

TEST_F(NvtxTest, TopRangesAreSortedByCount) {
  StepOn("never");
  ArmActive(1);
  const nvtxDomainHandle_t domain = nvtxDomainCreateA("D");
  for (int i = 0; i < 7; ++i) {
    nvtxRangePushA(i % 2 == 0 ? "even" : "odd");
    nvtxRangePop();
  }
  const nvtxEventAttributes_t event = Ascii("even");
  for (int i = 0; i < 5; ++i) nvtxDomainRangePushEx(domain, &event);
  for (int i = 0; i < 5; ++i) nvtxDomainRangePop(domain);
  nvtxRangeEnd(nvtxRangeStartA("async"));
  SeenRange top[3];
  ASSERT_EQ(TopRanges(top, 3), 3U);
  EXPECT_EQ(core::NameTable::Text(top[0].name), "even");
  EXPECT_EQ(core::NameTable::Text(top[0].domain), "D");
  EXPECT_EQ(top[0].count, 5U);
  EXPECT_EQ(top[1].count, 4U);
  EXPECT_EQ(core::NameTable::Text(top[2].name), "odd");
  EXPECT_EQ(counters().ranges_seen, 13U);
  SeenRange all[16];
  EXPECT_EQ(TopRanges(all, 16), 4U);
  EXPECT_EQ(TopRanges(all, 0), 0U);
  EXPECT_TRUE(Take().empty());  // counting is not recording
}

}  // namespace
}  // namespace stepagent::nvtx
