#include "agent/nvtx/glob.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

namespace stepagent::nvtx {
namespace {

struct Compiled {
  explicit Compiled(std::string_view pattern)
      : tables(Glob::TableBytes(pattern) / sizeof(uint64_t)) {
    glob.Compile(pattern, tables.data());
  }
  [[nodiscard]] bool Matches(const std::string& text) const {
    const bool by_view = glob.Matches(std::string_view(text));
    EXPECT_EQ(glob.Matches(text.c_str()), by_view);
    return by_view;
  }
  std::vector<uint64_t> tables;
  Glob glob;
};
bool Matches(std::string_view pattern, const std::string& text) {
  return Compiled(pattern).Matches(text);
}

// The plain definition, exponential in the worst case.
bool Oracle(const char* pattern, const char* text) {
  if (*pattern == '\0') return *text == '\0';
  if (*pattern == '*')
    return Oracle(pattern + 1, text) || (*text != '\0' && Oracle(pattern, text + 1));
  return *text != '\0' && (*pattern == '?' || *pattern == *text) && Oracle(pattern + 1, text + 1);
}

TEST(Glob, MeansTheWholeName) {
  EXPECT_TRUE(Matches("ProfilerStep#*", "ProfilerStep#12"));
  EXPECT_TRUE(Matches("ProfilerStep#*", "ProfilerStep#"));
  EXPECT_FALSE(Matches("ProfilerStep#*", "xProfilerStep#1"));
  EXPECT_FALSE(Matches("step", "step_one"));
  EXPECT_TRUE(Matches("*", ""));
  EXPECT_TRUE(Matches("", ""));
  EXPECT_FALSE(Matches("", "a"));
  EXPECT_TRUE(Matches("**a**", "bab"));
  EXPECT_FALSE(Matches("?", ""));
}

TEST(Glob, EqualsThePlainDefinition) {
  std::mt19937 random(7);
  for (int round = 0; round < 20000; ++round) {
    std::string pattern, text;
    for (unsigned i = random() % 7; i > 0; --i) pattern += "ab*?"[random() % 4];
    for (unsigned i = random() % 9; i > 0; --i) text += "ab"[random() % 2];
    ASSERT_EQ(Matches(pattern, text), Oracle(pattern.c_str(), text.c_str()))
        << pattern << " on " << text;
  }
}

TEST(Glob, LongPatternsCrossWords) {
  std::mt19937 random(8);
  for (int round = 0; round < 300; ++round) {
    std::string text, pattern;
    for (int i = 0; i < 300; ++i) text += static_cast<char>('a' + random() % 3);
    for (size_t i = 0; i < text.size(); ++i) {
      const unsigned kind = random() % 40;
      if (kind == 0) {
        pattern += '*';
        i += random() % 5;
      } else {
        pattern += kind == 1 ? '?' : text[i];
      }
    }
    ASSERT_EQ(Matches(pattern, text), Oracle(pattern.c_str(), text.c_str()));
  }
}

TEST(Glob, AQuestionMarkIsOneCharacter) {
  EXPECT_TRUE(Matches("a?b", "a€b"));
  EXPECT_TRUE(Matches("a?b", "aäb"));
  EXPECT_TRUE(Matches("??", "ä€"));
  EXPECT_FALSE(Matches("a?b", "a€€b"));
  EXPECT_FALSE(Matches("???", "ä€"));
}

TEST(Glob, HostilePatternsTakeLinearTime) {
  const std::string text(4096, 'a');
  std::string pattern;
  for (int i = 0; i < 60; ++i) pattern += "*a";
  const Compiled compiled(pattern + "b");
  for (int i = 0; i < 200; ++i) ASSERT_FALSE(compiled.Matches(text));  // 2^n elsewhere
}

TEST(Glob, TooLongAPatternNeverMatches) {
  const std::string longest(Glob::kMaxTokens, 'x');
  EXPECT_TRUE(Matches(longest, longest));
  EXPECT_EQ(Glob::TableBytes(longest + "x"), 0U);
  Glob glob;
  glob.Compile(longest + "x", nullptr);
  EXPECT_FALSE(glob.Matches(std::string_view(longest + "x")));
  EXPECT_FALSE(glob.Matches((longest + "x").c_str()));
}

}  // namespace
}  // namespace stepagent::nvtx
