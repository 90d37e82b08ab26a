#include "proxy/relay.h"
#include "common/base/check.h"
#include "common/base/mem.h"
#include "proxy/worker.h"
#include <stdlib.h>

/* A request of this size may be replayed: the largest a member takes. */
#define REPLAY_CALL_BYTES (1280u << 10)
/* Memory that a finished call keeps for the next one that uses its struct. */
#define KEPT_BYTES 4096
#define KEPT_CALLS 1024
#define CALL_KEPT offsetof(struct call, worker)
#define PAUSE_MIN_MS 20
#define PAUSE_MAX_MS 1000

static const struct up_stream_ops call_ops;

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
    c->arrived_ms = worker_now_ms(w);
    c->deadline_ms = c->first_sent_ms = RELAY_NEVER;
    c->park_until_ms = c->arrived_ms + w->shared->options.park_timeout_ms;
    stat_add(&w->stats.calls, 1);
    return c;
}

static void free_call(struct call *c)
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

static void set_timer(struct call *c)
{
    int64_t at_ms = c->deadline_ms;
    if (c->state == CALL_PARKED) {
        if (c->park_until_ms < at_ms)
            at_ms = c->park_until_ms;
        if (c->pausing && c->due_ms < at_ms)
            at_ms = c->due_ms;
    }
    if (at_ms == RELAY_NEVER || c->state == CALL_DONE)
        wheel_clear(&c->worker->wheel, &c->timer);
    else if (!c->timer.link || c->timer.at_ms != at_ms)
        worker_wheel_set(c->worker, &c->timer, at_ms);
}

static void count_status(struct call *c, uint64_t status)
{
    if (status >= STATS_STATUSES)
        status = STATS_STATUSES - 1;
    stat_add(&c->worker->stats.rpcs[c->class][status], 1);
}

/* The call is decided: no attempt, no timer, no place in the line. */
static void settle(struct call *c)
{
    c->state = CALL_DONE;
    wheel_clear(&c->worker->wheel, &c->timer);
}

static void count_parked(struct call *c)
{
    struct stats *s = &c->worker->stats;
    int64_t ms = worker_now_ms(c->worker) - c->parked_since_ms;
    int i = 0;
    while (i < STATS_PARK_BUCKETS && ms > stats_park_bounds_ms[i])
        i++;
    stat_add(&s->park_buckets[i], 1);
    stat_add(&s->park_ms, (uint64_t)ms);
}

static void leave_lot(struct call *c)
{
    struct parking *lot = &c->worker->parking;
    if (c->state != CALL_PARKED)
        return;
    parking_remove(lot, c);
    lot->held--;
    stat_set(&c->worker->stats.parked_now, lot->held);
    c->pausing = false;
    count_parked(c);
}

static void leave_ramp(struct call *c)
{
    if (!c->ramped)
        return;
    c->ramped = false;
    ramp_answered(&c->worker->ramp);
    c->worker->pump = true;
}

static void fail(struct call *c, const struct relay_verdict *v)
{
    bool committed = c->state == CALL_COMMITTED;
    leave_lot(c);
    leave_ramp(c);
    up_stream_drop(&c->up, H2_CANCEL);
    count_status(c, v->status);
    settle(c);
    if (committed) {
        c->failure = *v;
        c->answer_ended = c->answer_has_trailers = true;
        client_more(c);
        return;
    }
    struct header headers[RELAY_FAILURE_HEADERS];
    size_t n = relay_failure_headers(c, v, true, headers);
    client_answer(c, headers, n, true);
}

static int64_t pause_ms(struct call *c)
{
    const struct header *pushback = header_list_find(&c->up.headers, HEADER_GRPC_PUSHBACK);
    uint64_t ms;
    if (pushback && grpc_number_parse(pushback->value, &ms) && ms <= 60000)
        return (int64_t)ms;
    struct backoff b = {.min_ms = PAUSE_MIN_MS, .max_ms = PAUSE_MAX_MS};
    for (unsigned i = 1; i < c->refusals && i < 8; i++)
        backoff_next_ms(&b, &c->worker->rng);
    return backoff_next_ms(&b, &c->worker->rng);
}

static void park(struct call *c, bool back_off);

