#include "meta/core/plan.h"
#include "common/base/check.h"
#include "common/base/mem.h"
#include "meta/core/plan_run.h"
#include <stdio.h>
#include <stdlib.h>

enum {
    OP_OVERHEAD_BYTES = 24, /* what etcd's encoding adds to an operation, at most */
    OWN_KEY_BYTES = 32,     /* "dedup/" and a number */
};

void plan_begin(struct plan_batch *b, struct bytes state_prefix, const struct plan_view *view,
                struct dedup_window *window, const struct plan_limits *limits, int64_t now_ms)
{
    arena_clear(&b->memory);
    footprint_clear(&b->keys);
    footprint_clear(&b->ids);
    dedup_chunk_begin(&b->chunk);
    b->op_count = b->request_count = b->user_events = b->events = b->bytes = 0;
    b->state_prefix = state_prefix;
    b->view = view;
    b->window = window;
    b->limits = *limits;
    b->evict = dedup_window_evictable(window, now_ms);
    plan_workers_begin(b);
}

/* ---- request ids ---- */

static enum plan_verdict replay(struct plan_batch *b, const struct plan_request *req,
                                const struct dedup_hit *hit, struct plan_answer **answer,
                                struct err *refusal)
{
    const struct dedup_entry *entry = &hit->entry;
    if (entry->method != req->method || entry->body_hash != req->body_hash) {
        *refusal =
            err_make(ERR_BAD_REQUEST_ID,
                     "this request id was used before with another method or body: an id is for "
                     "one effect");
        return PLAN_REFUSED;
    }
    *answer = answer_decode(&b->memory, entry->answer);
    if (!*answer) {
        *refusal = err_make(ERR_CORRUPT, "the recorded answer of this request id cannot be read");
        return PLAN_REFUSED;
    }
    answer_settle(*answer, hit->revision);
    (*answer)->replayed = true;
    return PLAN_ANSWERED;
}

/* TAKEN: the id is new. */
static enum plan_verdict look_at_id(struct plan_batch *b, const struct plan_request *req,
                                    struct plan_answer **answer, struct err *refusal)
{
    struct dedup_hit hit;
    if (b->view->dedup(b->view->ctx, req->id, &hit))
        return replay(b, req, &hit, answer, refusal);
    if (!footprint_key_free(&b->ids, req->id, true))
        return PLAN_WAIT_NEXT;
    if (req->id_revision >= 0 && req->id_revision < b->window->floor) {
        *refusal =
            err_make(ERR_REQUEST_ID_EXPIRED,
                     "this request id is older than the table of ids (revision %lld): whether it "
                     "was executed is not known any more",
                     (long long)b->window->floor);
        return PLAN_REFUSED;
    }
    return PLAN_TAKEN;
}

/* ---- room ---- */

/* Operations of our own: the chunk, and with evictions the floor. */
static size_t own_ops(const struct plan_batch *b, bool with_chunk)
{
    return (with_chunk ? 1 : 0) + (b->evict ? b->evict + 1 : 0);
}

static size_t own_bytes(const struct plan_batch *b)
{
    return (b->evict + 2) * (b->state_prefix.len + OWN_KEY_BYTES + OP_OVERHEAD_BYTES);
}

static enum plan_verdict no_room(const struct plan_batch *b, struct err *refusal, const char *what,
                                 size_t limit)
{
    if (b->request_count)
        return PLAN_FULL;
    *refusal = err_make(ERR_TOO_LARGE, "the request needs more than the %zu %s of one commit",
                        limit, what);
    return PLAN_REFUSED;
}

static enum plan_verdict find_room(const struct plan_batch *b, const struct plan_run *r,
                                   size_t first_op, size_t entry_bytes, struct err *refusal)
{
    bool with_chunk = b->ids.key_count || r->req->id.len;
    if (b->op_count + own_ops(b, with_chunk) + plan_workers_ops(b, r) > b->limits.max_ops)
        return no_room(b, refusal, "operations", b->limits.max_ops);
    size_t mine =
        r->bytes + (b->op_count - first_op) * OP_OVERHEAD_BYTES + plan_workers_bytes(b, r);
    if (b->bytes + mine + b->chunk.len + entry_bytes + own_bytes(b) > b->limits.max_bytes)
        return no_room(b, refusal, "bytes", b->limits.max_bytes);
    if (entry_bytes && !dedup_window_has_room(b->window, b->evict, b->chunk.len + entry_bytes)) {
        *refusal = err_make(ERR_OVERLOADED,
                            "request ids fill --dedup-bytes (%llu), and none is old enough to be "
                            "forgotten: try again later, or make it larger",
                            (unsigned long long)b->window->limits.max_bytes);
        return PLAN_REFUSED;
    }
    return PLAN_TAKEN;
}

