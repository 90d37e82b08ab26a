#include "common/base/thread.h"
#include "common/base/check.h"
#include <signal.h>

pthread_t thread_start(const char *name, void *(*run)(void *), void *arg)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    int failed = pthread_create(&thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    POST(!failed);
    pthread_setname_np(thread, name);
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
