/* A call as its client sees it: its memory, its request, its end. */
#include "common/base/check.h"
#include "common/base/mem.h"
#include "proxy/relay_parts.h"
#include "proxy/worker.h"
#include <stdlib.h>

/* A request of this size may be replayed: the largest a member takes. */
#define REPLAY_CALL_BYTES (1280u << 10)
/* Memory that a finished call keeps for the next one that uses its struct. */
#define KEPT_BYTES 4096
#define KEPT_CALLS 1024
#define CALL_KEPT offsetof(struct call, worker)

struct call *call_open(struct client *k, int32_t stream_id)
{
    struct worker *w = k->session.worker;
    struct call *c = w->free_calls;
    if (c) {
        w->free_calls = c->next;
        w->free_call_count--;
        memset((char *)c + CALL_KEPT, 0, sizeof *c - CALL_KEPT);
    } else {
        c = mem_alloc(sizeof *c);
    }
    c->worker = w;
    c->client = k;
    c->stream_id = stream_id;
    c->up.ops = &call_ops;
    c->up.link = NULL;
    replay_init(&c->body, REPLAY_CALL_BYTES, &w->replay_budget);
    c->arrived_ns = worker_turn_ns(w);
    c->arrived_ms = worker_now_ms(w);
    c->deadline_ms = c->first_sent_ms = RELAY_NEVER;
    c->park_until_ms = c->arrived_ms + w->shared->options.park_timeout_ms;
    stat_add(&w->stats.calls, 1);
    return c;
}

void call_free(struct call *c)
{
    struct worker *w = c->worker;
    PRE(!c->client && !c->up.link && !c->park_link);
    wheel_clear(&w->wheel, &c->timer);
    header_list_clear(&c->request);
    header_list_clear(&c->up.headers);
    header_list_clear(&c->up.trailers);
    replay_close(&c->body, KEPT_BYTES);
    w->relay_bytes -= call_answer(c).len;
    if (c->answer_widened)
        w->widened_bytes -= (size_t)w->shared->options.stream_window;
    if (c->answer.cap > KEPT_BYTES)
        buf_close(&c->answer);
    c->answer.len = 0;
    stat_add(&w->stats.calls, (uint64_t)-1);
    if (w->free_call_count < KEPT_CALLS) {
        c->next = w->free_calls;
        w->free_calls = c;
        w->free_call_count++;
    } else {
        call_memory_free(c);
    }
}

void call_memory_free(struct call *c)
{
    header_list_close(&c->request);
    header_list_close(&c->up.headers);
    header_list_close(&c->up.trailers);
    buf_close(&c->body.data);
    buf_close(&c->answer);
    free(c);
}

static void answer_http(struct call *c, int status)
{
    struct header headers[] = {
        header_of(":status", bytes_str(status == 405 ? "405" : "415")),
        header_of("content-length", bytes_str("0")),
        header_of("allow", bytes_str("POST")),
    };
    call_count(c, STATS_STATUSES);
    call_settle(c);
    client_answer(c, headers, status == 405 ? 3 : 2, true);
}

bool relay_has_room(const struct worker *w)
{
    return w->relay_bytes < (size_t)w->shared->options.relay_bytes;
}

void call_on_request(struct call *c, bool ended)
{
    struct relay_verdict refusal;
    int http_status;
    c->body.ended = ended;
    if (!relay_check_request(c, &refusal, &http_status)) {
        if (http_status)
            answer_http(c, http_status);
        else
            call_fail(c, &refusal);
        return;
    }
    if (!relay_has_room(c->worker)) {
        stat_add(&c->worker->stats.limit_relay, 1);
        call_decide(c, RELAY_LOT_FULL);
        return;
    }
    call_decide(c, RELAY_ARRIVED);
}

/* Credit for what was received: at once while the replay buffer takes it and the call is under way;
 * else when the bytes leave. A parked call gets none: it holds at most the first window. */
static void credit_received(struct call *c)
{
    const struct worker *w = c->worker;
    bool under_way = c->state == CALL_SENT;
    if (!under_way || !c->body.whole ||
        replay_room(&c->body) < (size_t)w->shared->options.stream_window)
        return;
    client_credit(c, c->owed);
    c->owed = 0;
}

void call_on_request_data(struct call *c, struct bytes data)
{
    stat_add(&c->worker->stats.request_bytes, data.len);
    if (c->state == CALL_DONE) {
        client_credit(c, data.len);
        return;
    }
    c->owed += data.len;
    c->received += data.len;
    bool was_whole = c->body.whole;
    replay_append(&c->body, data, c->state != CALL_PARKED);
    if (was_whole && !c->body.whole)
        stat_add(&c->worker->stats.limit_replay, 1);
    if (c->state == CALL_PARKED)
        return;
    if (!c->widened && c->received > (size_t)c->worker->shared->first_window / 4) {
        c->widened = true;
        client_widen(c);
    }
    credit_received(c);
    up_stream_more(&c->up);
}

void call_on_request_end(struct call *c)
{
    c->body.ended = true;
    up_stream_more(&c->up);
}

struct bytes call_body(struct up_stream *up, bool *ended)
{
    struct call *c = (struct call *)up;
    *ended = c->body.ended;
    return replay_unsent(&c->body);
}

void call_body_sent(struct up_stream *up, size_t bytes)
{
    struct call *c = (struct call *)up;
    replay_sent(&c->body, bytes);
    if (!c->owed || !c->client)
        return;
    size_t credit = bytes < c->owed ? bytes : c->owed;
    client_credit(c, credit);
    c->owed -= credit;
}

void call_on_client_gone(struct call *c)
{
    if (c->state != CALL_DONE)
        stat_add(&c->worker->stats.cancelled, 1);
    call_leave_lot(c);
    call_leave_ramp(c);
    up_stream_drop(&c->up, H2_CANCEL);
    call_settle(c);
    call_free(c);
}
