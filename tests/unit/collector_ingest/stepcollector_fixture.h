#pragma once
// The program itself on a socket and a folder of its own.
//
// Thread rule: one thread. Failure rule: what cannot be started or reached fails the test.
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gtest/gtest.h"

#include "proto/address.h"
#include "tests/support/batch_factory.h"
#include "tests/unit/collector_ingest/temporary_folder.h"

namespace stepagent {
class Stepcollector : public testing::Test {
 protected:
  pid_t Start(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), STEPCOLLECTOR);
    std::vector<char*> argv;
    for (std::string& a : arguments) argv.push_back(a.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    for (const int fd : {1, 2}) {
      posix_spawn_file_actions_addopen(&actions, fd, Output().c_str(),
                                       O_WRONLY | O_CREAT | O_APPEND, 0600);
    }
    pid_t pid = -1;
    EXPECT_EQ(posix_spawn(&pid, STEPCOLLECTOR, &actions, nullptr, argv.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    return pid;
  }
  static int Wait(pid_t pid) {
    int status = 0;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  int Run(const std::vector<std::string>& arguments) { return Wait(Start(arguments)); }
  // Connected to the collector, which may still be starting.
  int Connect() {
    const auto address = *proto::AddressFromText(Socket());
    for (int i = 0; i < 1000; ++i) {
      const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
      if (connect(fd, reinterpret_cast<const sockaddr*>(&address.raw), address.length) == 0) {
        return fd;
      }
      close(fd);
      poll(nullptr, 0, 10);
    }
    ADD_FAILURE() << "nobody listens";
    return -1;
  }
  [[nodiscard]] std::string Socket() const { return folder_.path() + "/s"; }
  [[nodiscard]] std::string Out() const { return folder_.path() + "/out"; }
  [[nodiscard]] std::string Output() const { return folder_.path() + "/output"; }
  [[nodiscard]] std::string Said() const { return test::ReadFile(Output()); }

  test::TemporaryFolder folder_;
};

}  // namespace stepagent
