#include "tests/sim/clients.h"
#include "common/base/check.h"
#include "common/base/mem.h"
#include "tests/sim/checker.h"
#include "tests/sim/member.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { ATTEMPT_US = 1500 * 1000, RETRY_US = 20 * 1000 };

static const char *const key_names[CLIENT_KEYS] = {"alpha", "beta", "gamma"};

int clients_key_index(const char *key)
{
    for (int i = 0; i < CLIENT_KEYS; i++) {
        if (strcmp(key, key_names[i]) == 0)
            return i;
    }
    UNREACHABLE_CASE();
}

void op_hold(struct op *op)
{
    op->references++;
}

void op_release(struct op *op)
{
    if (--op->references > 0)
        return;
    request_close(&op->plan);
    free(op);
}

struct clients *clients_new(struct world *w)
{
    (void)w;
    struct clients *c = mem_alloc(sizeof *c);
    c->think_us = 300 * 1000;
    return c;
}

void clients_free(struct clients *c)
{
    for (int i = 0; i < CLIENTS; i++) {
        if (c->current[i])
            op_release(c->current[i]);
    }
    free(c);
}

/* ---- making operations ---- */

static void fill_write(struct op *op)
{
    struct bytes key = bytes_str(op->key);
    op->then_op = (struct request_op){.kind = REQUEST_OP_PUT, .key = key, .prev_kv = true};
    op->then_op.value = bytes_str(op->value);
    op->plan.method = REQUEST_PUT;
    op->plan.then_ops = &op->then_op;
    op->plan.then_count = 1;
    if (op->kind == OP_DELETE) {
        op->plan.method = REQUEST_DELETE;
        op->then_op.kind = REQUEST_OP_DELETE;
        op->then_op.value = BYTES_NONE;
        op->then_op.must_exist = true;
    } else if (op->kind == OP_CAS) {
        op->plan.method = REQUEST_TXN;
        op->then_op.prev_kv = false;
        op->else_op = (struct request_op){.kind = REQUEST_OP_GET, .key = key};
        op->plan.else_ops = &op->else_op;
        op->plan.else_count = 1;
        op->compare = (struct request_compare){
            .target = ETCD_MOD, .relation = ETCD_EQUAL, .key = key, .number = op->expected_mod};
        op->plan.compares = &op->compare;
        op->plan.compare_count = 1;
    }
}

static void fill_id(struct world *w, struct op *op)
{
    char body[80];
    snprintf(op->id, sizeof op->id, "op-%012" PRIu64 "-%d", op->number, op->client);
    if (rng_below(&w->rng, 2) && w->clients->seen_revision)
        snprintf(op->id + strlen(op->id), sizeof op->id - strlen(op->id), "@%lld",
                 (long long)w->clients->seen_revision);
    int n = snprintf(body, sizeof body, "%d %s %s", op->kind, op->key, op->value);
    op->plan.body_hash = request_hash(bytes_of(body, (size_t)n));
    struct err err = request_set_id(&op->plan, bytes_str(op->id));
    INVARIANT(!err_is(&err));
    err = request_check(&op->plan);
    INVARIANT(!err_is(&err));
}

struct op *clients_begin(struct world *w, int client, enum op_kind kind, const char *key)
{
    struct clients *c = w->clients;
    PRE(c->current[client] == NULL);
    struct op *op = mem_alloc(sizeof *op);
    op->references = 1;
    op->number = ++c->next_number;
    op->client = client;
    op->kind = kind;
    op->began_us = w->now_us;
    int index = key ? clients_key_index(key) : (int)rng_below(&w->rng, CLIENT_KEYS);
    snprintf(op->key, sizeof op->key, "%s", key_names[index]);
    snprintf(op->value, sizeof op->value, "v%" PRIu64, op->number);
    op->floor = w->checker->floor[index];
    op->expected_mod = c->seen_mod[index];
    if (kind != OP_READ && kind != OP_QUORUM_READ) {
        fill_write(op);
        fill_id(w, op);
    }
    c->current[client] = op;
    return op;
}

