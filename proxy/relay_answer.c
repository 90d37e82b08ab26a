/* A call as the leader answers it: refusals, headers, data, trailers, and how its stream ends. */
#include "proxy/relay_parts.h"
#include "proxy/worker.h"

/* Answer bytes that were sent are moved out of the way when they are so many, and half of all. */
#define COMPACT_BYTES 4096

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
    call_decide(c, RELAY_NOT_DONE);
}

static void count_answer(struct call *c)
{
    uint64_t status;
    const struct header_list *l = c->answer_has_trailers ? &c->up.trailers : &c->up.headers;
    if (!grpc_number_parse(value_of(l, HEADER_GRPC_STATUS), &status))
        status = STATS_STATUSES;
    call_count(c, status);
}

/* The leader ended the call. When it did so before the request was complete, nobody wants the rest.
 */
static void end_answer(struct call *c)
{
    count_answer(c);
    call_settle(c);
    if (!c->up.body_ended)
        up_stream_drop(&c->up, H2_NO_ERROR);
}

/* What came of the answer goes to the client, and so does all that follows: no other attempt. */
static void commit(struct call *c, bool end)
{
    struct header headers[HEADERS_MAX + RELAY_HEADERS_ADDED];
    size_t n = relay_answer_headers(c, &c->up.headers, headers);
    replay_forget(&c->body);
    c->state = CALL_COMMITTED;
    c->moved_ms = worker_now_ms(c->worker);
    client_answer(c, headers, n, end);
}

static void hold_or_commit(struct call *c)
{
    struct relay_facts f = call_facts(c, NULL);
    if (relay_decide(&f, RELAY_ANSWERED, &c->worker->shared->relay_limits).act != RELAY_HOLD)
        commit(c, false);
}

void call_drop_answer(struct call *c)
{
    struct worker *w = c->worker;
    w->relay_bytes -= call_answer(c).len;
    buf_clear(&c->answer);
    c->answered = 0;
    if (c->answer_widened)
        w->widened_bytes -= (size_t)w->shared->options.stream_window;
    c->answer_widened = false;
}

static void call_headers(struct up_stream *up, bool trailers, bool end)
{
    struct call *c = (struct call *)up;
    if (trailers) {
        if (c->state == CALL_SENT)
            commit(c, false);
        c->answer_ended = c->answer_has_trailers = true;
        end_answer(c);
        client_more(c);
        return;
    }
    call_leave_ramp(c);
    if (end && is_refusal(&up->headers)) {
        on_refusal(c);
        return;
    }
    if (!end) {
        hold_or_commit(c);
        return;
    }
    commit(c, true);
    end_answer(c);
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
        call_count(c, RELAY_RESOURCE_EXHAUSTED);
    call_leave_ramp(c);
    up_stream_drop(&c->up, H2_CANCEL);
    call_settle(c);
    client_reset(c, H2_ENHANCE_YOUR_CALM);
    call_free(c);
}

static void call_data(struct up_stream *up, struct bytes data)
{
    struct call *c = (struct call *)up;
    struct worker *w = c->worker;
    stat_add(&w->stats.answer_bytes, data.len);
    if (call_answer(c).len == 0)
        c->moved_ms = worker_now_ms(w);
    w->relay_bytes += data.len;
    c->answered += data.len;
    buf_bytes(&c->answer, data);
    if (c->state == CALL_SENT) {
        hold_or_commit(c);
    } else if (!relay_has_room(w) && call_answer(c).len > UPLINK_FIRST_WINDOW / 2) {
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
    if (c->state == CALL_SENT)
        commit(c, false);
    c->answer_ended = true;
    call_count(c, STATS_STATUSES);
    call_settle(c);
    client_more(c);
}

/* A reset without END_STREAM is never a good end, whatever its code says. What came of the answer
 * goes out before. */
static void pass_reset(struct call *c, bool answered, uint32_t code)
{
    c->reset_code = code == H2_NO_ERROR ? H2_INTERNAL_ERROR : code;
    if (answered) {
        c->answer_reset = true;
        client_more(c);
        return;
    }
    client_reset(c, (enum h2_code)c->reset_code);
    call_free(c);
}

static void call_over(struct up_stream *up, enum up_end how, uint32_t code)
{
    struct call *c = (struct call *)up;
    if (c->state == CALL_DONE)
        return;
    call_leave_ramp(c);
    switch (how) {
    case UP_NOT_SENT:
        call_decide(c, up->answered ? RELAY_LOST : RELAY_NOT_SENT);
        return;
    case UP_REFUSED:
        c->refusals++;
        call_decide(c, up->answered ? RELAY_LOST : RELAY_REFUSED);
        return;
    case UP_LOST:
        call_decide(c, RELAY_LOST);
        return;
    case UP_RESET:
    case UP_CLOSED:
        break;
    }
    if (up->answered && c->state == CALL_SENT)
        commit(c, false);
    call_count(c, STATS_STATUSES);
    call_settle(c);
    pass_reset(c, up->answered, code);
}

const struct up_stream_ops call_ops = {
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
    } else if (c->answer_at > c->answer.len / 2 && c->answer_at > COMPACT_BYTES) {
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
