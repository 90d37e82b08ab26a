#include "tests/sim/checker.h"
#include "common/base/mem.h"
#include "tests/sim/member.h"
#include <stdio.h>
#include <stdlib.h>

struct checker_batch {
    char id[NONCE_DIGITS + 1]; /* "": a free slot */
    int64_t revision;          /* 0: not applied */
    bool never;
};

struct checker *checker_new(void)
{
    return mem_alloc(sizeof(struct checker));
}

void checker_free(struct checker *c)
{
    free(c->ops);
    free(c->batches);
    free(c);
}

/* ---- batches ---- */

static size_t batch_slot(const struct checker *c, const char *id)
{
    size_t hash = 5381;
    for (const char *p = id; *p; p++)
        hash = hash * 33 + (unsigned char)*p;
    size_t i = hash & (c->batch_cap - 1);
    while (c->batches[i].id[0] && strcmp(c->batches[i].id, id) != 0)
        i = (i + 1) & (c->batch_cap - 1);
    return i;
}

static void batches_grow(struct checker *c)
{
    struct checker_batch *old = c->batches;
    size_t old_cap = c->batch_cap;
    c->batch_cap = old_cap ? old_cap * 2 : 256;
    c->batches = mem_array(c->batch_cap, sizeof *c->batches);
    for (size_t i = 0; i < old_cap; i++) {
        if (old[i].id[0])
            c->batches[batch_slot(c, old[i].id)] = old[i];
    }
    free(old);
}

static struct checker_batch *batch_of(struct checker *c, const char *id)
{
    if (2 * (c->batch_count + 1) > c->batch_cap)
        batches_grow(c);
    struct checker_batch *b = &c->batches[batch_slot(c, id)];
    if (!b->id[0]) {
        snprintf(b->id, sizeof b->id, "%s", id);
        c->batch_count++;
    }
    return b;
}

/* ---- what etcd does ---- */

static struct checker_op *op_of(struct checker *c, uint64_t number)
{
    if (number >= c->op_count) {
        size_t count = (size_t)number * 2 + 64;
        c->ops = mem_resize(c->ops, count * sizeof *c->ops);
        memset(c->ops + c->op_count, 0, (count - c->op_count) * sizeof *c->ops);
        c->op_count = count;
    }
    return &c->ops[number];
}

static uint64_t number_of(struct bytes id)
{
    return strtoull((const char *)id.data + strlen("op-"), NULL, 10);
}

int64_t checker_revision_of(const struct world *w, struct bytes id)
{
    uint64_t number = number_of(id);
    return number < w->checker->op_count ? w->checker->ops[number].revision : 0;
}

/* A takeover may only happen once nobody else can read under an older epoch. */
static void check_gates(struct world *w, const struct record *record)
{
    for (int i = 0; i < MEMBERS; i++) {
        const struct member *m = &w->members[i];
        uint64_t epoch = m->alive ? read_gate_epoch(&m->gate, member_ms(w, m)) : 0;
        if (epoch && epoch < record->epoch)
            world_violate(w, "m%d may still read under epoch %llu when epoch %llu begins", i,
                          (unsigned long long)epoch, (unsigned long long)record->epoch);
    }
}

static void check_record(struct world *w, struct checker *c, const struct record *record,
                         int64_t revision)
{
    if (record->epoch < c->epoch) {
        world_violate(w, "a write of epoch %llu after epoch %llu",
                      (unsigned long long)record->epoch, (unsigned long long)c->epoch);
    } else if (record->epoch > c->epoch) {
        if (record->seq != 0)
            world_violate(w, "epoch %llu begins with seq %llu", (unsigned long long)record->epoch,
                          (unsigned long long)record->seq);
        check_gates(w, record);
        c->takeovers++;
    } else if (strcmp(record->nonce, c->nonce) != 0) {
        world_violate(w, "two leaderships write in epoch %llu", (unsigned long long)record->epoch);
    } else if (record->seq != c->seq + 1) {
        world_violate(w, "seq %llu after %llu in epoch %llu", (unsigned long long)record->seq,
                      (unsigned long long)c->seq, (unsigned long long)record->epoch);
    }
    c->commits++;
    c->epoch = record->epoch;
    c->seq = record->seq;
    memcpy(c->nonce, record->nonce, sizeof c->nonce);
    struct checker_batch *b = batch_of(c, record->batch);
    if (b->revision)
        world_violate(w, "batch %s applied twice", b->id);
    if (b->never)
        world_violate(w, "batch %s applied after it was said to be never", b->id);
    b->revision = revision;
}

