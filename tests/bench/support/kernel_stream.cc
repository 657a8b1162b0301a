#include "tests/bench/support/kernel_stream.h"

#include <algorithm>

namespace stepagent::bench {
namespace {

constexpr uint32_t kSequence = 1200;
constexpr std::array<uint32_t, 7> kBlocks = {128, 256, 384, 512, 1024, 64, 32};
constexpr std::array<uint32_t, 3> kStreams = {7, 20, 24};
// The shape of names: templates with arguments, a generated one, a collective.
constexpr std::array<const char*, 4> kNameForms = {
    "void elementwise_kernel<4, AddFunctor<float>, std::array<char*, 3ul> >(int, "
    "AddFunctor<float>, "
    "std::array<char*, 3ul>)",
    "sm90_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x256x64_warpgroupsize2x1x1_segment_k_off_"
    "kernel",
    "void attention_fwd_kernel<Attention_traits<128, 128, 64, 4, false, false, bfloat16> >(Params)",
    "fused_add_mul_layer_norm_kernel"};

}  // namespace

uint64_t KernelStream::Random() {
  state_ ^= state_ << 13;
  state_ ^= state_ >> 7;
  state_ ^= state_ << 17;
  return state_;
}

KernelStream::KernelStream() {
  for (uint32_t i = 0; i < kNames; ++i) {
    Shape shape{};
    shape.grid[0] = static_cast<uint32_t>(1 + Random() % 4096);
    shape.grid[1] = Random() % 3 != 0 ? 1 : static_cast<uint32_t>(1 + Random() % 64);
    shape.grid[2] = Random() % 8 != 0 ? 1 : static_cast<uint32_t>(1 + Random() % 32);
    shape.block = {kBlocks[Random() % kBlocks.size()], 1, 1};
    shape.registers = static_cast<uint32_t>(16 + 8 * (Random() % 30));
    shape.static_shared = Random() % 2 != 0 ? 0 : static_cast<uint32_t>(1024 * (Random() % 48));
    shape.dynamic_shared = Random() % 3 != 0 ? 0 : static_cast<uint32_t>(1024 * (Random() % 200));
    shape.duration_ns = static_cast<uint32_t>(2000 + Random() % 150000);
    shapes_.push_back(shape);
  }
  for (uint32_t i = 0; i < kSequence; ++i) {
    const auto one = static_cast<uint32_t>(Random() % kNames);
    const auto other = static_cast<uint32_t>(Random() % kNames);
    sequence_.push_back(std::min(one, other));  // few kernels are launched often, many seldom
  }
}

StreamedKernel KernelStream::Next() {
  const uint32_t name = sequence_[at_++ % kSequence];
  const Shape& shape = shapes_[name];
  now_ns_ += 2000 + Random() % 198000;
  const uint64_t pick = Random() % 10;
  const size_t lane = pick < 7 ? 0 : pick < 9 ? 1 : 2;
  uint64_t& last_end = last_end_[lane];
  StreamedKernel kernel{};
  kernel.start_ns = now_ns_ > last_end ? now_ns_ : last_end + 700 + Random() % 900;
  kernel.end_ns = last_end =
      kernel.start_ns + shape.duration_ns + Random() % (shape.duration_ns / 8);
  kernel.stream = kStreams[lane];
  correlation_ += static_cast<uint32_t>(1 + Random() % 12);
  kernel.correlation = correlation_;
  kernel.name = name;
  kernel.grid = shape.grid;
  kernel.block = shape.block;
  kernel.registers = shape.registers;
  kernel.static_shared = shape.static_shared;
  kernel.dynamic_shared = shape.dynamic_shared;
  return kernel;
}

std::string KernelStream::Name(uint32_t name) {
  return std::string(kNameForms[name % kNameForms.size()]) + "_" + std::to_string(name);
}

}  // namespace stepagent::bench
