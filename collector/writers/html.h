#pragma once
// The report as one page: report.html, self-contained, readable without any network.
//
// Purpose: summary, readings and a zoomable time line of one cycle in a file that can be mailed.
// The page's own parts are the files of collector/writers/html/, embedded at build time; a policy
// in the page allows exactly that script and that style, by hash, and no connection at all.
// Thread rule and failure rule: those of Writer. Memory: the summary, one number a call, and the
// texts that are drawn; at most kDrawnLimit items are drawn singly, and the page says of how many.
#include <cstdint>

#include "collector/writers/writer.h"

namespace stepagent::writers {

class HtmlWriter final : public Writer {
 public:
  // A page of 250,000 (of a million) is 8 MB and opens in 2.2 s in Chromium on two busy cores, one
  // of 120,800 is 3.4 MB and takes 1 s. Half of it would cut ordinary cycles.
  static constexpr uint64_t kDrawnLimit = 250'000;

  explicit HtmlWriter(uint64_t drawn_limit = kDrawnLimit) : drawn_limit_(drawn_limit) {}
  [[nodiscard]] std::string_view format() const override { return "html"; }
  [[nodiscard]] WriteResult Write(const model::Cycle& cycle, const WriteTarget& target) override;

 private:
  const uint64_t drawn_limit_;
};

}  // namespace stepagent::writers
