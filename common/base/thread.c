#include "common/base/thread.h"
#include "common/base/check.h"
#include <signal.h>

static pthread_t start(const char *name, void *(*run)(void *), void *arg,
                       const pthread_attr_t *attr)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    int failed = pthread_create(&thread, attr, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    POST(!failed);
    pthread_setname_np(thread, name);
    return thread;
}

pthread_t thread_start(const char *name, void *(*run)(void *), void *arg)
{
    return start(name, run, arg, NULL);
}

pthread_t thread_start_small(const char *name, void *(*run)(void *), void *arg, size_t stack_bytes)
{
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    int failed = pthread_attr_setstacksize(&attr, stack_bytes);
    POST(!failed);
    pthread_t thread = start(name, run, arg, &attr);
    pthread_attr_destroy(&attr);
    return thread;
}

void thread_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
}