static void check_chunk(struct world *w, struct checker *c, struct bytes chunk, int64_t revision)
{
    struct dedup_reader reader;
    struct dedup_entry entry;
    uint32_t offset;
    if (!dedup_reader_init(&reader, chunk)) {
        world_violate(w, "a chunk of request ids that is not readable");
        return;
    }
    while (dedup_reader_next(&reader, &entry, &offset)) {
        uint64_t number = number_of(entry.id);
        struct checker_op *op = op_of(c, number);
        if (op->revision)
            world_violate(w, "operation %llu happened twice: at %lld and at %lld",
                          (unsigned long long)number, (long long)op->revision, (long long)revision);
        if (op->never)
            world_violate(w, "operation %llu happened after its caller was told it never will",
                          (unsigned long long)number);
        op->revision = revision;
    }
}

void checker_on_revision(struct world *w, const struct fake_revision *r)
{
    struct checker *c = w->checker;
    bool state = false, commit = false;
    uint64_t others = 0, announced = 0;
    for (size_t i = 0; i < r->count; i++) {
        struct etcd_event e = fake_etcd_event(&w->etcd, r, i);
        struct bytes rest;
        if (!keys_rest(e.kv.key, bytes_str(SIM_PREFIX "state/"), &rest))
            continue;
        state = true;
        if (bytes_equal(rest, bytes_str("commit"))) {
            struct record record;
            struct err err = record_decode(e.kv.value, &record);
            if (e.deleted || err_is(&err))
                world_violate(w, "the commit record is gone or broken");
            else
                check_record(w, c, &record, r->revision);
            commit = true;
            announced = record.events;
            continue;
        }
        others += !bytes_starts_with(rest, bytes_str("history/"));
        if (!e.deleted && bytes_starts_with(rest, bytes_str("dedup/")) &&
            !bytes_equal(rest, bytes_str("dedup/floor"))) {
            check_chunk(w, c, e.kv.value, r->revision);
        }
    }
    if (state && !commit)
        world_violate(w, "revision %lld changes the state without a commit record",
                      (long long)r->revision);
    else if (others != announced)
        world_violate(w, "revision %lld changes %llu keys and announces %llu",
                      (long long)r->revision, (unsigned long long)others,
                      (unsigned long long)announced);
}

/* ---- what members say ---- */

void checker_on_outcome(struct world *w, int member, const char *batch,
                        const struct commit_outcome *o)
{
    struct checker *c = w->checker;
    struct checker_batch *b = batch_of(c, batch);
    c->outcomes[o->kind]++;
    switch (o->kind) {
    case COMMIT_APPLIED:
    case COMMIT_APPLIED_DEPOSED:
        if (!b->revision)
            world_violate(w, "m%d takes batch %s for applied, and it is not", member, batch);
        else if (o->revision && o->revision != b->revision)
            world_violate(w, "m%d takes batch %s for applied at %lld, and it was at %lld", member,
                          batch, (long long)o->revision, (long long)b->revision);
        return;
    case COMMIT_NEVER:
    case COMMIT_NOT_APPLIED:
        if (b->revision)
            world_violate(w, "m%d takes batch %s for not applied, and it was at %lld", member,
                          batch, (long long)b->revision);
        b->never = true;
        return;
    case COMMIT_UNKNOWN:
        return;
    }
}

static uint64_t digest_number(uint64_t digest, int64_t n)
{
    for (int i = 0; i < 8; i++)
        digest = (digest ^ (((uint64_t)n >> (8 * i)) & 0xff)) * 0x100000001b3ULL;
    return digest;
}

