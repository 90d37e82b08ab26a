#include "meta/core/answer.h"
#include "meta/core/wire.h"

/* Numbers of their own, because they are stored: error codes may be renumbered between versions. */
enum stored_outcome {
    STORED_FAILED_COMPARE,
    STORED_DONE,
    STORED_KEY_NOT_FOUND,
    STORED_UNKNOWN_WORKER,
    STORED_STALE_INCARNATION,
    STORED_OTHER_TYPE,
    STORED_TOO_MANY_WORKERS,
};

/* The outcomes that are refusals. */
static const struct refusal {
    enum stored_outcome outcome;
    enum err_code code;
    const char *why;
} refusals[] = {
    {STORED_KEY_NOT_FOUND, ERR_KEY_NOT_FOUND, "nothing was there to delete"},
    {STORED_UNKNOWN_WORKER, ERR_UNKNOWN_WORKER,
     "there is no such worker: it expired or was deleted"},
    {STORED_STALE_INCARNATION, ERR_STALE_INCARNATION,
     "another process has registered this worker's address since"},
    {STORED_OTHER_TYPE, ERR_BAD_WORKER,
     "type: a worker of another type is registered at this addr, and types do not change"},
    {STORED_TOO_MANY_WORKERS, ERR_TOO_MANY_WORKERS,
     "there are --max-workers workers already: delete those that are gone for good"},
};
enum { REFUSALS = sizeof refusals / sizeof *refusals };

struct err answer_refusal(const struct plan_answer *answer)
{
    for (size_t i = 0; i < REFUSALS; i++)
        if (refusals[i].code == answer->code)
            return err_make(answer->code, "%s", refusals[i].why);
    return OK_ERR;
}

static void settle_kv(struct etcd_kv *kv, int64_t revision)
{
    if (kv->create_revision == 0)
        kv->create_revision = revision;
    if (kv->mod_revision == 0)
        kv->mod_revision = revision;
}

void answer_settle(struct plan_answer *answer, int64_t revision)
{
    answer->revision = revision;
    for (size_t i = 0; i < answer->result_count; i++)
        for (size_t k = 0; k < answer->results[i].kv_count; k++)
            settle_kv(&answer->results[i].kvs[k], revision);
}

static void encode_result(struct buf *out, const struct answer_result *r)
{
    wire_put_number(out, r->kind);
    wire_put_number(out, r->deleted);
    wire_put_number(out, r->kv_count);
    for (size_t i = 0; i < r->kv_count; i++) {
        const struct etcd_kv *kv = &r->kvs[i];
        wire_put_bytes(out, kv->key);
        wire_put_bytes(out, kv->value);
        wire_put_number(out, (uint64_t)kv->create_revision);
        wire_put_number(out, (uint64_t)kv->mod_revision);
        wire_put_number(out, (uint64_t)kv->version);
    }
}

void answer_encode(struct buf *out, const struct plan_answer *answer)
{
    enum stored_outcome outcome = answer->succeeded ? STORED_DONE : STORED_FAILED_COMPARE;
    for (size_t i = 0; i < REFUSALS; i++)
        if (refusals[i].code == answer->code)
            outcome = refusals[i].outcome;
    wire_put_number(out, answer->method);
    wire_put_number(out, outcome);
    wire_put_number(out, answer->result_count);
    for (size_t i = 0; i < answer->result_count; i++)
        encode_result(out, &answer->results[i]);
}

static bool get_int64(struct bytes *in, int64_t *out)
{
    uint64_t n;
    if (!wire_get_number(in, &n) || n > INT64_MAX)
        return false;
    *out = (int64_t)n;
    return true;
}

static bool decode_kv(struct bytes *in, struct etcd_kv *kv)
{
    return wire_get_bytes(in, &kv->key) && wire_get_bytes(in, &kv->value) &&
           get_int64(in, &kv->create_revision) && get_int64(in, &kv->mod_revision) &&
           get_int64(in, &kv->version);
}

static bool decode_result(struct arena *arena, struct bytes *in, struct answer_result *r)
{
    uint64_t kind, count;
    if (!wire_get_number(in, &kind) || kind > REQUEST_OP_DELETE ||
        !wire_get_number(in, &r->deleted) || !wire_get_number(in, &count) || count > in->len)
        return false;
    r->kind = (enum request_op_kind)kind;
    r->kv_count = count;
    r->kvs = arena_array(arena, count, sizeof *r->kvs);
    for (size_t i = 0; i < count; i++)
        if (!decode_kv(in, &r->kvs[i]))
            return false;
    return true;
}

struct plan_answer *answer_decode(struct arena *arena, struct bytes encoded)
{
    struct bytes in = arena_copy(arena, encoded);
    struct plan_answer *answer = arena_alloc(arena, sizeof *answer);
    uint64_t method, outcome, count;
    if (!wire_get_number(&in, &method) || method < REQUEST_PUT || method > REQUEST_EXPIRE_WORKER ||
        !wire_get_number(&in, &outcome) || outcome > STORED_TOO_MANY_WORKERS ||
        !wire_get_number(&in, &count) || count > in.len)
        return NULL;
    answer->method = (enum request_method)method;
    for (size_t i = 0; i < REFUSALS; i++)
        if (refusals[i].outcome == outcome)
            answer->code = refusals[i].code;
    answer->succeeded = outcome == STORED_DONE;
    answer->result_count = count;
    answer->results = arena_array(arena, count, sizeof *answer->results);
    for (size_t i = 0; i < count; i++)
        if (!decode_result(arena, &in, &answer->results[i]))
            return NULL;
    return in.len == 0 ? answer : NULL;
}
