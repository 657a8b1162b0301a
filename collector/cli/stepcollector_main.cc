// stepcollector: receives what agents send and writes it down.
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include <fcntl.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <google/protobuf/stubs/logging.h>
#include <CLI/CLI.hpp>

#include "collector/cli/collector_log.h"
#include "collector/ingest/listen.h"
#include "collector/ingest/metrics_server.h"
#include "collector/ingest/server.h"
#include "collector/spool/folders.h"
#include "collector/spool/recover.h"
#include "proto/build_id.h"
#include "proto/settings.h"

namespace stepagent {
namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;
constexpr int kNice = 10;
constexpr int kMappedBytes = 256 * 1024;
constexpr int kArenas = 2;
constexpr const char* kMemoryVariable = "STEPAGENT_COLLECTOR_MEMORY";

struct Options {
  std::string socket, out, idle_exit, log = "info", daemon_of, metrics, memory;
  std::string memory_error;                      // of a run's own: said in its log
  std::shared_ptr<ingest::MemoryBudget> budget;  // null: no bound
  std::optional<int64_t> idle_exit_ns;
  int metrics_socket = -1;
};

// Out of the application's way: first to go when memory is short, last to get the processor, and
// not reached by what its terminal sends to its process group.
void StepAside() {
  if (setsid() < 0 && errno != EPERM) std::perror("stepcollector: setsid");
  std::signal(SIGINT, SIG_IGN);
  std::signal(SIGHUP, SIG_IGN);
  const int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (fd >= 0) {
    if (write(fd, "1000", 4) != 4) std::perror("stepcollector: oom_score_adj");
    close(fd);
  }
  setpriority(PRIO_PROCESS, 0, kNice);
  if (chdir("/") != 0) std::perror("stepcollector: chdir");
}

// False: no size, or less than the program itself needs. A run's own collector, which stands beside
// the application, is bounded unless told otherwise and serves whatever it was told.
bool TakeMemory(Options* options) {
  const bool is_daemon = !options->daemon_of.empty();
  proto::Settings settings = proto::DefaultSettings();
  if (!is_daemon) settings.collector_memory = 0;
  if (!options->memory.empty()) {
    if (auto error = proto::ApplySetting("collector-memory", options->memory, &settings)) {
      error->setting = std::string("--memory (") + kMemoryVariable + ")";
      options->memory_error = error->Line();
      std::fprintf(stderr, "stepcollector: %s\n", options->memory_error.c_str());
      if (!is_daemon) return false;
    }
  }
  if (settings.collector_memory != 0)
    options->budget = std::make_shared<ingest::MemoryBudget>(settings.collector_memory);
  return true;
}

// 0, or the exit status.
int ParseOptions(int argc, char** argv, Options* options) {
  CLI::App app("Receives what agents of stepagent send and writes traces, manifests and summaries.",
               "stepcollector");
  app.add_option("--socket", options->socket, "Unix socket to listen on: a path, or @name")
      ->required();
  app.add_option("--out", options->out, "Folder the runs go into")->required();
  app.add_option("--idle-exit", options->idle_exit,
                 "Leave when no session is left for this long (5s, 500ms)");
  app.add_option("--log", options->log, "off error warn info debug[:file]")->capture_default_str();
  app.add_option(
      "--metrics", options->metrics,
      "Answer /metrics for Prometheus there: PORT or 127.0.0.1:PORT, [::1]:PORT, or the path "
      "of a Unix socket");
  app.add_option("--memory", options->memory,
                 "The most memory it may take (256MiB, 1GiB); a cycle that needs more is written "
                 "when its session is read. At least 64MiB; 0: no bound, as without it")
      ->envname(kMemoryVariable);
  app.add_option("--daemon-of", options->daemon_of, "Run this collector was started for")
      ->group("");
  app.set_version_flag("--version", "stepcollector " + proto::VersionText(STEPAGENT_VERSION));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? -1 : kUsage;
  }
  if (options->out.empty()) {
    std::fprintf(stderr, "stepcollector: --out: '': empty; allowed: a folder\n");
    return kUsage;
  }
  if (!TakeMemory(options)) return kUsage;
  if (options->idle_exit.empty()) return 0;
  const auto idle = proto::ParseDuration(options->idle_exit);
  if (!idle) {
    std::fprintf(stderr, "stepcollector: --idle-exit: '%s': allowed: a duration such as 5s\n",
                 options->idle_exit.c_str());
    return kUsage;
  }
  options->idle_exit_ns = static_cast<int64_t>(*idle);
  return 0;
}

std::string Absolute(const std::string& path) {
  if (path.empty() || path[0] == '/') return path;
  char* here = getcwd(nullptr, 0);
  const std::string absolute = here != nullptr ? std::string(here) + "/" + path : path;
  std::free(here);
  return absolute;
}

