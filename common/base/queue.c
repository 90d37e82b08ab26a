#include "common/base/queue.h"
#include "common/base/clock.h"
#include "common/base/mem.h"
#include <pthread.h>
#include <stdlib.h>

struct queue {
    pthread_mutex_t lock;
    pthread_cond_t filled, emptied;
    void **ring;
    size_t head, count, cap, limit;
    bool waiting;
    size_t pushers_waiting;
};

struct queue *queue_new(size_t limit)
{
    struct queue *q = mem_alloc(sizeof *q);
    pthread_mutex_init(&q->lock, NULL);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&q->filled, &attr);
    pthread_cond_init(&q->emptied, &attr);
    pthread_condattr_destroy(&attr);
    q->limit = limit;
    q->cap = 64;
    q->ring = mem_array(q->cap, sizeof *q->ring);
    return q;
}

void queue_free(struct queue *q)
{
    if (!q)
        return;
    pthread_mutex_destroy(&q->lock);
    pthread_cond_destroy(&q->filled);
    pthread_cond_destroy(&q->emptied);
    free(q->ring);
    free(q);
}

static void grow(struct queue *q)
{
    void **ring = mem_array(q->cap * 2, sizeof *ring);
    for (size_t i = 0; i < q->count; i++)
        ring[i] = q->ring[(q->head + i) % q->cap];
    free(q->ring);
    q->ring = ring;
    q->head = 0;
    q->cap *= 2;
}

static void append_locked(struct queue *q, void *item)
{
    if (q->count == q->cap)
        grow(q);
    q->ring[(q->head + q->count++) % q->cap] = item;
    if (q->waiting)
        pthread_cond_signal(&q->filled);
}

bool queue_push_wait(struct queue *q, void *item, int64_t wait_ms)
{
    struct timespec until = clock_mono_after(wait_ms);
    pthread_mutex_lock(&q->lock);
    q->pushers_waiting++;
    while (wait_ms > 0 && q->count >= q->limit)
        if (pthread_cond_timedwait(&q->emptied, &q->lock, &until) != 0)
            break;
    q->pushers_waiting--;
    bool fits = q->count < q->limit;
    if (fits)
        append_locked(q, item);
    pthread_mutex_unlock(&q->lock);
    return fits;
}

bool queue_push(struct queue *q, void *item)
{
    pthread_mutex_lock(&q->lock);
    bool fits = q->count < q->limit;
    if (fits)
        append_locked(q, item);
    pthread_mutex_unlock(&q->lock);
    return fits;
}

void queue_push_always(struct queue *q, void *item)
{
    pthread_mutex_lock(&q->lock);
    append_locked(q, item);
    pthread_mutex_unlock(&q->lock);
}

void *queue_pop(struct queue *q, int64_t wait_ms)
{
    struct timespec until = {0};
    if (wait_ms > 0)
        until = clock_mono_after(wait_ms);
    pthread_mutex_lock(&q->lock);
    q->waiting = true;
    while (q->count == 0 && wait_ms != 0) {
        if (wait_ms < 0)
            pthread_cond_wait(&q->filled, &q->lock);
        else if (pthread_cond_timedwait(&q->filled, &q->lock, &until) != 0)
            break;
    }
    q->waiting = false;
    void *item = NULL;
    if (q->count) {
        item = q->ring[q->head];
        q->head = (q->head + 1) % q->cap;
        q->count--;
        if (q->pushers_waiting)
            pthread_cond_signal(&q->emptied);
    }
    pthread_mutex_unlock(&q->lock);
    return item;
}

size_t queue_length(struct queue *q)
{
    pthread_mutex_lock(&q->lock);
    size_t n = q->count;
    pthread_mutex_unlock(&q->lock);
    return n;
}