static void send_to(struct call *c, struct uplink *l)
{
    struct worker *w = c->worker;
    struct header headers[HEADERS_MAX + RELAY_HEADERS_ADDED];
    size_t n = relay_request_headers(c, headers);
    size_t size = 0;
    for (size_t i = 0; i < n; i++)
        size += headers[i].name.len + headers[i].value.len + 32;
    if (size > uplink_header_limit(l)) {
        stat_add(&w->stats.limit_headers, 1);
        fail(c,
             &(struct relay_verdict){.status = RELAY_RESOURCE_EXHAUSTED,
                                     .reason = "HEADERS_TOO_LARGE",
                                     .message = "the header list is larger than the leader takes",
                                     .not_executed = !c->unknown,
                                     .unknown = c->unknown});
        return;
    }
    header_list_clear(&c->up.headers);
    header_list_clear(&c->up.trailers);
    bool sent = uplink_send(l, &c->up, headers, n);
    if (!sent) {
        park(c, true);
        return;
    }
    leave_lot(c);
    c->state = CALL_SENT;
    c->sent_to = l->target;
    c->attempts++;
    if (c->first_sent_ms == RELAY_NEVER)
        c->first_sent_ms = worker_now_ms(w);
    stat_add(&w->stats.attempts, 1);
    if (w->ramp.active) {
        c->ramped = true;
        ramp_sent(&w->ramp);
    }
    set_timer(c);
    if (c->owed) {
        client_credit(c, c->owed);
        c->owed = 0;
    }
}

static void decide(struct call *c, enum relay_event event);

static void park(struct call *c, bool back_off)
{
    struct worker *w = c->worker;
    leave_ramp(c);
    if (c->state != CALL_PARKED) {
        if (w->parking.held >= (size_t)w->shared->options.park_calls) {
            stat_add(&w->stats.limit_park, 1);
            decide(c, RELAY_LOT_FULL);
            return;
        }
        w->parking.held++;
        stat_set(&w->stats.parked_now, w->parking.held);
        stat_add(&w->stats.parked, 1);
        c->parked_since_ms = worker_now_ms(w);
        c->waited = true;
    }
    c->state = CALL_PARKED;
    replay_rewind(&c->body);
    if (back_off) {
        parking_remove(&w->parking, c);
        c->pausing = true;
        c->due_ms = worker_now_ms(w) + pause_ms(c);
    } else if (!c->park_link) {
        parking_add(&w->parking, c);
    }
    set_timer(c);
}

static struct uplink *find_uplink(struct call *c, enum relay_event event)
{
    struct worker *w = c->worker;
    bool in_turn = event == RELAY_TURN || w->parking.count == 0;
    if (!w->follow.leader || !in_turn || !ramp_allows(&w->ramp))
        return NULL;
    return target_pick(w->follow.leader);
}

static struct relay_facts facts_of(const struct call *c, const struct uplink *usable)
{
    return (struct relay_facts){
        .now_ms = worker_now_ms(c->worker),
        .deadline_ms = c->deadline_ms,
        .park_until_ms = c->park_until_ms,
        .first_sent_ms = c->first_sent_ms,
        .replays = c->replays,
        .usable = usable != NULL,
        .sent = c->state == CALL_SENT || c->state == CALL_COMMITTED,
        .committed = c->state == CALL_COMMITTED,
        .whole = c->body.whole,
        .may_repeat = c->class != METHOD_OTHER,
        .unknown = c->unknown,
        .same_leader = c->sent_to == c->worker->follow.leader,
    };
}

static void decide(struct call *c, enum relay_event event)
{
    struct worker *w = c->worker;
    struct uplink *l = find_uplink(c, event);
    struct relay_facts f = facts_of(c, l);
    struct relay_verdict v = relay_decide(&f, event, &w->shared->relay_limits);
    if (v.act == RELAY_PASS)
        return;
    up_stream_drop(&c->up, H2_CANCEL);
    if (v.repeats) {
        c->unknown = true;
        c->replays++;
        stat_add(&w->stats.replays, 1);
    }
    switch (v.act) {
    case RELAY_SEND:
        leave_ramp(c);
        if (c->body.whole)
            replay_rewind(&c->body);
        send_to(c, l);
        break;
    case RELAY_PARK:
        park(c, v.back_off);
        break;
    case RELAY_FAIL:
        fail(c, &v);
        break;
    case RELAY_PASS:
        break;
    }
}

static void answer_http(struct call *c, int status)
{
    struct header headers[] = {
        header_of(":status", bytes_str(status == 405 ? "405" : "415")),
        header_of("content-length", bytes_str("0")),
        header_of("allow", bytes_str("POST")),
    };
    count_status(c, STATS_STATUSES);
    settle(c);
    client_answer(c, headers, status == 405 ? 3 : 2, true);
}

