// `stepagent`: the command line. Each subcommand has a file of its own; this one picks it.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

#include <google/protobuf/stubs/logging.h>

#include "collector/cli/arguments.h"
#include "collector/cli/control_command.h"
#include "collector/cli/convert.h"
#include "collector/cli/diff_command.h"
#include "collector/cli/doctor.h"
#include "collector/cli/doctor_device.h"
#include "collector/cli/report.h"
#include "collector/cli/settings_document.h"
#include "collector/cli/wait_command.h"
#include "collector/launch/run.h"
#include "collector/launch/setting_args.h"
#include "proto/build_id.h"

namespace {

constexpr const char* kUsage =
    "usage: stepagent COMMAND [...]\n"
    "\n"
    "  run [options] -- CMD...   start a program and record the steps it is told to\n"
    "  status [PID...]           what each process with stepagent is doing\n"
    "  start [PID...]            record: --steps N, --for 5s, or by the process's schedule\n"
    "  stop [PID...]             end what is being recorded\n"
    "  toggle [PID...]           start or stop, as the signal does\n"
    "  wait PATH|PID             return when all traces are written\n"
    "  report PATH...            the summary of a run, a session, a cycle or a trace\n"
    "  convert IN --to F -o OUT  a raw file, a cycle or a Kineto file as another format\n"
    "  diff A B                  two cycles, sessions or traces against each other\n"
    "  doctor [-- CMD...]        checks the ground before a run\n"
    "\n"
    "stepagent COMMAND --help says more; --version prints the version.\n";

int Dispatch(const std::string& command, int argc, char** argv) {
  const std::vector<std::string> args(argv + 2, argv + argc);
  if (command == "run") return stepagent::launch::RunMain(args, environ);
  if (command == "status" || command == "start" || command == "stop" || command == "toggle")
    return stepagent::cli::ControlMain(command, args, environ);
  if (command == "wait") return stepagent::cli::WaitMain(args, environ);
  if (command == "report") return stepagent::cli::ReportMain(argc - 1, argv + 1);
  if (command == "convert") return stepagent::cli::ConvertMain(argc - 1, argv + 1);
  if (command == "diff") return stepagent::cli::DiffMain(argc - 1, argv + 1);
  if (command == "doctor") return stepagent::cli::DoctorMain(args, environ);
  if (command == stepagent::cli::kDoctorDevice) return stepagent::cli::DoctorDeviceMain();
  if (command == "help-settings") {
    const bool as_markdown = args.size() == 1 && args[0] == "--markdown";
    const std::string text =
        as_markdown ? stepagent::cli::SettingsMarkdown() : stepagent::launch::SettingsHelp();
    std::fputs(text.c_str(), stdout);
    return 0;
  }
  return stepagent::cli::FailUsage("'" + command +
                                   "': no such command; stepagent --help lists them");
}

// What could not be printed must not end as a success.
int AfterOutput(int status) {
  const int before = errno;
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  // Of a write that failed before, errno may be of something else since.
  const bool is_of_a_write =
      before == ENOSPC || before == EDQUOT || before == EFBIG || before == EIO || before == EPIPE;
  if (errno == 0 && is_of_a_write) errno = before;
  std::fprintf(stderr, "stepagent: the output could not be written whole: %s\n",
               errno == 0 ? "a write to standard output failed" : std::strerror(errno));
  return status == 0 ? 1 : status;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs(kUsage, stderr);
    return stepagent::cli::kUsageError;
  }
  const std::string command = argv[1];
  if (command == "--version" || (argc == 3 && std::string_view(argv[2]) == "--version")) {
    std::printf("stepagent %s\n", stepagent::proto::VersionText(STEPAGENT_VERSION).c_str());
    return 0;
  }
  if (command == "--help" || command == "-h" || command == "help") {
    std::fputs(kUsage, stdout);
    return 0;
  }
  // Of bytes that are no message the readers say so themselves.
  google::protobuf::SetLogHandler(nullptr);
  try {
    return AfterOutput(Dispatch(command, argc, argv));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "stepagent: %s: %s\n", command.c_str(), error.what());
    return command == "run" ? 125 : 1;
  }
}