/* ---- the proxy ---- */

static int pick_member(struct world *w)
{
    int best = (int)rng_below(&w->rng, MEMBERS);
    if (world_chance(w, w->clients->random_member))
        return best;
    uint64_t epoch = 0;
    for (int i = 0; i < MEMBERS; i++) {
        const struct member *m = &w->members[i];
        if (m->alive && m->role == ROLE_LEADER && m->epoch > epoch) {
            epoch = m->epoch;
            best = i;
        }
    }
    return best;
}

static void arrive(struct world *w, void *arg)
{
    struct request *r = arg;
    struct member *m = &w->members[r->member];
    if (r->op->kind == OP_READ)
        reader_shell_read(w, m, r);
    else
        replica_shell_request(w, m, r);
}

void request_drop(void *arg)
{
    struct request *r = arg;
    op_release(r->op);
    free(r);
}

static bool is_cut(const struct world *w, int member)
{
    return w->clients->cut_until_us[member] > w->now_us;
}

void clients_send(struct world *w, struct op *op, int member)
{
    if (!w->members[member].alive || is_cut(w, member))
        return;
    struct request *r = mem_alloc(sizeof *r);
    *r = (struct request){.op = op, .member = member, .attempt = op->attempts};
    op->copies++;
    op_hold(op);
    int thread = op->kind == OP_READ ? THREAD_READER : THREAD_REPLICA;
    world_post(w, net_delay_us(w), member, thread, arrive, request_drop, r);
}

struct retry {
    struct op *op;
    unsigned attempt;
};

static void drop_retry(void *arg)
{
    struct retry *retry = arg;
    op_release(retry->op);
    free(retry);
}

/* An attempt that brought nothing may have worked: the operation is sent again under its id. */
static void run_retry(struct world *w, void *arg)
{
    struct retry *retry = arg;
    if (!retry->op->done && retry->op->attempts == retry->attempt) {
        retry->op->maybe_done = true;
        clients_attempt(w, retry->op);
    }
    drop_retry(retry);
}

static void retry_after(struct world *w, struct op *op, int64_t delay_us)
{
    struct retry *retry = mem_alloc(sizeof *retry);
    *retry = (struct retry){.op = op, .attempt = op->attempts};
    op_hold(op);
    world_post(w, delay_us, NOBODY, 0, run_retry, drop_retry, retry);
}

void clients_attempt(struct world *w, struct op *op)
{
    op->attempts++;
    if (world_chance(w, w->clients->lose)) {
        world_fault(w, FAULT_PROXY_BROKEN);
    } else {
        clients_send(w, op, pick_member(w));
        if (world_chance(w, w->clients->duplicate)) {
            world_fault(w, FAULT_PROXY_DUPLICATE);
            clients_send(w, op, (int)rng_below(&w->rng, MEMBERS));
        }
    }
    retry_after(w, op, ATTEMPT_US);
}

static void think(struct world *w, void *arg)
{
    static const enum op_kind kinds[] = {OP_PUT,  OP_PUT,  OP_CAS,  OP_CAS,        OP_DELETE,
                                         OP_READ, OP_READ, OP_READ, OP_QUORUM_READ};
    struct clients *c = w->clients;
    int client = (int)(intptr_t)arg;
    if (c->stopped || c->current[client])
        return;
    enum op_kind kind = kinds[rng_below(&w->rng, sizeof kinds / sizeof *kinds)];
    clients_attempt(w, clients_begin(w, client, kind, NULL));
}

static void think_after(struct world *w, int client)
{
    int64_t us = (int64_t)rng_below(&w->rng, (uint64_t)w->clients->think_us);
    world_at(w, us, think, (void *)(intptr_t)client);
}

void clients_start(struct world *w)
{
    for (int i = 0; i < CLIENTS; i++)
        think_after(w, i);
}