static bool has_relay_room(const struct worker *w)
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
            fail(c, &refusal);
        return;
    }
    if (!has_relay_room(c->worker)) {
        stat_add(&c->worker->stats.limit_relay, 1);
        decide(c, RELAY_LOT_FULL);
        return;
    }
    decide(c, RELAY_ARRIVED);
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
    stat_add(&c->worker->stats.bytes_in, data.len);
    if (c->state == CALL_DONE) {
        client_credit(c, data.len);
        return;
    }
    c->owed += data.len;
    c->received += data.len;
    replay_append(&c->body, data, c->state != CALL_PARKED);
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

static struct bytes call_body(struct up_stream *up, bool *ended)
{
    struct call *c = (struct call *)up;
    *ended = c->body.ended;
    return replay_unsent(&c->body);
}

static void call_body_sent(struct up_stream *up, size_t bytes)
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
    leave_lot(c);
    leave_ramp(c);
    up_stream_drop(&c->up, H2_CANCEL);
    settle(c);
    free_call(c);
}

/* Trailers-Only UNAVAILABLE that promises that nothing was done. */
static bool is_refusal(const struct header_list *l)
{
    const struct header *status = header_list_find(l, HEADER_GRPC_STATUS);
    const struct header *nothing = header_list_find(l, HEADER_NOT_EXECUTED);
    return status && nothing && bytes_equal(status->value, bytes_str("14")) &&
           bytes_equal(nothing->value, bytes_str("1"));
}

static struct bytes value_of(const struct header_list *l, enum header_kind kind)
{
    const struct header *h = header_list_find(l, kind);
    return h ? h->value : BYTES_NONE;
}

static void on_refusal(struct call *c)
{
    const struct header_list *l = &c->up.headers;
    c->refusals++;
    up_stream_drop(&c->up, H2_NO_ERROR);
    follow_hint(&c->worker->follow, value_of(l, HEADER_LEADER), value_of(l, HEADER_EPOCH),
                value_of(l, HEADER_CLUSTER));
    decide(c, RELAY_NOT_DONE);
}

static void count_answer(struct call *c)
{
    uint64_t status;
    const struct header_list *l = c->answer_has_trailers ? &c->up.trailers : &c->up.headers;
    if (!grpc_number_parse(value_of(l, HEADER_GRPC_STATUS), &status))
        status = STATS_STATUSES;
    count_status(c, status);
}

/* The leader ended the call. When it did so before the request was complete, nobody wants the rest.
 */
static void end_answer(struct call *c)
{
    count_answer(c);
    settle(c);
    if (!c->up.body_ended)
        up_stream_drop(&c->up, H2_NO_ERROR);
}

static void call_headers(struct up_stream *up, bool trailers, bool end)
{
    struct call *c = (struct call *)up;
    if (trailers) {
        c->answer_ended = c->answer_has_trailers = true;
        end_answer(c);
        client_more(c);
        return;
    }
    leave_ramp(c);
    if (end && is_refusal(&up->headers)) {
        on_refusal(c);
        return;
    }
    struct header headers[HEADERS_MAX + RELAY_HEADERS_ADDED];
    size_t n = relay_answer_headers(c, &up->headers, headers);
    replay_forget(&c->body);
    c->state = CALL_COMMITTED;
    if (end)
        end_answer(c);
    client_answer(c, headers, n, end);
}

/* What widened windows promise is at most half of --relay-bytes; the rest is for the first windows.
 */
static void widen_answer(struct call *c)
{
    struct worker *w = c->worker;
    size_t window = (size_t)w->shared->options.stream_window;
    if (window <= UPLINK_FIRST_WINDOW ||
        w->widened_bytes + window > (size_t)w->shared->options.relay_bytes / 2)
        return;
    c->answer_widened = true;
    w->widened_bytes += window;
    up_stream_widen(&c->up);
}

/* The client takes too little for too long: a reset needs no window. */
void relay_cut(struct call *c)
{
    if (c->state != CALL_DONE)
        count_status(c, RELAY_RESOURCE_EXHAUSTED);
    leave_ramp(c);
    up_stream_drop(&c->up, H2_CANCEL);
    settle(c);
    client_reset(c, H2_ENHANCE_YOUR_CALM);
    free_call(c);
}

static void call_data(struct up_stream *up, struct bytes data)
{
    struct call *c = (struct call *)up;
    struct worker *w = c->worker;
    stat_add(&w->stats.bytes_out, data.len);
    if (call_answer(c).len == 0)
        c->moved_ms = worker_now_ms(w);
    w->relay_bytes += data.len;
    c->answered += data.len;
    buf_bytes(&c->answer, data);
    if (!has_relay_room(w) && call_answer(c).len > UPLINK_FIRST_WINDOW / 2) {
        stat_add(&w->stats.limit_relay, 1);
        relay_cut(c);
        return;
    }
    if (!c->answer_widened && c->answered > UPLINK_FIRST_WINDOW / 4)
        widen_answer(c);
    client_more(c);
}

