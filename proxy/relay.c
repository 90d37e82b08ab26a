#include "proxy/relay.h"
#include "proxy/relay_parts.h"
#include "proxy/worker.h"

#define PAUSE_MIN_MS 20
#define PAUSE_MAX_MS 1000

static void park(struct call *c, bool back_off);

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

/* How long the client waited, and how much of that was not the leader's: what came before the last
 * attempt was sent, and what follows the turn of the loop that brought the end of its answer.
 * Streams last as long as their clients like. */
static void count_time(struct call *c)
{
    struct stats *s = &c->worker->stats;
    int64_t now_ns = worker_clock_ns();
    if (c->unary || c->class == METHOD_OTHER)
        stat_observe(&s->call_times[c->class], stats_call_bounds, now_ns - c->arrived_ns);
    if (c->state == CALL_COMMITTED)
        stat_observe(&s->added_times, stats_added_bounds,
                     c->sent_ns - c->arrived_ns + now_ns - worker_turn_ns(c->worker));
}

void call_count(struct call *c, uint64_t status)
{
    if (status >= STATS_STATUSES)
        status = STATS_STATUSES - 1;
    stat_add(&c->worker->stats.rpcs[c->class][status], 1);
    count_time(c);
}

/* The call is decided: no attempt, no timer, no place in the line. */
void call_settle(struct call *c)
{
    c->state = CALL_DONE;
    wheel_clear(&c->worker->wheel, &c->timer);
}

static void count_parked(struct call *c)
{
    int64_t ms = worker_now_ms(c->worker) - c->parked_since_ms;
    stat_observe(&c->worker->stats.parked_times, stats_parked_bounds, ms * 1000000);
}

void call_leave_lot(struct call *c)
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

void call_leave_ramp(struct call *c)
{
    if (!c->ramped)
        return;
    c->ramped = false;
    ramp_answered(&c->worker->ramp);
    c->worker->pump = true;
}

void call_fail(struct call *c, const struct relay_verdict *v)
{
    bool committed = c->state == CALL_COMMITTED;
    call_leave_lot(c);
    call_leave_ramp(c);
    up_stream_drop(&c->up, H2_CANCEL);
    call_count(c, v->status);
    call_settle(c);
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
        call_fail(
            c, &(struct relay_verdict){.status = RELAY_RESOURCE_EXHAUSTED,
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
    call_leave_lot(c);
    c->state = CALL_SENT;
    c->sent_to = l->target;
    c->sent_ns = worker_clock_ns();
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

static void park(struct call *c, bool back_off)
{
    struct worker *w = c->worker;
    call_leave_ramp(c);
    if (c->state != CALL_PARKED) {
        if (w->parking.held >= (size_t)w->shared->options.park_calls) {
            stat_add(&w->stats.limit_park, 1);
            call_decide(c, RELAY_LOT_FULL);
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

/* Answers are held as far as the member's first window goes: it never waits for credit. */
static bool may_hold(const struct call *c)
{
    return c->answered < uplink_first_window(c->worker) && relay_has_room(c->worker);
}

struct relay_facts call_facts(const struct call *c, const struct uplink *usable)
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
        .unary = c->unary,
        .holdable = may_hold(c),
        .may_repeat = c->class != METHOD_OTHER,
        .unknown = c->unknown,
        .same_leader = c->sent_to == c->worker->follow.leader,
    };
}

void call_decide(struct call *c, enum relay_event event)
{
    struct worker *w = c->worker;
    struct uplink *l = find_uplink(c, event);
    struct relay_facts f = call_facts(c, l);
    struct relay_verdict v = relay_decide(&f, event, &w->shared->relay_limits);
    if (v.act == RELAY_PASS)
        return;
    if (c->state == CALL_SENT)
        call_drop_answer(c);
    up_stream_drop(&c->up, H2_CANCEL);
    if (v.act != RELAY_FAIL)
        stat_add(&w->stats.retries[event], 1);
    if (v.repeats) {
        c->unknown = true;
        c->replays++;
        stat_add(&w->stats.replays, 1);
    }
    switch (v.act) {
    case RELAY_SEND:
        call_leave_ramp(c);
        if (c->body.whole)
            replay_rewind(&c->body);
        send_to(c, l);
        break;
    case RELAY_PARK:
        park(c, v.back_off);
        break;
    case RELAY_FAIL:
        call_fail(c, &v);
        break;
    case RELAY_PASS:
    case RELAY_HOLD:
        break;
    }
}

void relay_pump(struct worker *w)
{
    w->pump = false;
    while (w->parking.first && w->follow.leader && ramp_allows(&w->ramp) &&
           target_pick(w->follow.leader))
        call_decide(w->parking.first, RELAY_TURN);
    if (!w->parking.first)
        ramp_stop(&w->ramp);
}

void relay_on_timer(struct wheel_entry *e)
{
    struct call *c = (struct call *)((char *)e - offsetof(struct call, timer));
    struct worker *w = c->worker;
    call_decide(c, RELAY_TIME);
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
            call_decide((struct call *)up, event);
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
            call_decide(c, RELAY_SHUTDOWN);
    }
}
