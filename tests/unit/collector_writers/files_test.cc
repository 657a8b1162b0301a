// Output files, gzip, SHA-256, JSON text, row placement: the parts under every writer.
#include <random>
#include <string>

#include "collector/writers/json_text.h"
#include "collector/writers/kineto_names.h"
#include "collector/writers/occupancy.h"
#include "collector/writers/output_file.h"
#include "collector/writers/row_walk.h"
#include "collector/writers/sha256.h"
#include "tests/unit/collector_writers/support.h"

namespace stepagent::writers {
namespace {

using ::stepagent::testing::Folder;
using ::stepagent::testing::Gunzip;
using ::stepagent::testing::ReadFile;

std::string Digest(std::string_view text, size_t piece) {
  Sha256 hash;
  for (size_t at = 0; at < text.size(); at += piece) hash.Update(text.substr(at, piece));
  return hash.HexDigest();
}

// The examples of FIPS 180-4.
TEST(Sha256, KnownDigests) {
  EXPECT_EQ(Digest("", 1), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Digest("abc", 1), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  const std::string million(1'000'000, 'a');
  for (const size_t piece : {size_t{1}, size_t{63}, size_t{64}, size_t{65}, million.size()}) {
    EXPECT_EQ(Digest(million, piece),
              "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  }
}

TEST(OutputFile, AppearsOnlyWhenWhole) {
  const Folder folder;
  {
    OutputFile file(folder / "a.txt", Compression::kNone);
    file.Write("half");
    EXPECT_FALSE(std::filesystem::exists(folder / "a.txt"));
  }
  EXPECT_EQ(folder.FileCount(), 0U);
  OutputFile file(folder / "a.txt", Compression::kNone);
  file.Write("abc");
  ASSERT_TRUE(file.Commit()) << file.error();
  EXPECT_EQ(ReadFile(folder / "a.txt"), "abc");
  EXPECT_EQ(file.bytes(), 3U);
  EXPECT_EQ(file.sha256(), Digest("abc", 3));
}

TEST(OutputFile, NeverReplaces) {
  const Folder folder;
  EXPECT_EQ(WriteWholeFile(folder / "a", "first", nullptr, nullptr), "");
  const std::string error = WriteWholeFile(folder / "a", "second", nullptr, nullptr);
  EXPECT_NE(error.find(folder / "a"), std::string::npos);
  EXPECT_NE(error.find("File exists"), std::string::npos);
  EXPECT_EQ(ReadFile(folder / "a"), "first");
  EXPECT_EQ(folder.FileCount(), 1U);
}

TEST(OutputFile, SaysPathAndReason) {
  const Folder folder;
  OutputFile file(folder / "no/such/a", Compression::kGzip);
  file.Write("x");
  EXPECT_FALSE(file.Commit());
  EXPECT_EQ(file.error(), (folder / "no/such/a") + ": create: No such file or directory");
}

TEST(OutputFile, GzipIsOneMemberOfAnySize) {
  std::mt19937_64 random(7);
  for (const size_t size : {size_t{0}, size_t{1}, size_t{1} << 20, (size_t{5} << 20) + 12345}) {
    const Folder folder;
    std::string text(size, ' ');
    for (char& c : text) c = static_cast<char>('a' + random() % 20);
    OutputFile file(folder / "a.gz", Compression::kGzip);
    for (size_t at = 0; at < size; at += 70'001)
      file.Write(std::string_view(text).substr(at, 70'001));
    ASSERT_TRUE(file.Commit()) << file.error();
    EXPECT_EQ(Gunzip(ReadFile(folder / "a.gz")), text);
    EXPECT_EQ(file.bytes(), std::filesystem::file_size(folder / "a.gz"));
  }
}

// Any bytes become a string that a strict parser takes, unchanged where they were valid UTF-8.
TEST(JsonText, AnyBytesRoundTrip) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes(random() % 12, ' ');
    for (char& c : bytes) c = static_cast<char>(random());
    const std::string parsed = nlohmann::json::parse(JsonString(bytes)).get<std::string>();
    EXPECT_EQ(parsed, ValidUtf8(bytes));
  }
  for (const std::string_view good :
       {"plain", "\xc3\xa9", "\xe2\x80\xa8", "\xf0\x9f\x9a\x80", "\"\\/\b\f\n"}) {
    EXPECT_EQ(nlohmann::json::parse(JsonString(good)).get<std::string>(), good);
  }
  EXPECT_EQ(ValidUtf8("\xed\xa0\x80"), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");  // a surrogate
  EXPECT_EQ(ValidUtf8("\xf0\x9f"), "\xef\xbf\xbd\xef\xbf\xbd");                  // cut short
}

TEST(KinetoNames, SuffixesAndSteps) {
  EXPECT_EQ(WithoutVersionSuffix("cudaLaunchKernel_v7000"), "cudaLaunchKernel");
  EXPECT_EQ(WithoutVersionSuffix("cudaMemcpyAsync_ptsz_v7000"), "cudaMemcpyAsync_ptsz");
  EXPECT_EQ(WithoutVersionSuffix("cuMemAlloc_v2"), "cuMemAlloc_v2");
  EXPECT_EQ(WithoutVersionSuffix("cudaX_v12a4"), "cudaX_v12a4");
  EXPECT_EQ(ProfilerStepNumber("ProfilerStep#12"), 12U);
  EXPECT_FALSE(ProfilerStepNumber("ProfilerStep#"));
  EXPECT_FALSE(ProfilerStepNumber("ProfilerStep#1x"));
  EXPECT_FALSE(ProfilerStepNumber("xProfilerStep#1"));
  EXPECT_FALSE(ProfilerStepNumber("ProfilerStep#-1"));
  EXPECT_EQ(CopyKindName(200), "Unknown");
}

// An H100-like device; the figures by hand from the programming guide's rules.
TEST(Occupancy, FollowsTheDeviceOrIsAbsent) {
  model::DeviceInfo d;
  d.multiprocessors = 132, d.warp_size = 32, d.compute_major = 9;
  d.max_threads_per_multiprocessor = 2048, d.registers_per_multiprocessor = 65536;
  d.shared_per_multiprocessor = 233472;
  model::Shape shape;
  shape.grid = {1320, 1, 1}, shape.block = {256, 1, 1}, shape.registers_per_thread = 64;
  // 64 registers: 2048 a warp, 32 warps a multiprocessor, 4 blocks of 8 warps: 50 %.
  EXPECT_EQ(ComputeLaunchFigures(shape, &d).occupancy_percent, 50);
  EXPECT_EQ(ComputeLaunchFigures(shape, &d).blocks_per_sm, 10.0);
  shape.dynamic_shared_bytes = 100 * 1024;  // 101 KiB with the system's share: 2 blocks
  EXPECT_EQ(ComputeLaunchFigures(shape, &d).occupancy_percent, 25);
  d.compute_major = 99;  // limits not known
  EXPECT_FALSE(ComputeLaunchFigures(shape, &d).occupancy_percent);
  EXPECT_TRUE(ComputeLaunchFigures(shape, &d).warps_per_sm);
  EXPECT_FALSE(ComputeLaunchFigures(shape, nullptr).blocks_per_sm);
}

struct Span {
  int64_t begin_ns, end_ns;
};

// Random intervals: on no lane of a row do two overlap partly, and exclusive ones not at all.
TEST(RowWalk, NothingOverlapsPartly) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 400; ++round) {
    std::vector<Span> fixed, movable, work;
    const auto fill = [&](std::vector<Span>& spans, int64_t longest) {
      for (size_t i = 0; i < 40; ++i) {
        const auto begin = static_cast<int64_t>(random() % 200);
        spans.push_back(
            {begin, begin + static_cast<int64_t>(random() % static_cast<uint64_t>(longest))});
      }
    };
    fill(fixed, 60), fill(movable, 90), fill(work, 6);
    RowWalk walk;
    walk.Add(movable, 0, [](const Span&, RowItem* item) { return item->is_movable = true; });
    walk.Add(fixed, 1, [](const Span&, RowItem*) { return true; });
    walk.Add(work, 2, [](const Span&, RowItem* item) { return item->is_exclusive = true; });
    walk.Prepare();
    std::vector<std::pair<RowItem, uint32_t>> placed;
    walk.Walk([&](const RowItem& item, uint32_t lane) { placed.emplace_back(item, lane); });
    ASSERT_EQ(placed.size(), 120U);
    for (size_t i = 0; i < placed.size(); ++i) {
      for (size_t j = i + 1; j < placed.size(); ++j) {
        const auto& [a, lane_a] = placed[i];
        const auto& [b, lane_b] = placed[j];
        ASSERT_LE(a.begin_ns, b.begin_ns);
        if (lane_a != lane_b) continue;
        const bool disjoint = a.end_ns <= b.begin_ns;
        const bool nested = b.end_ns <= a.end_ns;
        ASSERT_TRUE(disjoint || nested);
        const bool both_work = a.is_exclusive && b.is_exclusive;
        ASSERT_TRUE(!both_work || disjoint);
      }
    }
  }
}

// What nests stays on its row: a walk over nested calls uses one lane only.
TEST(RowWalk, NestedIntervalsShareTheRow) {
  const std::vector<Span> spans = {{0, 100}, {10, 20}, {10, 15}, {20, 30}, {30, 30}, {40, 100}};
  const std::vector<Span> crossing = {{50, 120}};
  RowWalk walk;
  walk.Add(spans, 0, [](const Span&, RowItem*) { return true; });
  walk.Add(crossing, 1, [](const Span&, RowItem* item) { return item->is_movable = true; });
  walk.Prepare();
  walk.Walk([](const RowItem& item, uint32_t lane) { EXPECT_EQ(lane, item.is_movable ? 1U : 0U); });
}

}  // namespace
}  // namespace stepagent::writers
