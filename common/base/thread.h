/* Threads with a name that top and gdb show. */
#pragma once
#include <pthread.h>

/* Aborts when the system has no more threads to give. All signals are blocked in the new thread. */
pthread_t thread_start(const char *name, void *(*run)(void *), void *arg);