/* ---- taking one ---- */

static void keep(struct plan_batch *b, const struct plan_run *r, size_t first_op,
                 const struct dedup_entry *entry)
{
    plan_run_keep(r);
    if (entry) {
        footprint_add_key(&b->ids, r->req->id, true);
        dedup_chunk_add(&b->chunk, entry);
    }
    if (b->request_count == b->answer_cap) {
        b->answer_cap = b->answer_cap ? b->answer_cap * 2 : 64;
        b->answers = mem_resize(b->answers, b->answer_cap * sizeof *b->answers);
    }
    b->answers[b->request_count++] = r->answer;
    b->user_events += r->events;
    b->bytes += r->bytes + (b->op_count - first_op) * OP_OVERHEAD_BYTES;
}

static enum plan_verdict run_and_keep(struct plan_batch *b, struct plan_run *r)
{
    size_t first_op = b->op_count;
    struct dedup_entry entry = {
        .id = r->req->id, .method = (uint8_t)r->req->method, .body_hash = r->req->body_hash};
    enum plan_verdict verdict = plan_run(r);
    if (verdict == PLAN_TAKEN && entry.id.len) {
        buf_clear(&b->encoded);
        answer_encode(&b->encoded, r->answer);
        entry.answer = buf_view(&b->encoded);
    }
    if (verdict == PLAN_TAKEN)
        verdict =
            find_room(b, r, first_op, entry.id.len ? dedup_entry_bytes(&entry) : 0, &r->refusal);
    if (verdict == PLAN_TAKEN)
        keep(b, r, first_op, entry.id.len ? &entry : NULL);
    else
        b->op_count = first_op;
    return verdict;
}

enum plan_verdict plan_add(struct plan_batch *b, const struct plan_request *req,
                           struct plan_answer **answer, struct err *refusal)
{
    *answer = NULL;
    if (req->id.len) {
        enum plan_verdict verdict = look_at_id(b, req, answer, refusal);
        if (verdict != PLAN_TAKEN)
            return verdict;
    }
    struct plan_run run = {
        .batch = b, .req = req, .answer_max = req->id.len ? ANSWER_RECORDED_MAX : ANSWER_MAX};
    enum plan_verdict verdict = run_and_keep(b, &run);
    if (verdict == PLAN_TAKEN)
        *answer = run.answer;
    else if (verdict == PLAN_REFUSED)
        *refusal = run.refusal;
    return verdict;
}

/* ---- the end ---- */

static struct bytes chunk_key(struct plan_batch *b, uint64_t n)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%020llu", (unsigned long long)n);
    return plan_key(b, "dedup/", bytes_str(digits));
}

static void push_evictions(struct plan_batch *b)
{
    for (size_t i = 0; i < b->evict; i++)
        plan_push_op(b, &(struct etcd_op){.kind = ETCD_OP_DELETE,
                                          .key = chunk_key(b, dedup_window_slot(b->window, i)->n)});
    char floor[24];
    snprintf(floor, sizeof floor, "%lld", (long long)dedup_window_floor_after(b->window, b->evict));
    plan_push_op(b, &(struct etcd_op){.kind = ETCD_OP_PUT,
                                      .key = plan_key(b, "dedup/", bytes_str("floor")),
                                      .value = arena_copy(&b->memory, bytes_str(floor))});
}

void plan_end(struct plan_batch *b)
{
    size_t first_own = b->op_count;
    if (b->ids.key_count)
        plan_push_op(b, &(struct etcd_op){.kind = ETCD_OP_PUT,
                                          .key = chunk_key(b, b->window->next_n),
                                          .value = buf_view(&b->chunk)});
    if (b->evict)
        push_evictions(b);
    plan_workers_end(b);
    b->events = b->user_events + (b->op_count - first_own);
    b->view = NULL;
}

void plan_committed(struct plan_batch *b, int64_t revision, int64_t now_ms)
{
    PRE(!b->view);
    for (size_t i = 0; i < b->request_count; i++)
        answer_settle(b->answers[i], revision);
    dedup_window_evict(b->window, b->evict);
    if (b->ids.key_count)
        dedup_window_add(b->window, &(struct dedup_slot){.n = b->window->next_n,
                                                         .revision = revision,
                                                         .seen_ms = now_ms,
                                                         .ids = (uint32_t)b->ids.key_count,
                                                         .bytes = (uint32_t)b->chunk.len});
    b->evict = 0;
}

void plan_close(struct plan_batch *b)
{
    free(b->ops);
    free(b->answers);
    arena_close(&b->memory);
    footprint_close(&b->keys);
    footprint_close(&b->ids);
    plan_workers_close(b);
    buf_close(&b->chunk);
    buf_close(&b->encoded);
    *b = (struct plan_batch){0};
}
