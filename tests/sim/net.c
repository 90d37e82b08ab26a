#include "tests/sim/net.h"
#include "common/base/check.h"
#include "common/base/mem.h"
#include "tests/sim/member.h"
#include <stdlib.h>

struct net_held {
    struct net_held *next;
    enum net_stage stage;
    struct net_call *call;
    struct net_answer answer;
};

/* An answer on its way. */
struct net_reply {
    struct net_call *call;
    struct net_answer answer;
};

struct net *net_new(void)
{
    return mem_alloc(sizeof(struct net));
}

/* ---- a call's memory ---- */

static size_t ops_bytes(const struct etcd_op *ops, size_t count)
{
    size_t n = count * sizeof *ops;
    for (size_t i = 0; i < count; i++)
        n += ops[i].key.len + ops[i].range_end.len + ops[i].value.len;
    return n;
}

static struct bytes copy_bytes(uint8_t **to, struct bytes s)
{
    struct bytes copy = bytes_of(*to, s.len);
    if (s.len)
        memcpy(*to, s.data, s.len);
    *to += s.len;
    return copy;
}

static void copy_ops(struct etcd_op *to, const struct etcd_op *from, size_t count, uint8_t **room)
{
    for (size_t i = 0; i < count; i++) {
        to[i] = from[i];
        to[i].key = copy_bytes(room, from[i].key);
        to[i].range_end = copy_bytes(room, from[i].range_end);
        to[i].value = copy_bytes(room, from[i].value);
    }
}

/* One block: compares, both branches, then the bytes that they show. */
static void *txn_copy(const struct etcd_txn *from, struct etcd_txn *out)
{
    size_t total = ops_bytes(from->success, from->success_count) +
                   ops_bytes(from->failure, from->failure_count) +
                   from->compare_count * sizeof *from->compares;
    for (size_t i = 0; i < from->compare_count; i++)
        total += from->compares[i].key.len + from->compares[i].range_end.len +
                 from->compares[i].value.len;
    void *block = mem_alloc(total + 1);
    struct etcd_compare *compares = block;
    struct etcd_op *success = (struct etcd_op *)(compares + from->compare_count);
    struct etcd_op *failure = success + from->success_count;
    uint8_t *room = (uint8_t *)(failure + from->failure_count);
    for (size_t i = 0; i < from->compare_count; i++) {
        compares[i] = from->compares[i];
        compares[i].key = copy_bytes(&room, from->compares[i].key);
        compares[i].range_end = copy_bytes(&room, from->compares[i].range_end);
        compares[i].value = copy_bytes(&room, from->compares[i].value);
    }
    copy_ops(success, from->success, from->success_count, &room);
    copy_ops(failure, from->failure, from->failure_count, &room);
    *out = *from;
    out->compares = compares;
    out->success = success;
    out->failure = failure;
    return block;
}

static void call_release(struct net_call *call)
{
    if (--call->references > 0)
        return;
    free(call->block);
    free(call);
}

static struct net_call *call_hold(struct net_call *call)
{
    call->references++;
    return call;
}

static void drop_call(void *arg)
{
    call_release(arg);
}

static void drop_reply(void *arg)
{
    struct net_reply *reply = arg;
    fake_result_close(&reply->answer.result);
    call_release(reply->call);
    free(reply);
}

/* ---- delays ---- */

int64_t net_delay_us(struct world *w)
{
    int64_t us = 200 + (int64_t)rng_below(&w->rng, 1500);
    if (w->net->faults.slow && world_chance(w, w->net->faults.slow)) {
        world_fault(w, FAULT_SLOW);
        us += (int64_t)rng_below(&w->rng, (uint64_t)w->net->faults.slow_max_us + 1);
    }
    return us;
}

static bool is_cut(struct world *w, const struct net_call *call)
{
    return call->member != NOBODY && w->net->cut_until_us[call->member][call->endpoint] > w->now_us;
}

/* ---- the way back ---- */

