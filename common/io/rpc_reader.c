/* A server stream as its reader sees it. At most one message is fetched ahead, so a reader that is
 * slow holds the sender up instead of filling memory. */
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/io/rpc_client_parts.h"
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

struct rpc_reader {
    struct rpc_outcall out;
    struct rpc_event opened, received, ended;
    pthread_mutex_t lock; /* for what follows */
    pthread_cond_t changed;
    int under_way;  /* batches */
    bool has_start; /* the answer has begun: messages may be asked for */
    bool receiving, exhausted, cancelled;
    bool has_status;
    struct err end;
    struct rpc_answer answer; /* its message is unused */
};

static void batch(struct rpc_reader *r, const grpc_op *ops, size_t n, struct rpc_event *tag)
{
    r->under_way++;
    rpc_outcall_batch(&r->out, ops, n, tag);
}

/* Under the lock. */
static void fetch(struct rpc_reader *r)
{
    if (!r->has_start || r->receiving || r->exhausted || r->out.message)
        return;
    grpc_op op = rpc_outcall_message_op(&r->out);
    r->receiving = true;
    batch(r, &op, 1, &r->received);
}

static void lock(struct rpc_reader *r)
{
    pthread_mutex_lock(&r->lock);
}

static void one_less_and_unlock(struct rpc_reader *r)
{
    r->under_way--;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
}

static void on_opened(void *arg, bool ok)
{
    struct rpc_reader *r = arg;
    lock(r);
    r->has_start = true;
    r->exhausted = !ok;
    fetch(r);
    one_less_and_unlock(r);
}

static void on_received(void *arg, bool ok)
{
    struct rpc_reader *r = arg;
    lock(r);
    r->receiving = false;
    r->exhausted = !r->out.message;
    one_less_and_unlock(r);
}

static void on_ended(void *arg, bool ok)
{
    struct rpc_reader *r = arg;
    lock(r);
    r->has_status = true;
    one_less_and_unlock(r);
}

static void locks_init(struct rpc_reader *r)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&r->changed, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&r->lock, NULL);
}

struct rpc_reader *rpc_reader_open(struct rpc_channel *ch, const char *path, struct bytes request,
                                   const struct rpc_metadata *metadata, size_t n,
                                   int64_t deadline_ms)
{
    struct rpc_reader *r = mem_alloc(sizeof *r);
    locks_init(r);
    r->opened = (struct rpc_event){.on = on_opened, .arg = r};
    r->received = (struct rpc_event){.on = on_received, .arg = r};
    r->ended = (struct rpc_event){.on = on_ended, .arg = r};
    rpc_outcall_init(&r->out, ch, request, metadata, n);
    rpc_outcall_create(&r->out, path, deadline_ms);
    grpc_op ops[4];
    rpc_outcall_send_ops(&r->out, ops);
    ops[3] = rpc_outcall_initial_op(&r->out);
    grpc_op status = rpc_outcall_status_op(&r->out);
    lock(r);
    batch(r, ops, 4, &r->opened);
    batch(r, &status, 1, &r->ended);
    pthread_mutex_unlock(&r->lock);
    return r;
}

/* While C core receives, out.message is its own. */
static bool has_message(const struct rpc_reader *r)
{
    return !r->receiving && r->out.message;
}

static bool is_over(const struct rpc_reader *r)
{
    return r->has_status && r->under_way == 0 && !r->out.message;
}

/* Waits for something to say. deadline_us is on the monotonic clock. false: nothing came. */
static bool wait_news(struct rpc_reader *r, int64_t deadline_us)
{
    struct timespec until = {.tv_sec = deadline_us / 1000000,
                             .tv_nsec = deadline_us % 1000000 * 1000};
    while (!has_message(r) && !is_over(r)) {
        if (deadline_us == INT64_MAX)
            pthread_cond_wait(&r->changed, &r->lock);
        else if (pthread_cond_timedwait(&r->changed, &r->lock, &until) == ETIMEDOUT)
            break;
    }
    return has_message(r) || is_over(r);
}

static int64_t to_mono_us(int64_t deadline_ms)
{
    if (deadline_ms == INT64_MAX)
        return INT64_MAX;
    int64_t left = deadline_ms - clock_boot_ms();
    return clock_mono_us() + (left > 0 ? left : 0) * 1000;
}

static struct err finish(struct rpc_reader *r)
{
    if (r->answer.sent)
        return r->end;
    r->end = rpc_outcall_finish(&r->out, &r->answer);
    if (r->cancelled && err_is(&r->end))
        r->end = err_make(ERR_CANCELLED, "%s: the stream was cancelled", r->out.channel->addr);
    return r->end;
}

enum rpc_next rpc_reader_next(struct rpc_reader *r, int64_t deadline_ms, struct buf *out,
                              struct err *e)
{
    enum rpc_next next = RPC_NEXT_NOTHING;
    *e = OK_ERR;
    lock(r);
    if (wait_news(r, to_mono_us(deadline_ms))) {
        if (rpc_outcall_take_message(&r->out, out)) {
            next = RPC_NEXT_MESSAGE;
            fetch(r);
        } else {
            next = RPC_NEXT_END;
            *e = finish(r);
        }
    }
    pthread_mutex_unlock(&r->lock);
    return next;
}

const struct rpc_answer *rpc_reader_answer(const struct rpc_reader *r)
{
    return &r->answer;
}

void rpc_reader_cancel(struct rpc_reader *r)
{
    lock(r);
    r->cancelled = true;
    pthread_mutex_unlock(&r->lock);
    grpc_call_cancel(r->out.core, NULL);
}

void rpc_reader_free(struct rpc_reader *r)
{
    if (!r)
        return;
    rpc_reader_cancel(r);
    lock(r);
    while (r->under_way > 0)
        pthread_cond_wait(&r->changed, &r->lock);
    pthread_mutex_unlock(&r->lock);
    rpc_outcall_close(&r->out);
    pthread_mutex_destroy(&r->lock);
    pthread_cond_destroy(&r->changed);
    free(r);
}
