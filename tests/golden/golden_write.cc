// golden_write DIR: writes every golden cycle as the collector would, one folder a case.
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <string>

#include "collector/analysis/summary.h"
#include "collector/writers/manifest.h"
#include "collector/writers/writer.h"
#include "tests/golden/cycles.h"

namespace {

bool WriteCase(const std::string& dir, const stepagent::model::Cycle& cycle) {
  mkdir(dir.c_str(), 0777);
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
  if (argc != 2) {
    std::fprintf(stderr, "usage: golden_write DIR\n");
    return 2;
  }
  const std::string out = argv[1];
  if (mkdir(out.c_str(), 0777) != 0 && errno != EEXIST) return 3;
  bool good = true;
  for (const std::string_view name : stepagent::testing::GoldenNames()) {
    good &= WriteCase(out + "/" + std::string(name), stepagent::testing::GoldenCycle(name));
  }
  return good ? 0 : 1;
}