/* Of all that a client sees, but for whether it was replayed. */
static uint64_t digest_answer(const struct plan_answer *a)
{
    uint64_t digest = 0xcbf29ce484222325ULL;
    digest = digest_number(digest, a->code);
    digest = digest_number(digest, a->method == REQUEST_TXN && a->succeeded);
    digest = digest_number(digest, a->revision);
    for (size_t i = 0; i < a->result_count; i++) {
        const struct answer_result *r = &a->results[i];
        digest = digest_number(digest, r->kind);
        digest = digest_number(digest, (int64_t)r->deleted);
        for (size_t k = 0; k < r->kv_count; k++) {
            digest = digest_number(digest, r->kvs[k].mod_revision);
            digest = digest_number(digest, r->kvs[k].create_revision);
            digest = digest_number(digest, r->kvs[k].version);
        }
    }
    return digest;
}

int64_t checker_last_change(struct world *w, const char *key, int64_t revision)
{
    char full[KEY_MAX];
    snprintf(full, sizeof full, SIM_PREFIX "state/kv/%s", key);
    return fake_etcd_last_change(&w->etcd, bytes_str(full), revision);
}

static int64_t mod_before(struct world *w, const char *key, int64_t revision)
{
    char full[KEY_MAX];
    snprintf(full, sizeof full, SIM_PREFIX "state/kv/%s", key);
    const struct fake_version *v = fake_etcd_get(&w->etcd, bytes_str(full), revision - 1);
    return v ? v->revision : 0;
}

/* The answer must be what the operation does to the state just before its commit. */
static void check_content(struct world *w, const struct op *op, const struct plan_answer *a)
{
    int64_t before = mod_before(w, op->key, a->revision);
    const struct answer_result *r = a->result_count ? &a->results[0] : NULL;
    int64_t told = r && r->kv_count ? r->kvs[0].mod_revision : 0;
    bool right = true;
    switch (op->kind) {
    case OP_PUT:
        right = a->code == ERR_OK && told == before;
        break;
    case OP_CAS:
        right = a->code == ERR_OK && a->succeeded == (before == op->expected_mod) &&
                (a->succeeded || told == before);
        break;
    case OP_DELETE:
        right = before ? a->code == ERR_OK && told == before : a->code == ERR_KEY_NOT_FOUND;
        break;
    case OP_READ:
    case OP_QUORUM_READ:
        break;
    }
    if (!right)
        world_violate(
            w, "operation %llu got a wrong answer: code %s, succeeded %d, saw %lld, was %lld",
            (unsigned long long)op->number, err_word(a->code), a->succeeded, (long long)told,
            (long long)before);
}

static void raise_floor(struct checker *c, const char *key, int64_t mod)
{
    int64_t *floor = &c->floor[clients_key_index(key)];
    *floor = mod > *floor ? mod : *floor;
}

void checker_on_answer(struct world *w, const struct op *op, const struct plan_answer *answer)
{
    struct checker_op *known = op_of(w->checker, op->number);
    uint64_t digest = digest_answer(answer);
    if (known->revision != answer->revision)
        world_violate(w, "operation %llu answered with revision %lld, and it happened at %lld",
                      (unsigned long long)op->number, (long long)answer->revision,
                      (long long)known->revision);
    else if (known->answered && known->answer != digest)
        world_violate(w, "operation %llu got two different answers",
                      (unsigned long long)op->number);
    else
        check_content(w, op, answer);
    known->answered = true;
    known->answer = digest;
    raise_floor(w->checker, op->key, checker_last_change(w, op->key, answer->revision));
}

void checker_on_never(struct world *w, const struct op *op)
{
    struct checker_op *known = op_of(w->checker, op->number);
    if (known->revision)
        world_violate(w, "operation %llu happened at %lld, and its caller is told it never will",
                      (unsigned long long)op->number, (long long)known->revision);
    known->never = true;
}

void checker_on_read(struct world *w, int member, const struct op *op, int64_t revision)
{
    int64_t seen = checker_last_change(w, op->key, revision);
    if (seen < op->floor)
        world_violate(
            w, "m%d answers a read of %s from revision %lld, which misses the change at %lld",
            member, op->key, (long long)revision, (long long)op->floor);
    raise_floor(w->checker, op->key, seen);
}

void checker_fatal(struct world *w, int member, const struct err *e)
{
    w->checker->fatals++;
    world_trace(w, member, "fatal: %s %s", err_word(e->code), e->message);
}