// Sessions that an earlier collector in this folder could not finish. Those whose process still
// lives come back by themselves.
void RecoverEarlier(const std::string& out, const std::shared_ptr<ingest::MemoryBudget>& memory,
                    const std::shared_ptr<spdlog::logger>& log) {
  const spool::RecoverReport report =
      spool::RecoverAll(out, spool::Living::kLeaveAlone, {}, memory);
  for (const std::string& problem : report.problems) log->warn("recovery: {}", problem);
  if (report.cycles_written > 0) {
    log->info("recovery: {} cycles of interrupted sessions written", report.cycles_written);
  }
}

// Blocks SIGTERM and SIGINT everywhere but in one thread that waits for them.
class Terminator {
 public:
  explicit Terminator(bool is_daemon) {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGTERM);
    if (!is_daemon) sigaddset(&signals_, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
  }
  void Watch(ingest::Server* server) {
    server_ = server;
    thread_ = std::thread([this] {
      int signal = 0;
      if (sigwait(&signals_, &signal) != 0) return;
      const std::lock_guard lock(mutex_);
      if (server_ != nullptr) server_->Stop();
    });
  }
  // Before the server goes away.
  void Forget() {
    {
      const std::lock_guard lock(mutex_);
      server_ = nullptr;
    }
    pthread_kill(thread_.native_handle(), SIGTERM);  // wakes it when no signal came
    thread_.join();
  }

 private:
  sigset_t signals_{};
  std::mutex mutex_;
  ingest::Server* server_ = nullptr;
  std::thread thread_;
};

int Serve(const Options& options, ingest::Listener* listener, cli::CollectorLog* log) {
  const bool is_daemon = !options.daemon_of.empty();
  Terminator terminator(is_daemon);
  ingest::ServerConfig config;
  config.listen_socket = listener->TakeSocket();
  config.out = options.out;
  config.honours_agents_out = is_daemon;
  config.idle_exit_ns = options.idle_exit_ns;
  config.metrics_socket = options.metrics_socket;
  config.memory = options.budget;
  config.version = proto::VersionText(STEPAGENT_VERSION);
  config.log = log->logger();
  config.on_run = [log](const std::string& run_path) { log->SetRunFolder(run_path); };
  std::thread recovery;
  if (spool::IsRealFolder(options.out)) {
    recovery = std::thread([&] { RecoverEarlier(options.out, options.budget, log->logger()); });
  }
  int status = 0;
  {
    ingest::Server server(std::move(config));
    terminator.Watch(&server);
    status = server.Run();
    listener->Close();
    terminator.Forget();
  }
  if (recovery.joinable()) recovery.join();
  return status;
}

int Main(int argc, char** argv) {
  Options options;
  const int parsed = ParseOptions(argc, argv, &options);
  if (parsed != 0) return parsed < 0 ? 0 : parsed;
  const bool is_daemon = !options.daemon_of.empty();
  options.out = Absolute(options.out);
  if (options.socket.empty() || options.socket[0] != '@') {
    options.socket = Absolute(options.socket);
  }
  const auto address = proto::AddressFromText(options.socket);
  if (!address) {
    std::fprintf(stderr,
                 "stepcollector: --socket: '%s': allowed: a path of at most 107 bytes, or "
                 "@name\n",
                 options.socket.c_str());
    return kUsage;
  }
  cli::CollectorLog log;
  if (!log.Open(options.log, is_daemon)) return kUsage;
  // Bytes that are no message are refused and counted; libprotobuf need not print about them.
  google::protobuf::SetLogHandler(nullptr);
  if (options.budget != nullptr) {
    // What is large goes back to the system when it is freed, whatever was freed before.
    mallopt(M_MMAP_THRESHOLD, kMappedBytes);
    mallopt(M_ARENA_MAX, kArenas);
  }
  if (!options.memory_error.empty()) log.logger()->warn("{}", options.memory_error);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a file size limit is an errno like any other
  ingest::MetricsSocketFile metrics_file;
  if (!options.metrics.empty()) {
    std::string error;
    if (options.metrics[0] != '/' && options.metrics.find('/') != std::string::npos)
      options.metrics = Absolute(options.metrics);
    options.metrics_socket = ingest::MetricsServer::Listen(options.metrics, &error);
    if (options.metrics_socket < 0) {
      std::fprintf(stderr, "stepcollector: --metrics: %s\n", error.c_str());
      return error.starts_with('\'') ? kUsage : kFailed;
    }
    metrics_file.Note(options.metrics);
  }
  if (is_daemon) StepAside();
  ingest::Listener listener;
  switch (listener.Open(*address)) {
    case ingest::Listener::Result::kListening:
      return Serve(options, &listener, &log);
    case ingest::Listener::Result::kAlreadyServed:
      if (is_daemon) return 0;
      std::fprintf(stderr, "stepcollector: %s: another collector is listening there\n",
                   options.socket.c_str());
      return kFailed;
    default:
      std::fprintf(stderr, "stepcollector: %s\n", listener.error().c_str());
      return kFailed;
  }
}

}  // namespace
}  // namespace stepagent

int main(int argc, char** argv) { return stepagent::Main(argc, argv); }
