// Runs a fuzz target without libFuzzer: a file named on the command line, else every file of
// --corpus and then random inputs and edited files of the corpus for a bounded time. No coverage
// guidance: it keeps the target built and its invariants checked anywhere.
//
// Threads: one. Failure: the target aborts; the seed printed first reproduces the run.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes);

namespace {

using Input = std::vector<uint8_t>;

bool ReadInput(const std::string& path, Input* input) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::fprintf(stderr, "cannot read %s\n", path.c_str());
    return false;
  }
  input->assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  return true;
}

int RunFile(const char* path) {
  Input input;
  return ReadInput(path, &input) ? LLVMFuzzerTestOneInput(input.data(), input.size()) : 2;
}

// Every file of the folder, each run once.
bool RunCorpus(const std::string& folder, std::vector<Input>* corpus) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    Input input;
    if (!ReadInput(entry.path().string(), &input)) return false;
    (void)LLVMFuzzerTestOneInput(input.data(), input.size());
    corpus->push_back(std::move(input));
  }
  if (error || corpus->empty()) {
    std::fprintf(stderr, "no corpus in %s\n", folder.c_str());
    return false;
  }
  std::printf("%zu of the corpus\n", corpus->size());
  return true;
}

// Mostly zeros with some noise: dense random bytes are refused at the first field.
void FillRandomly(Input* input, std::mt19937_64* random) {
  const uint64_t density = (*random)() % 4;
  for (uint8_t& byte : *input) {
    byte = (*random)() % 4 <= density ? static_cast<uint8_t>((*random)()) : 0;
  }
}

// One of the corpus with a few other bytes, and sometimes cut; its first byte says what it is and
// stays.
Input Edited(Input input, std::mt19937_64* random) {
  if (input.size() < 2) return input;
  if ((*random)() % 4 == 0) input.resize(2 + (*random)() % (input.size() - 1));
  for (uint64_t edits = (*random)() % 8 + 1; edits > 0; --edits) {
    uint8_t& byte = input[1 + (*random)() % (input.size() - 1)];
    byte = (*random)() % 2 == 0 ? static_cast<uint8_t>((*random)())
                                : static_cast<uint8_t>(byte ^ (1U << (*random)() % 8));
  }
  return input;
}

int RunRandomly(unsigned seconds, size_t max_bytes, uint64_t seed,
                const std::vector<Input>& corpus) {
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  std::mt19937_64 random(seed);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  uint64_t runs = 0;
  while (std::chrono::steady_clock::now() < end) {
    Input input;
    if (!corpus.empty() && runs % 2 == 0) {
      input = Edited(corpus[random() % corpus.size()], &random);
    } else {
      input.resize(random() % (max_bytes + 1));
      FillRandomly(&input, &random);
    }
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
  std::vector<Input> corpus;
  for (int i = 1; i < argc; ++i) {
    const bool has_value = i + 1 < argc;
    if (has_value && std::strcmp(argv[i], "--seconds") == 0) {
      seconds = static_cast<unsigned>(std::strtoul(argv[++i], nullptr, 10));
    } else if (has_value && std::strcmp(argv[i], "--max-bytes") == 0) {
      max_bytes = std::strtoull(argv[++i], nullptr, 10);
    } else if (has_value && std::strcmp(argv[i], "--seed") == 0) {
      seed = std::strtoull(argv[++i], nullptr, 10);
    } else if (has_value && std::strcmp(argv[i], "--corpus") == 0) {
      if (!RunCorpus(argv[++i], &corpus)) return 2;
    } else {
      return RunFile(argv[i]);
    }
  }
  return RunRandomly(seconds, max_bytes, seed, corpus);
}
