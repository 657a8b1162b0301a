#include "queue.h"

void QueueInit(RequestQueue* queue) {
  pthread_mutex_init(&queue->mutex, NULL);
  pthread_cond_init(&queue->changed, NULL);
  queue->head = queue->tail = 0;
  queue->is_closed = false;
}

bool QueueOffer(RequestQueue* queue, uint64_t request) {
  pthread_mutex_lock(&queue->mutex);
  const bool has_room = queue->tail - queue->head < kQueueCapacity;
  if (has_room) queue->items[queue->tail++ % kQueueCapacity] = request;
  pthread_cond_signal(&queue->changed);
  pthread_mutex_unlock(&queue->mutex);
  return has_room;
}

bool QueueTake(RequestQueue* queue, uint64_t* request) {
  pthread_mutex_lock(&queue->mutex);
  while (queue->head == queue->tail && !queue->is_closed) {
    pthread_cond_wait(&queue->changed, &queue->mutex);
  }
  const bool has_request = queue->head != queue->tail;
  if (has_request) *request = queue->items[queue->head++ % kQueueCapacity];
  pthread_mutex_unlock(&queue->mutex);
  return has_request;
}

void QueueClose(RequestQueue* queue) {
  pthread_mutex_lock(&queue->mutex);
  queue->is_closed = true;
  pthread_cond_broadcast(&queue->changed);
  pthread_mutex_unlock(&queue->mutex);
}
