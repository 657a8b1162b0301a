// A file's text through the stream's threads: every byte, in order, the same for any number of
// them.
#include "collector/writers/block_stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <utility>

#include "tests/unit/collector_writers/support.h"

namespace stepagent::writers {
namespace {

using testing::Gunzip;

// Random enough that blocks differ, regular enough to be packed.
std::string Text(size_t bytes, unsigned seed) {
  std::mt19937_64 random(seed);
  std::string text(bytes, ' ');
  for (char& c : text) c = static_cast<char>('a' + random() % 20);
  return text;
}

// How the owner hands the text over: copied, or written where the stream says.
enum class Way : uint8_t { kAppend, kReserve };

std::string Through(Compression compression, unsigned threads, Way way, std::string_view text,
                    size_t piece) {
  std::string out;  // the sink's, and the owner's again after Finish
  BlockStream stream(compression, threads, [&out](std::string_view bytes) { out += bytes; });
  while (!text.empty()) {
    const size_t take = std::min(piece, text.size());
    if (way == Way::kAppend) {
      stream.Append(text.substr(0, take));
    } else {
      const BlockStream::Room room = stream.Reserve(take);
      EXPECT_GE(static_cast<size_t>(room.end - room.begin), take);
      std::memcpy(room.begin, text.data(), take);
      stream.Advance(take);
    }
    text.remove_prefix(take);
  }
  stream.Finish();
  return out;
}

TEST(BlockStream, PlainTextArrivesWhole) {
  for (const size_t size : {size_t{0}, size_t{1}, kPlainBlockBytes - 1, kPlainBlockBytes,
                            kPlainBlockBytes + 1, 9 * kPlainBlockBytes + 77}) {
    const std::string text = Text(size, 1);
    for (const Way way : {Way::kAppend, Way::kReserve}) {
      for (const size_t piece : {size_t{977}, size_t{300'000}, size_t{5} << 20}) {
        EXPECT_TRUE(Through(Compression::kNone, 1, way, text, piece) == text)
            << size << " " << piece;
      }
    }
  }
}

TEST(BlockStream, GzipIsTheSameForAnyThreadsAndPieces) {
  const std::string text = Text(5 * kGzipBlockBytes + 12'345, 2);
  const std::string one = Through(Compression::kGzip, 1, Way::kAppend, text, 70'001);
  EXPECT_TRUE(Gunzip(one) == text);
  for (const unsigned threads : {2U, 4U}) {
    for (const Way way : {Way::kAppend, Way::kReserve}) {
      for (const size_t piece : {size_t{977}, size_t{2} << 20}) {
        EXPECT_TRUE(Through(Compression::kGzip, threads, way, text, piece) == one)
            << threads << " " << piece;
      }
    }
  }
}

// Of one row larger than a block, and of text whose border falls within the last row.
TEST(BlockStream, RoomForARowOfAnySize) {
  const std::string text = Text(3 * kGzipBlockBytes, 3);
  EXPECT_TRUE(Gunzip(Through(Compression::kGzip, 2, Way::kReserve, text, text.size())) == text);
}

// An owner that gives up, as after an error, leaves no thread behind and nobody waiting.
TEST(BlockStream, EndsWithoutFinish) {
  std::string out;
  {
    BlockStream stream(Compression::kGzip, 4, [&out](std::string_view bytes) { out += bytes; });
    stream.Append(Text(6 * kGzipBlockBytes, 4));
  }
  EXPECT_GT(out.size(), kGzipBlockBytes);
}

}  // namespace
}  // namespace stepagent::writers
