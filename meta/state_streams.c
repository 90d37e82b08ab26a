#include "meta/state_streams.h"
#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/base/queue.h"
#include "common/base/thread.h"
#include <stdatomic.h>
#include <stdlib.h>

enum { TOPIC_MAX = 200, STREAMS_MAX = 10000 };
enum { LOOK_MS = 500 }; /* a state may also change by time passing, as when a leader falls silent */

struct stream {
    struct rpc_call *call;
    struct state_streams *owner;
    char *topic;
    struct buf sent; /* the last message */
    int64_t sent_ms;
    _Atomic bool gone;
    _Atomic bool owed; /* a message that waits until the one before is out */
    struct stream *next;
};

struct state_streams {
    struct state_streams_config cfg;
    pthread_t thread;
    struct queue *inbox; /* streams to add, or &a_wake */
    struct stream *streams;
    _Atomic int count; /* of streams, those in the inbox too */
    _Atomic bool stopping;
};

static int a_wake;

void state_streams_changed(struct state_streams *s)
{
    queue_push(s->inbox, &a_wake); /* a full inbox is awake already */
}

static void on_event(struct rpc_call *call, enum rpc_stream_event event, void *user)
{
    struct stream *stream = user;
    if (event == RPC_STREAM_GONE) {
        struct state_streams *owner = stream->owner;
        atomic_store(&stream->gone, true);
        queue_push_always(owner->inbox, &a_wake);
    } else if (atomic_exchange(&stream->owed, false)) {
        state_streams_changed(stream->owner);
    }
}

void state_streams_open(struct state_streams *s, struct rpc_call *call, const char *topic)
{
    if (atomic_fetch_add(&s->count, 1) >= STREAMS_MAX) {
        atomic_fetch_sub(&s->count, 1);
        struct err e = err_make(ERR_OVERLOADED,
                                "this member serves %d streams of this kind "
                                "already: ask another member",
                                STREAMS_MAX);
        rpc_stream_end(call, &e, NULL);
        return;
    }
    struct stream *stream = mem_alloc(sizeof *stream);
    stream->call = call;
    stream->owner = s;
    stream->topic = mem_strndup(topic, TOPIC_MAX);
    rpc_stream_begin(call, on_event, stream, NULL, 0);
    queue_push_always(s->inbox, stream);
}

static void end_stream(struct stream *stream)
{
    struct err e = err_make(ERR_DRAINING, "this member is shutting down");
    rpc_stream_end(stream->call, &e, NULL);
    atomic_fetch_sub(&stream->owner->count, 1);
    buf_close(&stream->sent);
    free(stream->topic);
    free(stream);
}

static void send_if_due(struct state_streams *s, struct stream *stream, int64_t now_ms)
{
    atomic_store(&stream->owed, true); /* before the look: what is out by then is not told again */
    if (rpc_stream_pending(stream->call) > 0)
        return;
    atomic_store(&stream->owed, false);
    struct buf message = {0};
    s->cfg.message(s->cfg.ctx, stream->topic, &message);
    bool keepalive = s->cfg.keepalive_ms && now_ms - stream->sent_ms >= s->cfg.keepalive_ms;
    bool changed = !stream->sent_ms || !bytes_equal(buf_view(&message), buf_view(&stream->sent));
    if ((changed || keepalive) && rpc_stream_send(stream->call, buf_view(&message))) {
        stream->sent_ms = now_ms;
        buf_close(&stream->sent);
        stream->sent = message;
        return;
    }
    buf_close(&message);
}

static void serve_all(struct state_streams *s)
{
    int64_t now_ms = clock_boot_ms();
    for (struct stream **at = &s->streams; *at;) {
        struct stream *stream = *at;
        if (atomic_load(&stream->gone)) {
            *at = stream->next;
            end_stream(stream);
        } else {
            send_if_due(s, stream, now_ms);
            at = &stream->next;
        }
    }
}

static void *streams_run(void *arg)
{
    struct state_streams *s = arg;
    while (!atomic_load(&s->stopping)) {
        void *item = queue_pop(s->inbox, LOOK_MS);
        for (; item; item = queue_pop(s->inbox, 0)) {
            if (item == &a_wake)
                continue;
            struct stream *stream = item;
            stream->next = s->streams;
            s->streams = stream;
        }
        serve_all(s);
    }
    return NULL;
}

struct state_streams *state_streams_start(const struct state_streams_config *cfg)
{
    struct state_streams *s = mem_alloc(sizeof *s);
    s->cfg = *cfg;
    s->inbox = queue_new(64);
    s->thread = thread_start(cfg->thread_name, streams_run, s);
    return s;
}

void state_streams_stop(struct state_streams *s)
{
    if (!s)
        return;
    atomic_store(&s->stopping, true);
    queue_push_always(s->inbox, &a_wake);
    pthread_join(s->thread, NULL);
    queue_free(s->inbox);
    free(s);
}
