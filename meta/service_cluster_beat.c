/* Heartbeats. The read gate is looked at first: see meta/core/workers.h for what an OK rests on. */
#include "common/base/mem.h"
#include "meta/board.h"
#include "meta/convert_worker.h"
#include "meta/metrics.h"
#include "meta/service_cluster_parts.h"
#include "meta/workforce.h"
#include <pthread.h>
#include <stdlib.h>

static struct err no_beat(enum workforce_beat beat, const struct heartbeat *h)
{
    unsigned long long id = h->id, incarnation = h->incarnation;
    if (beat == BEAT_STALE)
        return err_make(ERR_STALE_INCARNATION,
                        "worker %llu: another process has registered its address since incarnation "
                        "%llu: this one is over",
                        id, incarnation);
    if (beat == BEAT_UNKNOWN)
        return err_make(ERR_UNKNOWN_WORKER,
                        "there is no worker %llu of incarnation %llu: it expired or was deleted, "
                        "register again",
                        id, incarnation);
    return err_make(ERR_NOT_LEADER, "this member leads no more: ask again");
}

/* ---- one ---- */

/* A call that waits until it is known whether its worker has expired. */
struct waiting_beat {
    struct workforce_waiter waiter;
    struct service_cluster *service;
    struct rpc_call *call;
    uint64_t confirmed;
};

static void run_heartbeat(struct rpc_call *call, void *ctx, uint64_t confirmed);

static void beat_again(struct workforce_waiter *waiter)
{
    struct waiting_beat w = *(struct waiting_beat *)waiter;
    free(waiter);
    run_heartbeat(w.call, w.service, w.confirmed);
}

static void answer(struct service_cluster *s, struct rpc_call *call, uint64_t epoch,
                   const struct worker_seat *seat)
{
    struct buf message = {0};
    convert_heartbeat_answer(seat->id, seat->ttl_ms, seat->cordoned, seat->draining, NULL,
                             &message);
    lead_reply(s->lead, call, epoch, false, buf_view(&message));
    buf_close(&message);
}

/* The end may have been settled meanwhile: then the answer is as of any heartbeat. */
static enum workforce_beat wait_for_end(struct service_cluster *s, struct rpc_call *call,
                                        uint64_t epoch, uint64_t confirmed,
                                        const struct heartbeat *h, struct worker_seat *seat)
{
    struct waiting_beat *w = mem_alloc(sizeof *w);
    *w = (struct waiting_beat){{.again = beat_again}, s, call, confirmed};
    enum workforce_beat said =
        workforce_beat(s->workforce, epoch, h->id, h->incarnation, &w->waiter, seat);
    if (said != BEAT_WAITS)
        free(w);
    return said;
}

static void beat(struct service_cluster *s, struct rpc_call *call, uint64_t epoch,
                 uint64_t confirmed, const struct heartbeat *h)
{
    struct worker_seat seat;
    enum workforce_beat said =
        workforce_beat(s->workforce, epoch, h->id, h->incarnation, NULL, &seat);
    if (said == BEAT_WAITS)
        said = wait_for_end(s, call, epoch, confirmed, h, &seat);
    if (said == BEAT_WAITS)
        return;
    meta_count_heartbeat(said);
    if (said == BEAT_OK) {
        answer(s, call, epoch, &seat);
        return;
    }
    struct err e = no_beat(said, h);
    if (said == BEAT_NOT_LED)
        lead_refuse(s->lead, call, &e);
    else
        lead_fail(s->lead, call, &e);
}

static void run_heartbeat(struct rpc_call *call, void *ctx, uint64_t confirmed)
{
    struct service_cluster *s = ctx;
    struct heartbeat h;
    struct err e = convert_heartbeat(rpc_call_body(call), &h);
    if (err_is(&e)) {
        lead_fail(s->lead, call, &e);
        return;
    }
    if (!lead_check_epoch(s->lead, call, confirmed, run_heartbeat, s))
        return;
    uint64_t epoch = confirmed ? confirmed : board_read_epoch(s->lead->board);
    if (epoch)
        beat(s, call, epoch, confirmed, &h);
    else
        lead_confirm_or_refuse(s->lead, call, run_heartbeat, s);
}

void cluster_handle_heartbeat(struct rpc_call *call, void *ctx)
{
    run_heartbeat(call, ctx, 0);
}

/* ---- many, on one stream ---- */

/* Used by the stream's events and, while a heartbeat waits, by the replica thread; whoever lets go
 * of it last frees it. */
struct beat_stream {
    struct service_cluster *service;
    struct rpc_call *call;
    pthread_mutex_t lock;
    bool ended; /* the call is not to be touched */
    int refs;
};

struct waiting_stream {
    struct workforce_waiter waiter;
    struct beat_stream *stream;
    struct heartbeat heartbeat;
};

static void let_go(struct beat_stream *b)
{
    pthread_mutex_lock(&b->lock);
    bool last = --b->refs == 0;
    pthread_mutex_unlock(&b->lock);
    if (!last)
        return;
    pthread_mutex_destroy(&b->lock);
    free(b);
}

