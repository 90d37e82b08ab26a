/* Threads with a name that top and gdb show. */
#pragma once
#include <pthread.h>

/* Aborts when the system has no more threads to give. All signals are blocked in the new thread. */
pthread_t thread_start(const char *name, void *(*run)(void *), void *arg);
/* The same with so small a stack, for threads that are many. */
pthread_t thread_start_small(const char *name, void *(*run)(void *), void *arg, size_t stack_bytes);
/* For pthread_cond_timedwait until clock_mono_after. */
void thread_cond_init(pthread_cond_t *cond);
