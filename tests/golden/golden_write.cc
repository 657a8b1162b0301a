// golden_write DIR: writes every golden cycle as the collector would, one folder a case.
#include <cstdio>
#include <string>

#include "collector/analysis/summary.h"
#include "collector/writers/manifest.h"
#include "collector/writers/writer.h"
#include "tests/golden/cycles.h"

namespace {

bool WriteCase(const std::string& dir, const stepagent::model::Cycle& cycle) {
  const auto writer = stepagent::writers::MakeWriter("chrome");
  const auto trace = writer->Write(cycle, {dir, dir, "train.py_node-7_rank3.0", {}});
  if (!trace.ok) std::fprintf(stderr, "%s\n", trace.error.c_str());
  const auto manifest = stepagent::writers::WriteManifest(cycle, trace.files, dir, dir);
  if (!manifest.ok) std::fprintf(stderr, "%s\n", manifest.error.c_str());
  const auto summary = stepagent::analysis::WriteSummary(cycle, dir);
  if (!summary.ok) std::fprintf(stderr, "%s\n", summary.error.c_str());
  return trace.ok && manifest.ok && summary.ok;
}

}  // namespace

int main(int argc, char** argv) {
  return stepagent::testing::WriteGoldenCases(argc, argv, WriteCase);
}