static void deliver(struct world *w, void *arg)
{
    struct net_reply *reply = arg;
    struct net_call *call = reply->call;
    if (!call->answered) {
        call->answered = true;
        world_trace(w, call->member, "%s #%llu answered: %s", call->what,
                    (unsigned long long)call->id,
                    err_is(&reply->answer.err)       ? err_word(reply->answer.err.code)
                    : call->kind != NET_TXN          ? "OK"
                    : reply->answer.result.succeeded ? "succeeded"
                                                     : "failed");
        call->done(w, call, &reply->answer);
    }
    drop_reply(reply);
}

static void post_reply(struct world *w, struct net_call *call, const struct net_answer *answer,
                       int64_t delay_us)
{
    struct net_reply *reply = mem_alloc(sizeof *reply);
    reply->call = call_hold(call);
    reply->answer = *answer;
    struct task t = {.at_us = w->now_us + delay_us,
                     .member = call->member,
                     .thread = call->thread,
                     .life = call->life,
                     .run = deliver,
                     .drop = drop_reply,
                     .arg = reply};
    event_heap_push(&w->heap, t);
}

static void post_error(struct world *w, struct net_call *call, enum err_code code, int64_t delay_us)
{
    struct net_answer answer = {.err = err_make(code, "simulated: %s", err_word(code))};
    post_reply(w, call, &answer, delay_us);
}

static void time_out(struct world *w, void *arg)
{
    struct net_call *call = arg;
    if (!call->answered)
        post_error(w, call, ERR_LOST, 0);
    call_release(call);
}

static void post_timeout(struct world *w, struct net_call *call, int64_t delay_us)
{
    struct task t = {.at_us = w->now_us + delay_us,
                     .member = call->member,
                     .thread = call->thread,
                     .life = call->life,
                     .run = time_out,
                     .drop = drop_call,
                     .arg = call_hold(call)};
    event_heap_push(&w->heap, t);
}

static void answer_become(struct net_answer *answer, enum err_code code)
{
    fake_result_close(&answer->result);
    *answer = (struct net_answer){.err = err_make(code, "simulated: %s", err_word(code))};
}

/* An answer with nothing in it but, perhaps, who answered. */
static void answer_empty(struct world *w, struct net_answer *answer)
{
    struct etcd_header header = answer->result.header;
    fake_result_close(&answer->result);
    answer->ttl_ms = 0;
    if (rng_below(&w->rng, 2))
        answer->result.header = header;
}

static enum net_verdict verdict_of(struct world *w, struct net_call *call, enum net_stage stage)
{
    return w->net->hook ? w->net->hook(w, call, stage) : NET_CHANCE;
}

static void hold(struct world *w, struct net_call *call, enum net_stage stage,
                 const struct net_answer *answer)
{
    struct net_held *held = mem_alloc(sizeof *held);
    held->stage = stage;
    held->call = call_hold(call);
    if (answer)
        held->answer = *answer;
    struct net_held **end = &w->net->held;
    while (*end)
        end = &(*end)->next;
    *end = held;
    world_trace(w, call->member, "%s #%llu: %s held", call->what, (unsigned long long)call->id,
                stage == NET_REQUEST ? "request" : "reply");
}

/* Chance may spoil what etcd has answered. true: it is lost. */
static bool chance_reply(struct world *w, struct net_call *call, struct net_answer *answer)
{
    const struct net_faults *f = &w->net->faults;
    if (is_cut(w, call) || world_chance(w, f->lose_reply)) {
        world_fault(w, FAULT_REPLY_LOST);
        return true;
    }
    if (call->kind != NET_TXN || err_is(&answer->err))
        return false;
    if (world_chance(w, f->empty)) {
        world_fault(w, FAULT_EMPTY_ANSWER);
        answer_empty(w, answer);
    } else if (world_chance(w, f->foreign)) {
        world_fault(w, FAULT_FOREIGN_ANSWER);
        answer->result.header.cluster_id ^= 1;
    } else if (answer->result.succeeded && world_chance(w, f->applied_no_space)) {
        world_fault(w, FAULT_APPLIED_NO_SPACE);
        answer_become(answer, ERR_NO_SPACE);
    }
    return false;
}

