// own_libraries: a program with its own protobuf, spdlog, fmt and libunwind, used in every step.
//
// These are the libraries the agent and the collector are made with, in whatever version this
// machine has as shared objects. Each step writes and reads a message, logs a line, walks its own
// stack both ways and throws through several frames. What it prints depends on nothing else.
#define UNW_LOCAL_ONLY
#include <execinfo.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/stubs/common.h>
#include <libunwind.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>

#include "support/victim.h"

namespace {

constexpr int kFrames = 8;

std::string RoundTrip(int step) {
  google::protobuf::Struct written;
  (*written.mutable_fields())["step"].set_number_value(step);
  (*written.mutable_fields())["name"].set_string_value("train_step");
  google::protobuf::Struct read;
  if (!read.ParseFromString(written.SerializeAsString())) throw std::runtime_error("protobuf");
  return read.fields().at("name").string_value() + " " +
         std::to_string(static_cast<int>(read.fields().at("step").number_value()));
}

int FramesByUnwind() {
  unw_context_t context;
  unw_cursor_t cursor;
  if (unw_getcontext(&context) != 0 || unw_init_local(&cursor, &context) != 0) return -1;
  int frames = 1;
  while (unw_step(&cursor) > 0) ++frames;
  return frames;
}

int FramesByLibc() {
  void* frames[64];
  return backtrace(frames, 64);
}

[[gnu::noinline]] int Thrown(int depth) {
  if (depth == 0) throw std::out_of_range("from below");
  const int below = Thrown(depth - 1);
  return below + 1;
}

[[gnu::noinline]] bool Catches() {
  try {
    return Thrown(kFrames) < 0;
  } catch (const std::out_of_range& error) {
    return std::string(error.what()) == "from below";
  }
}

}  // namespace

int main(int argc, char** argv) {
  HelpOption(argc, argv, "own_libraries [STEPS]: protobuf, spdlog, libunwind and exceptions\n");
  const int steps = argc > 1 ? std::atoi(argv[1]) : 5;
  auto log =
      std::make_shared<spdlog::logger>("app", std::make_shared<spdlog::sinks::stdout_sink_mt>());
  log->set_pattern("[%n] %v");
  GOOGLE_PROTOBUF_VERIFY_VERSION;
  const int frames = FramesByUnwind(), again = FramesByLibc();
  for (int step = 0; step < steps; ++step) {
    PlainStep("libraries");
    const bool is_same = FramesByUnwind() == frames && FramesByLibc() == again;
    log->info("{}: stack {}, exception {}", RoundTrip(step), is_same ? "same" : "other",
              Catches() ? "caught" : "lost");
  }
  google::protobuf::ShutdownProtobufLibrary();
  std::printf("own_libraries: protobuf %d, spdlog %d, %d steps\n", GOOGLE_PROTOBUF_VERSION,
              SPDLOG_VERSION, steps);
  return 0;
}
