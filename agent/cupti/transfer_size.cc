#include "agent/cupti/transfer_size.h"

namespace stepagent::cupti {
namespace {

struct Layout {
  std::string_view base;  // the name without suffixes
  bool needs_v2;          // the first version counts in 32 bits
  TransferSize size;
};
// One parameter takes eight bytes, whatever its type: dst, value or src, size; pitches between.
constexpr Layout kLayouts[] = {
    {"cudaMemset", false, {16, 0}},
    {"cudaMemsetAsync", false, {16, 0}},
    {"cudaMemset2D", false, {24, 32}},
    {"cudaMemset2DAsync", false, {24, 32}},
    {"cudaMemcpy", false, {16, 0}},
    {"cudaMemcpyAsync", false, {16, 0}},
    {"cudaMemcpy2D", false, {32, 40}},
    {"cudaMemcpy2DAsync", false, {32, 40}},
    {"cudaMemcpyPeer", false, {32, 0}},
    {"cudaMemcpyPeerAsync", false, {32, 0}},
    {"cudaMemcpyToSymbol", false, {16, 0}},
    {"cudaMemcpyToSymbolAsync", false, {16, 0}},
    {"cudaMemcpyFromSymbol", false, {16, 0}},
    {"cudaMemcpyFromSymbolAsync", false, {16, 0}},
    {"cuMemsetD8", true, {16, 0}},
    {"cuMemsetD16", true, {16, 0}},
    {"cuMemsetD32", true, {16, 0}},
    {"cuMemsetD8Async", false, {16, 0}},
    {"cuMemsetD16Async", false, {16, 0}},
    {"cuMemsetD32Async", false, {16, 0}},
    {"cuMemsetD2D8", true, {24, 32}},
    {"cuMemsetD2D16", true, {24, 32}},
    {"cuMemsetD2D32", true, {24, 32}},
    {"cuMemsetD2D8Async", false, {24, 32}},
    {"cuMemsetD2D16Async", false, {24, 32}},
    {"cuMemsetD2D32Async", false, {24, 32}},
    {"cuMemcpy", false, {16, 0}},
    {"cuMemcpyAsync", false, {16, 0}},
    {"cuMemcpyHtoD", true, {16, 0}},
    {"cuMemcpyDtoH", true, {16, 0}},
    {"cuMemcpyDtoD", true, {16, 0}},
    {"cuMemcpyHtoDAsync", true, {16, 0}},
    {"cuMemcpyDtoHAsync", true, {16, 0}},
    {"cuMemcpyDtoDAsync", true, {16, 0}},
    {"cuMemcpyPeer", false, {32, 0}},
    {"cuMemcpyPeerAsync", false, {32, 0}},
};

}  // namespace

TransferSize TransferSizeOf(std::string_view name) {
  const std::string_view base = name.substr(0, name.find('_'));
  const std::string_view suffixes = name.substr(base.size());
  for (const Layout& layout : kLayouts) {
    if (layout.base != base) continue;
    const bool is_v2 = suffixes.starts_with("_v2") && !suffixes.substr(3).starts_with('0');
    return layout.needs_v2 && !is_v2 ? TransferSize{} : layout.size;
  }
  return {};
}

}  // namespace stepagent::cupti
