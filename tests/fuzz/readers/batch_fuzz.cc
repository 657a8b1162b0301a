// Frames and batches with wrong bytes through the frame reader and the cycle builder.
#include <algorithm>
#include <cstdlib>

#include <google/protobuf/stubs/logging.h>

#include "collector/ingest/frame_reader.h"
#include "collector/model/builder.h"
#include "proto/limits.h"
#include "tests/fuzz/readers/mutate.h"
#include "tests/support/batch_factory.h"

namespace {

using stepagent::ingest::FrameReader;

std::string ValidStream() {
  google::protobuf::SetLogHandler(nullptr);  // bad UTF-8 is what this is about
  stepagent::test::BatchFactory agent;
  std::string stream = agent.HelloFrame();
  for (uint32_t cycle = 0; cycle < 2; ++cycle) {
    agent.WholeCycle(cycle, cycle * 3, 2, 1'000'000 * (cycle + 1), 500'000);
    stream += stepagent::test::MakeFrame(stepagent::proto::FrameType::kBatch,
                                         agent.Take(9'000'000).SerializeAsString());
  }
  return stream;
}

void Build(const std::string& payload) {
  static const stepagent::test::BatchFactory agent;
  stepagent::v1::Batch batch;
  if (!batch.ParseFromString(payload)) return;
  stepagent::model::CycleBuilder builder(agent.Hello());
  builder.Add(batch);
  builder.Add(batch);
  (void)builder.TakeClosed();
  (void)builder.TakeRemaining();
}

// What is sent on is read as it was.
void CheckSentOn(const stepagent::spool::RawFrame& frame) {
  const auto type = static_cast<stepagent::proto::FrameType>(frame.header.type);
  const std::string bytes =
      stepagent::ingest::EncodeFrame(type, frame.payload, frame.header.sequence);
  FrameReader reader;
  stepagent::spool::RawFrame again;
  reader.Feed(bytes.data(), bytes.size());
  if (reader.Next(&again) != FrameReader::Result::kFrame || again.payload != frame.payload) {
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* input, size_t bytes) {
  static const std::string valid = ValidStream();
  static const std::string payload = valid.substr(valid.rfind("SAF1") + 24);
  if (bytes < 2) return 0;
  // The bytes of a batch, past the checksum that would refuse them.
  Build(stepagent::fuzz::Reading(payload, input + 1, bytes - 1));
  // And the stream, in pieces.
  const std::string stream = stepagent::fuzz::Reading(valid, input + 1, bytes - 1);
  const size_t piece = size_t{input[0]} * 7 + 1;
  FrameReader reader;
  stepagent::spool::RawFrame frame;
  for (size_t at = 0; at < stream.size(); at += piece) {
    reader.Feed(stream.data() + at, std::min(piece, stream.size() - at));
    while (reader.Next(&frame) == FrameReader::Result::kFrame) {
      if (frame.payload.size() > stepagent::proto::kMaxFrameBytes) std::abort();
      Build(frame.payload);
      CheckSentOn(frame);
    }
  }
  return 0;
}
