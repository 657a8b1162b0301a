// A thread that launches the backward pass, as an autograd engine's does.
//
// Thread rule: BackwardThreadRun is called by one thread at a time and returns when the work has
// been issued, so whatever the callback touches is handed over and back.
// Failure rule: a thread that cannot be made ends the program.
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct BackwardThread {
  pthread_t thread;
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  void (*start)(void* context);               // once, on the new thread; may be NULL
  void (*run)(void* context, uint32_t step);  // once per step
  void* context;
  uint32_t step;
  bool has_work, is_stopping;
} BackwardThread;

void BackwardThreadStart(BackwardThread* thread);
void BackwardThreadRun(BackwardThread* thread, uint32_t step);
void BackwardThreadStop(BackwardThread* thread);
