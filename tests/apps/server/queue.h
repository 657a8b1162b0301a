// A bounded queue of request numbers between the generator and the workers.
//
// Thread rule: any thread.
// Failure rule: a full queue refuses, a closed and empty one ends its takers.
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum { kQueueCapacity = 256 };

typedef struct RequestQueue {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  uint64_t items[kQueueCapacity];
  uint64_t head, tail;  // tail - head requests wait
  bool is_closed;
} RequestQueue;

void QueueInit(RequestQueue* queue);
bool QueueOffer(RequestQueue* queue, uint64_t request);  // false: full
bool QueueTake(RequestQueue* queue, uint64_t* request);  // false: closed and empty
void QueueClose(RequestQueue* queue);