bool clients_idle(const struct world *w)
{
    for (int i = 0; i < CLIENTS; i++) {
        if (w->clients->current[i])
            return false;
    }
    return true;
}

/* ---- answers on their way back ---- */

enum outcome { OUTCOME_DONE, OUTCOME_NOT_DONE, OUTCOME_MAYBE };

struct outcome_note {
    struct op *op;
    unsigned attempt;
    enum outcome outcome;
    enum err_code code;
};

static void drop_note(void *arg)
{
    struct outcome_note *note = arg;
    op_release(note->op);
    free(note);
}

static void finish(struct world *w, struct op *op)
{
    struct clients *c = w->clients;
    int client = op->client;
    op->done = true;
    c->completed++;
    c->reads += op->kind == OP_READ;
    c->quorum_reads += op->kind == OP_QUORUM_READ;
    if (c->current[client] != op)
        return;
    c->current[client] = NULL;
    op_release(op);
    think_after(w, client);
}

/* A refusal for good may be passed on only when no other attempt may have worked. */
static bool is_final(const struct outcome_note *note)
{
    return note->outcome == OUTCOME_NOT_DONE && note->code == ERR_NO_SPACE &&
           !note->op->maybe_done && note->op->copies == 1;
}

static void run_note(struct world *w, void *arg)
{
    struct outcome_note *note = arg;
    struct op *op = note->op;
    op->maybe_done = op->maybe_done || note->outcome == OUTCOME_MAYBE;
    if (op->done || w->clients->current[op->client] != op) {
        drop_note(note);
        return;
    }
    if (note->outcome == OUTCOME_DONE) {
        finish(w, op);
    } else if (is_final(note)) {
        w->clients->refused++;
        checker_on_never(w, op);
        finish(w, op);
    } else if (note->attempt == op->attempts) {
        retry_after(w, op, RETRY_US);
    }
    drop_note(note);
}

/* The member is done with the request, whether its answer arrives or not. */
static void send_note(struct world *w, struct request *r, enum outcome outcome, enum err_code code)
{
    bool lost = is_cut(w, r->member) || world_chance(w, w->clients->lose);
    world_trace(w, r->member, "answers operation %" PRIu64 " (%s): %s%s", r->op->number, r->op->key,
                outcome == OUTCOME_DONE ? "done" : err_word(code), lost ? ", lost" : "");
    if (lost) {
        world_fault(w, FAULT_PROXY_BROKEN);
    } else {
        struct outcome_note *note = mem_alloc(sizeof *note);
        *note = (struct outcome_note){
            .op = r->op, .attempt = (unsigned)r->attempt, .outcome = outcome, .code = code};
        op_hold(note->op);
        world_post(w, net_delay_us(w), NOBODY, 0, run_note, drop_note, note);
    }
    request_drop(r);
}

void request_answer(struct world *w, struct request *r, const struct plan_answer *answer,
                    uint64_t epoch)
{
    (void)epoch;
    struct clients *c = w->clients;
    int64_t mod = checker_last_change(w, r->op->key, answer->revision);
    checker_on_answer(w, r->op, answer);
    c->seen_mod[clients_key_index(r->op->key)] = mod;
    c->seen_revision = answer->revision > c->seen_revision ? answer->revision : c->seen_revision;
    send_note(w, r, OUTCOME_DONE, ERR_OK);
}

void request_answer_read(struct world *w, struct request *r, int64_t revision, uint64_t epoch)
{
    (void)epoch;
    checker_on_read(w, r->member, r->op, revision);
    w->clients->seen_mod[clients_key_index(r->op->key)] =
        checker_last_change(w, r->op->key, revision);
    send_note(w, r, OUTCOME_DONE, ERR_OK);
}

void request_refuse(struct world *w, struct request *r, enum err_code code, bool maybe)
{
    send_note(w, r, maybe ? OUTCOME_MAYBE : OUTCOME_NOT_DONE, code);
}
