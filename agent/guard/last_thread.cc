#include "agent/guard/last_thread.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "agent/core/phase_words.h"

namespace stepagent::guard {
namespace {

struct Watch {
  std::atomic<uint32_t>* ended;
  std::atomic<uint32_t>* wake;
};
Watch g_watch;  // of the one main thread

void OnMainEnd(void* value) {
  const auto* watch = static_cast<const Watch*>(value);
  watch->ended->store(1, std::memory_order_release);
  core::BumpAndWake(watch->wake);
}

// Threads of ours are named "stepagent" and "stepagent-io" (guard/thread.cc).
bool IsOurs(const char* tid) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/self/task/%.20s/comm", tid);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return true;  // gone meanwhile
  char name[32] = {};
  const ssize_t got = read(fd, name, sizeof name - 1);
  close(fd);
  return got > 0 && std::strncmp(name, "stepagent", 9) == 0;
}

}  // namespace

void WatchMainThread(std::atomic<uint32_t>* ended, std::atomic<uint32_t>* wake) noexcept {
  if (gettid() != getpid()) return;
  static pthread_key_t key;
  static const bool has_key = pthread_key_create(&key, OnMainEnd) == 0;
  g_watch = {ended, wake};
  if (has_key) pthread_setspecific(key, &g_watch);
}

bool OnlyOursRemain() noexcept {
  DIR* tasks = opendir("/proc/self/task");
  if (tasks == nullptr) return false;
  bool others = false;
  while (const dirent* entry = readdir(tasks)) {
    if (entry->d_name[0] == '.' || std::strtol(entry->d_name, nullptr, 10) == getpid()) continue;
    others |= !IsOurs(entry->d_name);
  }
  closedir(tasks);
  return !others;
}

}  // namespace stepagent::guard