static void send_reply(struct world *w, struct net_call *call, struct net_answer *answer)
{
    int64_t delay_us = 100;
    switch (verdict_of(w, call, NET_REPLY)) {
    case NET_CHANCE:
        if (chance_reply(w, call, answer))
            goto lost;
        delay_us = net_delay_us(w);
        break;
    case NET_LOSE:
        goto lost;
    case NET_HOLD:
        hold(w, call, NET_REPLY, answer);
        return;
    case NET_NO_SPACE:
        answer_become(answer, ERR_NO_SPACE);
        break;
    case NET_UNAVAILABLE:
        answer_become(answer, ERR_LOST);
        break;
    case NET_EMPTY:
        answer_empty(w, answer);
        break;
    case NET_FOREIGN:
        answer->result.header.cluster_id ^= 1;
        break;
    case NET_PASS:
    case NET_REFUSE:
        break;
    }
    post_reply(w, call, answer, delay_us);
    return;
lost:
    world_trace(w, call->member, "%s #%llu: reply lost", call->what, (unsigned long long)call->id);
    fake_result_close(&answer->result);
}

/* ---- at etcd ---- */

static void apply(struct world *w, struct net_call *call, struct net_answer *answer)
{
    struct fake_etcd *e = &w->etcd;
    *answer = (struct net_answer){0};
    switch (call->kind) {
    case NET_TXN:
        answer->err = fake_etcd_txn(e, &call->txn, &answer->result);
        break;
    case NET_GRANT:
        answer->err = fake_etcd_grant(e, call->lease, call->ttl_ms, &answer->ttl_ms);
        break;
    case NET_KEEPALIVE:
        answer->ttl_ms = fake_etcd_keepalive(e, call->lease);
        break;
    case NET_REVOKE:
        if (!fake_etcd_revoke(e, call->lease))
            answer->err = err_make(ERR_KEY_NOT_FOUND, "etcd: requested lease not found");
        break;
    }
    world_trace(w, call->member, "%s #%llu applied: %s, revision %lld", call->what,
                (unsigned long long)call->id,
                err_is(&answer->err)       ? err_word(answer->err.code)
                : call->kind != NET_TXN    ? "OK"
                : answer->result.succeeded ? "succeeded"
                                           : "failed",
                (long long)e->revision);
}

static void arrive(struct world *w, void *arg)
{
    struct net_call *call = arg;
    struct net_answer answer;
    if (call->refused) {
        /* What was delivered twice and refused once is not tried again by anybody. */
    } else if (w->net->stalled_until_us > w->now_us) {
        /* Proposals of the time without a leader fail in the end; some had been accepted. */
        if (rng_below(&w->rng, 3) == 0) {
            struct task t = {.at_us = w->net->stalled_until_us,
                             .member = NOBODY,
                             .run = arrive,
                             .drop = drop_call,
                             .arg = call_hold(call)};
            event_heap_push(&w->heap, t);
        } else if (rng_below(&w->rng, 2) == 0) {
            post_error(w, call, ERR_LOST, w->net->stalled_until_us - w->now_us + 1000);
        } else {
            apply(w, call, &answer);
            fake_result_close(&answer.result);
            post_error(w, call, ERR_LOST, w->net->stalled_until_us - w->now_us + 1000);
        }
    } else {
        apply(w, call, &answer);
        call->refused = err_is(&answer.err);
        send_reply(w, call, &answer);
    }
    call_release(call);
}

static void post_arrival(struct world *w, struct net_call *call, int64_t delay_us)
{
    world_post(w, delay_us, NOBODY, 0, arrive, drop_call, call_hold(call));
}

/* ---- the way there ---- */

static enum err_code chance_refusal(struct world *w, const struct net_call *call)
{
    static const enum err_code codes[] = {ERR_TOO_LARGE, ERR_DENIED, ERR_OVERLOADED,
                                          ERR_BAD_REQUEST};
    if (call->kind != NET_TXN)
        return ERR_OK;
    if (world_chance(w, w->net->faults.refuse)) {
        world_fault(w, FAULT_REFUSED_ONCE);
        return codes[rng_below(&w->rng, 4)];
    }
    if (world_chance(w, w->net->faults.no_space)) {
        world_fault(w, FAULT_NO_SPACE_ONCE);
        return ERR_NO_SPACE;
    }
    return ERR_OK;
}

