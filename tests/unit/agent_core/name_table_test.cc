#include "agent/core/name_table.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace stepagent::core {
namespace {

class NameTableTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(NameTable::Init()); }
};

TEST_F(NameTableTest, KeysByContentNotByPointer) {
  char buffer[16] = "alpha";
  const NameId alpha = NameTable::Intern(std::string_view(buffer));
  std::strcpy(buffer, "beta");
  const NameId beta = NameTable::Intern(std::string_view(buffer));
  EXPECT_NE(alpha, beta);
  EXPECT_EQ(NameTable::Intern(std::string_view("alpha")), alpha);
  EXPECT_EQ(NameTable::Text(alpha), "alpha");
  EXPECT_EQ(NameTable::Text(beta), "beta");
}

TEST_F(NameTableTest, AReusedPointerIsReadAnew) {
  char buffer[8192];
  const std::string longest(5000, 'q');
  for (const std::string& text : {std::string("one"), std::string("two"), std::string("one"),
                                  std::string(""), longest, std::string("tw"), longest}) {
    std::strcpy(buffer, text.c_str());
    const NameId id = NameTable::InternText(buffer);
    EXPECT_EQ(id, NameTable::Intern(text));
    EXPECT_EQ(NameTable::InternText(buffer), id);
  }
  EXPECT_EQ(NameTable::InternText(nullptr), kNoName);
}

TEST_F(NameTableTest, NullIsNoNameAndEmptyIsOne) {
  EXPECT_NE(NameTable::Intern(std::string_view("a\0b", 3)), NameTable::InternText("a"));
  EXPECT_EQ(NameTable::Intern(nullptr, 0), kNoName);
  EXPECT_EQ(NameTable::InternWide(nullptr), kNoName);
  const NameId empty = NameTable::Intern(std::string_view(""));
  EXPECT_GT(empty, kOverflowNameId);
  EXPECT_EQ(NameTable::InternWide(L""), empty);
  EXPECT_EQ(NameTable::Text(kNoName), "");
  EXPECT_EQ(NameTable::Text(kOverflowNameId), "");
}

TEST_F(NameTableTest, EveryLengthStaysDistinct) {
  std::set<NameId> ids;
  std::string text;
  for (int length = 0; length < 200; ++length, text += static_cast<char>('a' + length % 26)) {
    ids.insert(NameTable::Intern(text));
    EXPECT_EQ(NameTable::Text(NameTable::Intern(text)), text);
  }
  EXPECT_EQ(ids.size(), 200U);
}

TEST_F(NameTableTest, WideTextEqualsItsUtf8) {
  EXPECT_EQ(NameTable::InternWide(L"step Ä € 𝄞"),
            NameTable::Intern(std::string_view("step Ä € 𝄞")));
  const wchar_t broken[] = {L'x', static_cast<wchar_t>(0xD800), static_cast<wchar_t>(0x7FFFFFFF),
                            0};
  EXPECT_EQ(NameTable::Text(NameTable::InternWide(broken)), "x\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST_F(NameTableTest, BytesThatAreNoUtf8AreKept) {
  const std::string raw("\xff\x01\"\\\n", 5);
  EXPECT_EQ(NameTable::Text(NameTable::Intern(raw)), raw);
}

TEST_F(NameTableTest, LongNamesAreCutAndStayDistinct) {
  const uint64_t before = NameTable::truncated();
  const std::string base(10000, 'n');
  const NameId a = NameTable::Intern(base + "a"), b = NameTable::Intern(base + "b");
  EXPECT_NE(a, b);
  EXPECT_EQ(NameTable::Intern(base + "a"), a);
  const std::string_view text = NameTable::Text(a);
  EXPECT_EQ(text.size(), 4096U);
  EXPECT_EQ(text.substr(0, 4076), base.substr(0, 4076));
  EXPECT_EQ(text.substr(4076, 4), "\xE2\x80\xA6#");
  EXPECT_EQ(NameTable::truncated(), before + 3);
  EXPECT_EQ(NameTable::Text(NameTable::Intern(std::string(4096, 'k'))), std::string(4096, 'k'));
}

TEST_F(NameTableTest, LongNamesAreCutBetweenCharacters) {
  std::string text;
  std::wstring wide;
  for (int i = 0; i < 3000; ++i) {
    text += "€";
    wide += L"€";
  }
  const NameId id = NameTable::Intern(text);
  EXPECT_EQ(NameTable::InternWide(wide.c_str()), id);
  const std::string_view cut = NameTable::Text(id);
  EXPECT_EQ(cut.substr(0, cut.size() - 20), text.substr(0, 4074));  // 1358 whole characters
}

TEST_F(NameTableTest, ThreadsAgreeOnIds) {
  constexpr int kThreads = 4, kNames = 2000;
  std::vector<std::vector<NameId>> ids(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&ids, t] {
      for (int i = 0; i < kNames; ++i) {
        ids[t].push_back(NameTable::Intern("shared_" + std::to_string((i * 7 + t * 13) % kNames)));
        NameTable::Count(ids[t].back());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int t = 0; t < kThreads; ++t) {
    for (int i = 0; i < kNames; ++i) {
      const std::string name = "shared_" + std::to_string((i * 7 + t * 13) % kNames);
      ASSERT_EQ(NameTable::Text(ids[t][i]), name);
      ASSERT_EQ(NameTable::Intern(name), ids[t][i]);
      ASSERT_EQ(NameTable::CountOf(ids[t][i]), uint64_t{kThreads});
    }
  }
}

// Last in this file: afterwards new names overflow.
TEST_F(NameTableTest, ZFullTableAnswersOverflowAndCounts) {
  const NameId known = NameTable::Intern(std::string_view("known before"));
  char text[16];
  NameId last = known;
  for (uint32_t i = 0; i < kMaxNames + 10; ++i) {
    last = NameTable::Intern(text, static_cast<size_t>(std::snprintf(text, sizeof text, "f%u", i)));
  }
  EXPECT_EQ(last, kOverflowNameId);
  EXPECT_GT(NameTable::overflowed(), 0U);
  EXPECT_EQ(NameTable::Intern(std::string_view("known before")), known);
  EXPECT_LE(NameTable::size(), kMaxNames);
}

}  // namespace
}  // namespace stepagent::core
