// Runs a fuzz target without libFuzzer: files named on the command line, else random inputs for a
// bounded time. No coverage guidance: it keeps the target built and its invariants checked
// anywhere.
//
// Threads: one. Failure: the target aborts; the seed printed first reproduces the run.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes);

namespace {

int RunFile(const char* path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::fprintf(stderr, "cannot read %s\n", path);
    return 2;
  }
  const std::string content((std::istreambuf_iterator<char>(file)),
                            std::istreambuf_iterator<char>());
  return LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(content.data()), content.size());
}

// Mostly zeros with some noise: dense random bytes are refused at the first field.
void FillRandomly(std::vector<uint8_t>* input, std::mt19937_64* random) {
  const uint64_t density = (*random)() % 4;
  for (uint8_t& byte : *input) {
    byte = (*random)() % 4 <= density ? static_cast<uint8_t>((*random)()) : 0;
  }
}

int RunRandomly(unsigned seconds, size_t max_bytes, uint64_t seed) {
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  std::mt19937_64 random(seed);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  uint64_t runs = 0;
  while (std::chrono::steady_clock::now() < end) {
    std::vector<uint8_t> input(random() % (max_bytes + 1));
    FillRandomly(&input, &random);
    (void)LLVMFuzzerTestOneInput(input.data(), input.size());
    ++runs;
  }
  std::printf("%llu inputs\n", static_cast<unsigned long long>(runs));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  unsigned seconds = 2;
  size_t max_bytes = 4096;
  uint64_t seed = std::random_device()();
  for (int i = 1; i < argc; ++i) {
    const bool has_value = i + 1 < argc;
    if (has_value && std::strcmp(argv[i], "--seconds") == 0) {
      seconds = static_cast<unsigned>(std::strtoul(argv[++i], nullptr, 10));
    } else if (has_value && std::strcmp(argv[i], "--max-bytes") == 0) {
      max_bytes = std::strtoull(argv[++i], nullptr, 10);
    } else if (has_value && std::strcmp(argv[i], "--seed") == 0) {
      seed = std::strtoull(argv[++i], nullptr, 10);
    } else {
      return RunFile(argv[i]);
    }
  }
  return RunRandomly(seconds, max_bytes, seed);
}