static void chance_request(struct world *w, struct net_call *call)
{
    const struct net_faults *f = &w->net->faults;
    if (w->net->down_until_us[call->endpoint] > w->now_us) {
        post_error(w, call, ERR_UNREACHABLE, net_delay_us(w));
        return;
    }
    if (is_cut(w, call) || world_chance(w, f->lose_request)) {
        world_fault(w, FAULT_REQUEST_LOST);
        return;
    }
    enum err_code refusal = chance_refusal(w, call);
    if (refusal) {
        post_error(w, call, refusal, 2 * net_delay_us(w));
        return;
    }
    post_arrival(w, call, net_delay_us(w));
    if (call->kind == NET_TXN && world_chance(w, f->duplicate)) {
        world_fault(w, FAULT_DUPLICATE);
        post_arrival(w, call, 3 * net_delay_us(w));
    }
}

static void send_request(struct world *w, struct net_call *call)
{
    switch (verdict_of(w, call, NET_REQUEST)) {
    case NET_CHANCE:
        chance_request(w, call);
        return;
    case NET_LOSE:
        world_trace(w, call->member, "%s #%llu: request lost", call->what,
                    (unsigned long long)call->id);
        return;
    case NET_HOLD:
        hold(w, call, NET_REQUEST, NULL);
        return;
    case NET_REFUSE:
        post_error(w, call, ERR_TOO_LARGE, 200);
        return;
    case NET_NO_SPACE:
        post_error(w, call, ERR_NO_SPACE, 200);
        return;
    case NET_UNAVAILABLE:
        post_error(w, call, ERR_LOST, 200);
        return;
    case NET_EMPTY: {
        struct net_answer nothing = {0};
        post_reply(w, call, &nothing, 200);
        return;
    }
    case NET_FOREIGN:
    case NET_PASS:
        post_arrival(w, call, 100);
        return;
    }
}

void net_send(struct world *w, const struct net_call *what)
{
    struct net_call *call = mem_dup(what, sizeof *what);
    call->id = ++w->net->next_id;
    call->references = 1;
    call->answered = false;
    call->life = call->member == NOBODY ? 0 : w->members[call->member].life;
    if (call->kind == NET_TXN)
        call->block = txn_copy(&what->txn, &call->txn);
    world_trace(w, call->member, "%s #%llu sent to endpoint %d", call->what,
                (unsigned long long)call->id, call->endpoint);
    double rate = call->member == NOBODY ? 1.0 : w->members[call->member].rate;
    post_timeout(w, call, (int64_t)((double)call->timeout_ms * 1000.0 / rate));
    if (w->net->sent)
        w->net->sent(w, call);
    send_request(w, call);
    call_release(call);
}

/* ---- directed schedules ---- */

static bool held_matches(const struct net_held *held, const char *what, enum net_stage stage)
{
    return held->stage == stage && (what == NULL || strcmp(held->call->what, what) == 0);
}

size_t net_held_count(const struct world *w, const char *what, enum net_stage stage)
{
    size_t n = 0;
    for (const struct net_held *h = w->net->held; h; h = h->next)
        n += held_matches(h, what, stage);
    return n;
}

size_t net_release(struct world *w, const char *what, enum net_stage stage)
{
    size_t n = 0;
    struct net_held **at = &w->net->held;
    while (*at) {
        struct net_held *held = *at;
        if (!held_matches(held, what, stage)) {
            at = &held->next;
            continue;
        }
        *at = held->next;
        n++;
        if (stage == NET_REQUEST)
            post_arrival(w, held->call, (int64_t)n);
        else
            post_reply(w, held->call, &held->answer, (int64_t)n);
        call_release(held->call);
        free(held);
    }
    return n;
}

void net_free(struct world *w)
{
    while (w->net->held) {
        struct net_held *held = w->net->held;
        w->net->held = held->next;
        fake_result_close(&held->answer.result);
        call_release(held->call);
        free(held);
    }
    for (int i = 0; i < MEMBERS; i++)
        free(w->net->watches[i]);
    free(w->net);
}
