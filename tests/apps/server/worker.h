// A worker of the server: its own stream, buffers and NVTX ranges.
//
// Thread rule: WorkerMain is the body of the worker's own thread.
// Failure rule: a failing CUDA call ends the program.
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "queue.h"
#include "support/device.h"

enum { kRequestElements = 4096 };

typedef struct Worker {
  pthread_t thread;
  RequestQueue* queue;
  const Device* device;  // NULL: host only
  uint32_t kernels;      // per request
  atomic_uint_fast64_t* served;
} Worker;

void* WorkerMain(void* worker);
