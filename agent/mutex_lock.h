#pragma once
// MutexLock: a pthread mutex held for a scope.
//
// Purpose: what guards the phase controller's arming (arm_mutex_) is let go on every way out.
// Thread rule: any thread. Failure rule: cannot fail.
#include <pthread.h>

namespace stepagent::agent {

class MutexLock {
 public:
  explicit MutexLock(pthread_mutex_t* mutex) : mutex_(mutex) { pthread_mutex_lock(mutex_); }
  ~MutexLock() { pthread_mutex_unlock(mutex_); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  pthread_mutex_t* const mutex_;
};

}  // namespace stepagent::agent