/* Once, by whoever finds first that it is over. */
static void end_stream(struct beat_stream *b, const struct err *why)
{
    pthread_mutex_lock(&b->lock);
    bool ended = b->ended;
    b->ended = true;
    pthread_mutex_unlock(&b->lock);
    if (ended)
        return;
    if (why && why->code == ERR_NOT_LEADER)
        lead_refuse(b->service->lead, b->call, why);
    else if (why)
        lead_fail(b->service->lead, b->call, why);
    else
        rpc_stream_end(b->call, NULL, NULL);
    let_go(b);
}

static struct err say(struct beat_stream *b, const struct heartbeat *h, enum workforce_beat said,
                      const struct worker_seat *seat)
{
    struct buf message = {0};
    if (said == BEAT_OK) {
        convert_heartbeat_answer(h->id, seat->ttl_ms, seat->cordoned, seat->draining, NULL,
                                 &message);
    } else {
        struct err e = no_beat(said, h);
        convert_heartbeat_answer(h->id, 0, false, false, err_word(e.code), &message);
    }
    bool sent = rpc_stream_send(b->call, buf_view(&message));
    buf_close(&message);
    if (sent)
        return OK_ERR;
    return err_make(ERR_OVERLOADED,
                    "answers are not read: read them as fast as heartbeats are sent");
}

static void stream_beat(struct beat_stream *b, const struct heartbeat *h);

static void stream_beat_again(struct workforce_waiter *waiter)
{
    struct waiting_stream *w = (struct waiting_stream *)waiter;
    stream_beat(w->stream, &w->heartbeat);
    let_go(w->stream);
    free(w);
}

/* As wait_for_end, for a stream whose lock is held; the waiter holds on to the stream. */
static enum workforce_beat stream_wait_for_end(struct beat_stream *b, uint64_t epoch,
                                               const struct heartbeat *h, struct worker_seat *seat)
{
    struct waiting_stream *w = mem_alloc(sizeof *w);
    *w = (struct waiting_stream){{.again = stream_beat_again}, b, *h};
    enum workforce_beat said =
        workforce_beat(b->service->workforce, epoch, h->id, h->incarnation, &w->waiter, seat);
    if (said == BEAT_WAITS)
        b->refs++;
    else
        free(w);
    return said;
}

/* Answers one heartbeat and asks for the next, or has to wait with that. */
static struct err stream_answer(struct beat_stream *b, const struct heartbeat *h,
                                enum workforce_beat *said)
{
    struct worker_seat seat;
    uint64_t epoch = b->ended ? 0 : board_read_epoch(b->service->lead->board);
    *said = BEAT_NOT_LED;
    if (epoch)
        *said = workforce_beat(b->service->workforce, epoch, h->id, h->incarnation, NULL, &seat);
    if (*said == BEAT_WAITS)
        *said = stream_wait_for_end(b, epoch, h, &seat);
    if (*said == BEAT_WAITS)
        return OK_ERR;
    struct err e = *said == BEAT_NOT_LED ? no_beat(*said, h) : say(b, h, *said, &seat);
    if (!err_is(&e))
        rpc_stream_receive(b->call);
    return e;
}

/* The caller holds on to the stream. */
static void stream_beat(struct beat_stream *b, const struct heartbeat *h)
{
    enum workforce_beat said;
    pthread_mutex_lock(&b->lock);
    struct err e = stream_answer(b, h, &said);
    pthread_mutex_unlock(&b->lock);
    if (said != BEAT_WAITS)
        meta_count_heartbeat(said);
    if (err_is(&e))
        end_stream(b, &e);
}

static void on_request(struct beat_stream *b)
{
    struct heartbeat h;
    struct err e = convert_heartbeat(rpc_call_body(b->call), &h);
    if (err_is(&e))
        end_stream(b, &e);
    else
        stream_beat(b, &h);
}

static void on_event(struct rpc_call *call, enum rpc_stream_event event, void *user)
{
    struct beat_stream *b = user;
    switch (event) {
    case RPC_STREAM_REQUEST:
        on_request(b);
        break;
    case RPC_STREAM_NO_MORE:
    case RPC_STREAM_GONE:
        end_stream(b, NULL);
        break;
    case RPC_STREAM_WRITABLE:
        break;
    }
}

static void run_stream(struct rpc_call *call, void *ctx, uint64_t confirmed)
{
    struct service_cluster *s = ctx;
    if (!lead_check_epoch(s->lead, call, confirmed, run_stream, s))
        return;
    uint64_t epoch = board_read_epoch(s->lead->board);
    if (!epoch && !confirmed) {
        lead_confirm_or_refuse(s->lead, call, run_stream, s);
        return;
    }
    struct beat_stream *b = mem_alloc(sizeof *b);
    b->service = s;
    b->call = call;
    b->refs = 1;
    pthread_mutex_init(&b->lock, NULL);
    lead_stream_begin(s->lead, call, epoch ? epoch : confirmed, on_event, b);
}

void cluster_handle_heartbeats(struct rpc_call *call, void *ctx)
{
    run_stream(call, ctx, 0);
}