/* An end without trailers: no gRPC, but what it is is not for us to say. */
static void call_end(struct up_stream *up)
{
    struct call *c = (struct call *)up;
    c->answer_ended = true;
    count_status(c, STATS_STATUSES);
    settle(c);
    client_more(c);
}

/* A reset without END_STREAM is never a good end, whatever its code says. What the client was
 * already given goes out before. */
static void pass_reset(struct call *c, bool committed, uint32_t code)
{
    c->reset_code = code == H2_NO_ERROR ? H2_INTERNAL_ERROR : code;
    if (committed) {
        c->answer_reset = true;
        client_more(c);
        return;
    }
    client_reset(c, (enum h2_code)c->reset_code);
    free_call(c);
}

static void call_over(struct up_stream *up, enum up_end how, uint32_t code)
{
    struct call *c = (struct call *)up;
    if (c->state == CALL_DONE)
        return;
    leave_ramp(c);
    bool committed = c->state == CALL_COMMITTED;
    switch (how) {
    case UP_NOT_SENT:
        decide(c, committed ? RELAY_LOST : RELAY_NOT_SENT);
        return;
    case UP_REFUSED:
        c->refusals++;
        decide(c, committed ? RELAY_LOST : RELAY_REFUSED);
        return;
    case UP_LOST:
        decide(c, RELAY_LOST);
        return;
    case UP_RESET:
    case UP_CLOSED:
        break;
    }
    count_status(c, STATS_STATUSES);
    settle(c);
    pass_reset(c, committed, code);
}

static const struct up_stream_ops call_ops = {
    .on_headers = call_headers,
    .on_data = call_data,
    .on_end = call_end,
    .on_over = call_over,
    .body = call_body,
    .on_body_sent = call_body_sent,
};

void call_answer_sent(struct call *c, size_t bytes)
{
    c->answer_at += bytes;
    c->moved_ms = worker_now_ms(c->worker);
    c->worker->relay_bytes -= bytes;
    if (c->answer_at == c->answer.len) {
        buf_clear(&c->answer);
        c->answer_at = 0;
    } else if (c->answer_at > c->answer.len / 2 && c->answer_at > KEPT_BYTES) {
        buf_consume(&c->answer, c->answer_at);
        c->answer_at = 0;
    }
    up_stream_credit(&c->up, bytes);
}

void call_with_trailers(struct call *c, void (*submit)(void *arg, const struct header *h, size_t n),
                        void *arg)
{
    if (c->failure.act == RELAY_FAIL) {
        struct header headers[RELAY_FAILURE_HEADERS];
        submit(arg, headers, relay_failure_headers(c, &c->failure, false, headers));
        return;
    }
    struct header headers[HEADERS_MAX + RELAY_HEADERS_ADDED];
    submit(arg, headers, relay_answer_headers(c, &c->up.trailers, headers));
}

void relay_pump(struct worker *w)
{
    w->pump = false;
    while (w->parking.first && w->follow.leader && ramp_allows(&w->ramp) &&
           target_pick(w->follow.leader))
        decide(w->parking.first, RELAY_TURN);
    if (!w->parking.first)
        ramp_stop(&w->ramp);
}

void relay_on_timer(struct wheel_entry *e)
{
    struct call *c = (struct call *)((char *)e - offsetof(struct call, timer));
    struct worker *w = c->worker;
    decide(c, RELAY_TIME);
    if (c->state == CALL_DONE)
        return;
    if (c->pausing && worker_now_ms(w) >= c->due_ms) {
        c->pausing = false;
        parking_add(&w->parking, c);
        w->pump = true;
    }
    set_timer(c);
}

static bool is_call(const struct up_stream *up)
{
    return up->ops == &call_ops;
}

static void tell_calls(struct uplink *l, bool committed_too, enum relay_event event)
{
    struct up_stream *next;
    for (struct up_stream *up = l->streams; up; up = next) {
        next = up->next;
        const struct call *c = (struct call *)up;
        if (is_call(up) && (c->state == CALL_SENT || (committed_too && c->state == CALL_COMMITTED)))
            decide((struct call *)up, event);
    }
}

void relay_supersede(struct uplink *l)
{
    tell_calls(l, false, RELAY_SUPERSEDED);
}

void relay_abandon(struct uplink *l)
{
    tell_calls(l, true, RELAY_LOST);
}

void relay_shut(struct client *k)
{
    struct call *next;
    for (struct call *c = k->calls; c; c = next) {
        next = c->next;
        if (c->state != CALL_DONE)
            decide(c, RELAY_SHUTDOWN);
    }
}
