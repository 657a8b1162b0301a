#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "control.pb.h"
#include "proto/limits.h"
#include "uplink_fixture.h"

namespace stepagent::drain::io {
namespace {

std::set<std::string> OpenFiles() {
  std::set<std::string> files;
  DIR* listing = opendir("/proc/self/fd");
  while (const dirent* entry = readdir(listing)) {
    if (std::atoi(entry->d_name) != dirfd(listing)) files.insert(entry->d_name);
  }
  closedir(listing);
  return files;
}

TEST_F(UplinkTest, SaysHelloFirstThenSendsInOrderAndGoodbyeLast) {
  FakeCollector collector(address_);
  ASSERT_TRUE(uplink_.Start(config_));
  uplink_.SetCollector(address_, "hello there");
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(Submit("batch " + std::to_string(i)));
  Peer peer = collector.AcceptAndWelcome();
  EXPECT_EQ(collector.last_hello(), "hello there");
  EXPECT_TRUE(uplink_.Submit(kGoodbye, "bye", 19, {}));
  uplink_.Finish(kPatienceNs);
  for (int i = 0; i < 20; ++i) {
    const auto frame = peer.ReadFrame();
    ASSERT_TRUE(frame);
    EXPECT_EQ(frame->header.type, kBatch);
    EXPECT_EQ(frame->header.sequence, static_cast<uint64_t>(i));
    EXPECT_EQ(frame->payload, "batch " + std::to_string(i));
  }
  EXPECT_EQ(peer.ReadFrame()->header.type, kGoodbye);
  EXPECT_FALSE(peer.ReadFrame());
  EXPECT_EQ(Lost(), 0U);
  EXPECT_FALSE(Submit("late", 5));  // closed: counted
  EXPECT_EQ(Lost(), 5U);
}

TEST_F(UplinkTest, NothingIsSentBeforeTheWelcome) {
  FakeCollector collector(address_);
  ASSERT_TRUE(uplink_.Start(config_));
  uplink_.SetCollector(address_, "hello");
  EXPECT_TRUE(Submit("batch"));
  Peer peer = collector.Accept();
  ASSERT_TRUE(peer.ReadFrame());
  pollfd ready{peer.fd(), POLLIN, 0};
  EXPECT_EQ(poll(&ready, 1, 50), 0);
  EXPECT_TRUE(uplink_.status().connected);
  EXPECT_FALSE(uplink_.status().accepted);
}

TEST_F(UplinkTest, TellsWhatTheCollectorSays) {
  FakeCollector collector(address_);
  ASSERT_TRUE(uplink_.Start(config_));
  uplink_.SetCollector(address_, "hello");
  Peer peer = collector.AcceptAndWelcome();
  ASSERT_TRUE(Await([&] { return uplink_.status().accepted; }));
  EXPECT_EQ(uplink_.status().session_dir, "/out/session");
  v1::Written written;
  written.set_cycle(3);
  written.set_complete(true);
  written.add_files("/out/a.json.gz");
  peer.Send(FrameBytes(proto::FrameType::kWritten, written.SerializeAsString()));
  std::vector<WrittenCycle> got;
  ASSERT_TRUE(Await([&] { return !(got = uplink_.TakeWritten()).empty(); }));
  EXPECT_EQ(got[0].cycle, 3U);
  EXPECT_TRUE(got[0].complete);
  EXPECT_EQ(got[0].files, std::vector<std::string>{"/out/a.json.gz"});
  v1::Throttle throttle;
  throttle.set_stop(true);
  throttle.set_reason("disk");
  peer.Send(FrameBytes(proto::FrameType::kThrottle, throttle.SerializeAsString()));
  ASSERT_TRUE(Await([&] { return uplink_.status().stopped_by_collector; }));
  EXPECT_EQ(uplink_.status().throttle_reason, "disk");
}

TEST_F(UplinkTest, ARefusalIsFinalAndWhatWaitedIsCounted) {
  FakeCollector collector(address_);
  ASSERT_TRUE(uplink_.Start(config_));
  uplink_.SetCollector(address_, "hello");
  EXPECT_TRUE(Submit("batch", 7));
  Peer peer = collector.Accept();
  ASSERT_TRUE(peer.ReadFrame());
  v1::Welcome welcome;
  welcome.set_reason("too new");
  peer.Send(FrameBytes(proto::FrameType::kWelcome, welcome.SerializeAsString()));
  ASSERT_TRUE(Await([&] { return !uplink_.status().refusal.empty(); }));
  EXPECT_EQ(uplink_.status().refusal, "too new");
  EXPECT_FALSE(peer.ReadFrame());
  EXPECT_FALSE(Submit("more", 2));
  ASSERT_TRUE(Await([&] { return Lost() == 9; }));
  ASSERT_EQ(lines_.size(), 1U);
  EXPECT_NE(lines_[0].find("too new"), std::string::npos);
  EXPECT_FALSE(collector.HasCaller(50));
}

TEST_F(UplinkTest, AFrameCutByADeadCollectorIsSentAgainWhole) {
  ASSERT_TRUE(uplink_.Start(config_));
  FakeCollector collector(address_);
  uplink_.SetCollector(address_, "hello");
  Peer first = collector.AcceptAndWelcome();
  const std::string large(4 << 20, 'x');  // more than any socket buffer holds
  EXPECT_TRUE(Submit(large));
  EXPECT_TRUE(Submit("after"));
  char piece[1000];
  ASSERT_TRUE(first.ReadAll(piece, sizeof piece));
  first.Close();
  collector.Stop();
  FakeCollector second(address_);
  Peer peer = second.AcceptAndWelcome();
  const auto frame = peer.ReadFrame();
  ASSERT_TRUE(frame);
  EXPECT_EQ(frame->payload, large);
  EXPECT_EQ(frame->header.sequence, 0U);
  EXPECT_EQ(peer.ReadFrame()->payload, "after");
  EXPECT_EQ(Lost(), 0U);
}

TEST_F(UplinkTest, AStoppedCollectorCostsTheNewestBatchesAndBoundedMemory) {
  config_.queue_bytes = 1 << 20;
  ASSERT_TRUE(uplink_.Start(config_));
  FakeCollector collector(address_);
  uplink_.SetCollector(address_, "hello");
  Peer peer = collector.AcceptAndWelcome();
  ASSERT_TRUE(Await([&] { return uplink_.status().accepted; }));
  const std::string payload(64 << 10, 'p');
  uint64_t accepted = 0;
  for (int i = 0; i < 1000; ++i) {
    accepted += Submit(payload, 3) ? 1 : 0;
    EXPECT_LE(uplink_.status().queued_bytes, config_.queue_bytes);
  }
  EXPECT_LT(accepted, 1000U);
  EXPECT_EQ(Lost(), (1000 - accepted) * 3);
  // It goes on: what was accepted comes, in order, and nothing else.
  std::vector<uint64_t> sequences;
  for (uint64_t i = 0; i < accepted; ++i) {
    const auto frame = peer.ReadFrame();
    ASSERT_TRUE(frame);
    EXPECT_EQ(frame->payload.size(), payload.size());
    sequences.push_back(frame->header.sequence);
  }
  EXPECT_TRUE(std::is_sorted(sequences.begin(), sequences.end()));
  EXPECT_EQ(Lost(), (1000 - accepted) * 3);
  EXPECT_TRUE(Submit("next"));
  EXPECT_EQ(peer.ReadFrame()->payload, "next");
}

TEST_F(UplinkTest, FinishGivesUpAtItsDeadlineAndCountsWhatIsLeft) {
  ASSERT_TRUE(uplink_.Start(config_));
  FakeCollector collector(address_);
  uplink_.SetCollector(address_, "hello");
  Peer peer = collector.AcceptAndWelcome();
  const std::string payload(1 << 20, 'p');
  for (int i = 0; i < 16; ++i) EXPECT_TRUE(Submit(payload, 1));
  const uint64_t begin = HostClock::MonotonicNs();
  uplink_.Finish(100'000'000);
  EXPECT_LT(HostClock::MonotonicNs() - begin, 2'000'000'000U);
  // Whole frames that made it into the socket's buffer are read; the others are the losses.
  uint64_t whole = 0;
  while (peer.ReadFrame()) ++whole;
  EXPECT_EQ(whole + Lost(), 16U);
}

TEST_F(UplinkTest, FinishWithoutACollectorIsQuick) {
  ASSERT_TRUE(uplink_.Start(config_));
  EXPECT_TRUE(Submit("nobody to send it to", 4));
  EXPECT_FALSE(uplink_.Submit(kGoodbye, "bye", 0, {}));
  const uint64_t begin = HostClock::MonotonicNs();
  uplink_.Finish(kPatienceNs);
  EXPECT_LT(HostClock::MonotonicNs() - begin, 5'000'000'000U);
  EXPECT_EQ(Lost(), 4U);
}

TEST_F(UplinkTest, GarbageAndForeignFramesDoNoHarm) {
  ASSERT_TRUE(uplink_.Start(config_));
  FakeCollector collector(address_);
  uplink_.SetCollector(address_, "hello");
  {
    Peer peer = collector.AcceptAndWelcome();
    peer.Send("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
    EXPECT_FALSE(peer.ReadFrame());  // hung up on
  }
  {
    Peer peer = collector.AcceptAndWelcome();
    std::string huge = FrameBytes(proto::FrameType::kWritten, "");
    huge[11] = 0x7f;  // a length of 2 GiB
    peer.Send(huge);
    EXPECT_FALSE(peer.ReadFrame());
  }
  Peer peer = collector.AcceptAndWelcome();
  std::string damaged = FrameBytes(proto::FrameType::kWritten, "\x08\x01");
  damaged.back() ^= 1;
  peer.Send(damaged);                                                     // refused alone
  peer.Send(FrameBytes(static_cast<proto::FrameType>(200), "future"));    // skipped
  peer.Send(FrameBytes(proto::FrameType::kWritten, "\xff\xff\xff\xff"));  // no such message
  v1::Written written;
  written.set_cycle(1);
  peer.Send(FrameBytes(proto::FrameType::kWritten, written.SerializeAsString()));
  std::vector<WrittenCycle> got;
  ASSERT_TRUE(Await([&] { return !(got = uplink_.TakeWritten()).empty(); }));
  EXPECT_EQ(got.size(), 1U);
  EXPECT_TRUE(Submit("still here"));
  EXPECT_EQ(peer.ReadFrame()->payload, "still here");
}

TEST_F(UplinkTest, ReleaseHangsUpUntilTheNextBatch) {
  ASSERT_TRUE(uplink_.Start(config_));
  FakeCollector collector(address_);
  uplink_.SetCollector(address_, "hello");
  Peer peer = collector.AcceptAndWelcome();
  EXPECT_TRUE(Submit("one"));
  uplink_.Release();
  EXPECT_EQ(peer.ReadFrame()->payload, "one");
  EXPECT_FALSE(peer.ReadFrame());
  EXPECT_FALSE(collector.HasCaller(50));
  EXPECT_TRUE(Submit("two"));
  peer = collector.AcceptAndWelcome();
  EXPECT_EQ(peer.ReadFrame()->payload, "two");
}

TEST_F(UplinkTest, AnUnreachableCollectorIsOneLineAndIsTriedAgain) {
  ASSERT_TRUE(uplink_.Start(config_));
  uplink_.SetCollector(address_, "hello");
  ASSERT_TRUE(Await([&] { return !uplink_.status().last_error.empty(); }));
  EXPECT_NE(uplink_.status().last_error.find(address_), std::string::npos);
  EXPECT_NE(uplink_.status().failing_since_ns, 0U);
  ASSERT_TRUE(Await([&] {
    (void)uplink_.status();
    return !lines_.empty();
  }));
  FakeCollector collector(address_);
  Peer peer = collector.AcceptAndWelcome();
  ASSERT_TRUE(Await([&] { return uplink_.status().accepted; }));
  EXPECT_EQ(lines_.size(), 1U);
  EXPECT_TRUE(uplink_.status().last_error.empty());
  EXPECT_EQ(uplink_.status().failing_since_ns, 0U);
}

TEST_F(UplinkTest, TheApplicationSeesNoDescriptorAndItsCloseAllDoesNoHarm) {
  const std::set<std::string> before = OpenFiles();
  ASSERT_TRUE(uplink_.Start(config_));
  FakeCollector collector(address_);
  std::set<std::string> expected = OpenFiles();
  uplink_.SetCollector(address_, "hello");
  Peer peer = collector.AcceptAndWelcome();
  ASSERT_TRUE(Await([&] { return uplink_.status().accepted; }));
  expected.insert(std::to_string(peer.fd()));
  EXPECT_EQ(OpenFiles(), expected);

  // A child closes everything and puts files over all numbers; ours is another table. Here, in the
  // same process: every number but the test's own is closed, then reused.
  for (int fd = 3; fd < 200; ++fd) {
    if (!expected.contains(std::to_string(fd))) close(fd);
  }
  const int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
  std::vector<int> over;
  for (int fd = 3; fd < 200; ++fd) {
    if (fd != null_fd && !expected.contains(std::to_string(fd)) && dup2(null_fd, fd) == fd) {
      over.push_back(fd);
    }
  }
  EXPECT_TRUE(Submit("through"));
  EXPECT_EQ(peer.ReadFrame()->payload, "through");
  for (const int fd : over) close(fd);
  close(null_fd);
}

TEST_F(UplinkTest, AForkedChildLeavesTheParentsLinkAloneAndCanStartItsOwn) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer ends a forked child that makes a thread";
#endif
  ASSERT_TRUE(uplink_.Start(config_));
  FakeCollector collector(address_);
  uplink_.SetCollector(address_, "hello");
  Peer peer = collector.AcceptAndWelcome();
  ASSERT_TRUE(Await([&] { return uplink_.status().accepted; }));
  const pid_t child = fork();
  if (child == 0) {
    uplink_.ForgetAll();
    if (Submit("from the child")) _exit(1);  // forgotten: nothing to send to
    if (!core::MapPhaseWords()) _exit(2);
    if (!uplink_.Start(config_)) _exit(3);
    uplink_.Finish(kPatienceNs);
    _exit(0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(Submit("from the parent"));
  EXPECT_EQ(peer.ReadFrame()->payload, "from the parent");
}

// --- how it sleeps

std::string ThreadNamed(const std::string& wanted) {
  DIR* listing = opendir("/proc/self/task");
  std::string found;
  while (const dirent* entry = readdir(listing)) {
    std::ifstream comm("/proc/self/task/" + std::string(entry->d_name) + "/comm");
    std::string name;
    std::getline(comm, name);
    if (name == wanted) found = entry->d_name;
  }
  closedir(listing);
  return found;
}

uint64_t SwitchesOf(const std::string& tid) {
  std::ifstream status("/proc/self/task/" + tid + "/status");
  std::string word;
  uint64_t sum = 0, number;
  while (status >> word) {
    if (word == "voluntary_ctxt_switches:" && status >> number) sum += number;
  }
  return sum;
}

TEST_F(UplinkTest, TheThreadIsNamedBlocksAllSignalsAndDoesNotWakeWhileIdle) {
  ASSERT_TRUE(uplink_.Start(config_));
  FakeCollector collector(address_);
  uplink_.SetCollector(address_, "hello");
  Peer peer = collector.AcceptAndWelcome();
  ASSERT_TRUE(Await([&] { return uplink_.status().accepted; }));
  const std::string tid = ThreadNamed("stepagent-io");
  ASSERT_FALSE(tid.empty());
  std::ifstream status("/proc/self/task/" + tid + "/status");
  std::stringstream text;
  text << status.rdbuf();
  // All 64 but SIGKILL, SIGSTOP and libc's own two.
  EXPECT_NE(text.str().find("SigBlk:\tfffffffe7ffbfeff"), std::string::npos) << text.str();
  uint64_t switches = SwitchesOf(tid);
  pollfd quiet{peer.fd(), POLLIN, 0};
  for (int i = 0; i < 5; ++i) {  // it may have been on its way to sleep at the first look
    EXPECT_EQ(poll(&quiet, 1, 100), 0);
    const uint64_t now = SwitchesOf(tid);
    if (now == switches) return;
    switches = now;
  }
  ADD_FAILURE() << "the io thread keeps waking up";
}

}  // namespace
}  // namespace stepagent::drain::io
