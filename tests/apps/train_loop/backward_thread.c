#include "backward_thread.h"

#include <stdlib.h>

static void* Loop(void* argument) {
  BackwardThread* self = argument;
  if (self->start != NULL) self->start(self->context);
  pthread_mutex_lock(&self->mutex);
  for (;;) {
    while (!self->has_work && !self->is_stopping) pthread_cond_wait(&self->changed, &self->mutex);
    if (self->is_stopping) break;
    self->run(self->context, self->step);
    self->has_work = false;
    pthread_cond_broadcast(&self->changed);
  }
  pthread_mutex_unlock(&self->mutex);
  return NULL;
}

void BackwardThreadStart(BackwardThread* thread) {
  pthread_mutex_init(&thread->mutex, NULL);
  pthread_cond_init(&thread->changed, NULL);
  if (pthread_create(&thread->thread, NULL, Loop, thread) != 0) abort();
}

void BackwardThreadRun(BackwardThread* thread, uint32_t step) {
  pthread_mutex_lock(&thread->mutex);
  thread->step = step;
  thread->has_work = true;
  pthread_cond_broadcast(&thread->changed);
  while (thread->has_work) pthread_cond_wait(&thread->changed, &thread->mutex);
  pthread_mutex_unlock(&thread->mutex);
}

void BackwardThreadStop(BackwardThread* thread) {
  pthread_mutex_lock(&thread->mutex);
  thread->is_stopping = true;
  pthread_cond_broadcast(&thread->changed);
  pthread_mutex_unlock(&thread->mutex);
  pthread_join(thread->thread, NULL);
  pthread_cond_destroy(&thread->changed);
  pthread_mutex_destroy(&thread->mutex);
}
