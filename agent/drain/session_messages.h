#pragma once
// The messages around the batches: session start and end, control requests and answers.
//
// Purpose: plain structs on one side, bytes of session.proto and control.proto on the other, with
// protozero: no protobuf runtime enters the application.
// Thread rule: pure functions; any thread of ours.
// Failure rule: encoding cannot fail. Decoding takes bytes from anyone: every length is checked,
// counts and texts are bounded (kMaxControlBytes for the whole, kMaxListEntries, kMaxTextBytes),
// unknown fields are skipped, and bytes that are no such message give nullopt.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/drain/batch_builder.h"
#include "agent/drain/cycle_report.h"

namespace stepagent::drain {

// Doubling either costs memory in an agent that a peer of the same user talks to, nothing else.
inline constexpr size_t kMaxListEntries = 1024;
inline constexpr size_t kMaxTextBytes = 64 * 1024;

struct ScheduleData {
  uint64_t skip_first = 0, wait = 0, warmup = 0, active = 0, repeat = 0;
  bool skip_first_wait = false;
};
struct HelloData {
  std::string agent_version;
  BatchIdentity identity;
  uint32_t pid = 0, ppid = 0;
  std::string exe, exe_path, title;
  std::vector<std::string> argv;
  std::string rank_source;
  int32_t world_size = -1, local_rank = -1;
  std::optional<std::string> cuda_visible_devices;
  std::string clock_host;  // tsc cntvct monotonic
  int64_t base_unix_ns = 0, base_mono_ns = 0;
  std::optional<ScheduleData> schedule;
  std::string step_source, step_extent;
  std::map<std::string, std::string> settings, labels;
  std::string out, run_dir;
  std::vector<std::string> formats, redact, activities, require;
  uint64_t process_start_ticks = 0;
  std::vector<std::string> rank_conflicts;
  uint64_t max_traces = 0, max_bytes = 0;
  bool launcher_watches = false;
};
// Offers the protocols of proto/frame.h.
[[nodiscard]] std::string EncodeHello(const HelloData& hello);

// `losses`: an encoded LossReport (Drainer::EncodeLossReport); `all_steps`: an encoded AllSteps of
// what no report has told yet, "" none.
[[nodiscard]] std::string EncodeGoodbye(std::string_view ended, std::string_view losses,
                                        uint64_t last_sequence, std::string_view all_steps);

struct WelcomeData {
  bool accepted = false;
  std::string reason, session_dir, run_dir, collector_version;
  uint32_t protocol = 0;
};
[[nodiscard]] std::optional<WelcomeData> DecodeWelcome(std::string_view bytes);

struct WrittenData {
  uint32_t cycle = 0;
  bool complete = false;
  std::vector<std::string> files;
  std::string error;
};
[[nodiscard]] std::optional<WrittenData> DecodeWritten(std::string_view bytes);

struct ThrottleData {
  bool stop = false;
  std::string reason;
};
[[nodiscard]] std::optional<ThrottleData> DecodeThrottle(std::string_view bytes);

struct ControlRequestData {
  enum class Verb : uint8_t { kNone = 0, kStatus = 1, kStart = 2, kStop = 3, kToggle = 4 };
  uint32_t protocol = 0;
  Verb verb = Verb::kNone;  // unknown numbers decode as kNone
  uint64_t steps = 0, duration_ns = 0;
  uint64_t at_step = 0;  // process_index + 1; 0 none
  bool by_signal = false;
  std::map<std::string, std::string> settings;
};
[[nodiscard]] std::optional<ControlRequestData> DecodeControlRequest(std::string_view bytes);

struct AgentStatusData {
  uint32_t pid = 0;
  std::string title, exe;
  int32_t rank = -1;
  std::string session, run;
  uint32_t phase = 0;  // batch.proto Phase
  uint64_t step = 0;
  uint32_t cycle = 0;
  uint64_t records = 0;
  std::string last_error, session_dir;
  std::vector<uint32_t> gpus;  // physical ordinals where CUDA_VISIBLE_DEVICES tells
  uint64_t busy_count = 0;
  std::vector<std::string> written;
  std::string step_source;
  std::vector<NameCountRow> top_ranges;
  bool has_cuda = false;
  uint32_t cycles_written = 0;
  bool signal_off = false;
  bool awaits_files = false;
  uint32_t cycles_lost = 0;
};
struct ControlAnswerData {
  enum class Verdict : uint8_t { kNone = 0, kOk = 1, kBusy = 2, kRefused = 3 };
  Verdict verdict = Verdict::kNone;
  std::string reason;
  AgentStatusData status;
};
[[nodiscard]] std::string EncodeControlAnswer(const ControlAnswerData& answer);

}  // namespace stepagent::drain
