// raw.steps with wrong bytes: read to the last whole frame, never worse.
#include <cstdlib>

#include <google/protobuf/stubs/logging.h>

#include "collector/spool/recover.h"
#include "tests/fuzz/readers/mutate.h"
#include "tests/support/batch_factory.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* input, size_t bytes) {
  static const std::string valid = [] {
    google::protobuf::SetLogHandler(nullptr);  // bad UTF-8 is what this is about
    stepagent::test::BatchFactory agent;
    std::string stream = agent.HelloFrame();
    agent.WholeCycle(0, 0, 2, 1'000'000, 500'000);
    return stream + stepagent::test::MakeFrame(stepagent::proto::FrameType::kBatch,
                                               agent.Take(9'000'000).SerializeAsString());
  }();
  const stepagent::fuzz::MemoryFile file(stepagent::fuzz::Mutate(valid, input, bytes));
  if (!file.ok()) return 0;
  stepagent::spool::RawReport report;
  uint64_t cycles = 0;
  const std::string error = stepagent::spool::ReadCycles(
      file.path(), [&](stepagent::model::Cycle) { ++cycles; }, &report);
  if (!error.empty() && cycles != 0) std::abort();
  return 0;
}
