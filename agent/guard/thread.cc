#include "agent/guard/thread.h"

#include <pthread.h>
#include <signal.h>

namespace stepagent::guard {
namespace {

// Deep enough for CUPTI's flush, which decodes on our thread; touched only as used.
constexpr size_t kStackBytes = 512 * 1024;

}  // namespace

bool StartThread(void* (*body)(void*), void* argument) noexcept {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setstacksize(&attributes, kStackBytes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  // The mask is inherited: set it before, so that no signal can slip in.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const bool made = pthread_create(&thread, &attributes, body, argument) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  return made;
}

}  // namespace stepagent::guard
