/* Requests about workers. The view's table says who is there, so that an address and a free slot
 * are found without looking through all records; the records themselves come from the view. */
#include "common/base/mem.h"
#include "meta/core/plan_run.h"
#include <stdlib.h>

enum { COUNTERS_BYTES = 100, OWN_KEY_BYTES = 32 };

void plan_workers_begin(struct plan_batch *b)
{
    struct plan_workers *w = &b->workers;
    footprint_clear(&w->keys);
    buf_clear(&w->gone);
    w->count = 0;
    w->counters =
        b->view->workers ? *workers_counters(b->view->workers) : (struct worker_counters){0};
}

void plan_workers_close(struct plan_batch *b)
{
    free(b->workers.changes);
    buf_close(&b->workers.gone);
    footprint_close(&b->workers.keys);
}

/* ---- answers ---- */

static struct etcd_kv *begin_answer(struct plan_run *r)
{
    struct arena *memory = &r->batch->memory;
    r->answer = arena_alloc(memory, sizeof *r->answer);
    r->answer->method = r->req->method;
    r->answer->succeeded = true;
    r->answer->result_count = 1;
    r->answer->results = arena_alloc(memory, sizeof *r->answer->results);
    r->answer->results[0].kvs = arena_alloc(memory, sizeof(struct etcd_kv));
    return r->answer->results[0].kvs;
}

/* A refusal that depends on the state is recorded, like any answer. */
static enum plan_verdict refuse_by_state(struct plan_run *r, enum err_code code)
{
    begin_answer(r);
    r->answer->code = code;
    return PLAN_TAKEN;
}

/* ---- what is written ---- */

static struct bytes key_of(struct plan_run *r, uint64_t id)
{
    char digits[WORKER_KEY_DIGITS + 1];
    worker_key(digits, id);
    return arena_copy(&r->batch->memory, bytes_str(digits));
}

static struct bytes line_of(struct plan_run *r, const struct worker *w)
{
    struct buf line = {0};
    worker_encode(w, &line);
    struct bytes kept = arena_copy(&r->batch->memory, buf_view(&line));
    buf_close(&line);
    return kept;
}

/* before: the record as it is; version 0: there is none. */
static enum plan_verdict write_worker(struct plan_run *r, const struct etcd_kv *before)
{
    const struct worker *w = &r->change.worker;
    struct bytes key = key_of(r, w->id), line = line_of(r, w);
    if (line.len > WORKER_BYTES_MAX) {
        r->refusal =
            err_make(ERR_BAD_WORKER, "labels and resources of %zu bytes: at most %d in all",
                     line.len, WORKER_BYTES_MAX);
        return PLAN_REFUSED;
    }
    *begin_answer(r) = (struct etcd_kv){.key = key,
                                        .value = line,
                                        .create_revision = before->create_revision,
                                        .version = before->version + 1};
    r->answer->results[0].kv_count = 1;
    r->changes = true;
    plan_write(r,
               (struct etcd_op){
                   .kind = ETCD_OP_PUT, .key = plan_key(r->batch, "workers/", key), .value = line},
               1);
    return PLAN_TAKEN;
}

static enum plan_verdict end_worker(struct plan_run *r, const struct etcd_kv *before)
{
    struct bytes key = key_of(r, r->change.worker.id);
    *begin_answer(r) = (struct etcd_kv){.key = key,
                                        .value = arena_copy(&r->batch->memory, before->value),
                                        .create_revision = before->create_revision,
                                        .mod_revision = before->mod_revision,
                                        .version = before->version};
    r->answer->results[0].kv_count = 1;
    r->change.worker.end =
        r->req->method == REQUEST_EXPIRE_WORKER ? WORKER_EXPIRED : WORKER_DELETED;
    r->changes = true;
    plan_write(
        r, (struct etcd_op){.kind = ETCD_OP_DELETE, .key = plan_key(r->batch, "workers/", key)}, 1);
    return PLAN_TAKEN;
}

/* ---- labels and resources: sorted lists, merged ---- */

static bool is_among(struct bytes name, const struct bytes *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (bytes_equal(name, names[i]))
            return true;
    return false;
}

static int by_label(const void *a, const void *b)
{
    return bytes_compare(((const struct worker_label *)a)->name,
                         ((const struct worker_label *)b)->name);
}

static int by_resource(const void *a, const void *b)
{
    return bytes_compare(((const struct worker_resource *)a)->name,
                         ((const struct worker_resource *)b)->name);
}

static void set_label(struct worker_label *list, size_t *count, const struct worker_label *label)
{
    size_t i = 0;
    while (i < *count && !bytes_equal(list[i].name, label->name))
        i++;
    list[i] = *label;
    *count += i == *count;
}

static void set_resource(struct worker_resource *list, size_t *count,
                         const struct worker_resource *resource)
{
    size_t i = 0;
    while (i < *count && !bytes_equal(list[i].name, resource->name))
        i++;
    list[i] = *resource;
    *count += i == *count;
}

static void merge_labels(struct plan_run *r, struct worker *w)
{
    const struct request_worker *q = r->req->worker;
    struct worker_label *list =
        arena_array(&r->batch->memory, w->label_count + q->label_count + 1, sizeof *list);
    size_t count = 0;
    for (size_t i = 0; i < w->label_count; i++)
        if (!is_among(w->labels[i].name, q->remove_labels, q->remove_label_count))
            list[count++] = w->labels[i];
    for (size_t i = 0; i < q->label_count; i++)
        set_label(list, &count, &q->labels[i]);
    qsort(list, count, sizeof *list, by_label);
    w->labels = list;
    w->label_count = count;
}

static void merge_resources(struct plan_run *r, struct worker *w)
{
    const struct request_worker *q = r->req->worker;
    struct worker_resource *list =
        arena_array(&r->batch->memory, w->resource_count + q->resource_count + 1, sizeof *list);
    size_t count = 0;
    for (size_t i = 0; i < w->resource_count; i++)
        if (!is_among(w->resources[i].name, q->remove_resources, q->remove_resource_count))
            list[count++] = w->resources[i];
    for (size_t i = 0; i < q->resource_count; i++)
        set_resource(list, &count, &q->resources[i]);
    qsort(list, count, sizeof *list, by_resource);
    w->resources = list;
    w->resource_count = count;
}

static enum plan_verdict merge(struct plan_run *r)
{
    struct worker *w = &r->change.worker;
    merge_labels(r, w);
    merge_resources(r, w);
    r->refusal = worker_check_labels(w->labels, w->label_count);
    if (!err_is(&r->refusal))
        r->refusal = worker_check_resources(w->resources, w->resource_count);
    return err_is(&r->refusal) ? PLAN_REFUSED : PLAN_TAKEN;
}

/* ---- the record ---- */

/* The worker as it is; REFUSED: its record cannot be read. */
static enum plan_verdict read_worker(struct plan_run *r, uint64_t id, struct etcd_kv *kv)
{
    const struct plan_view *view = r->batch->view;
    struct err e = err_make(ERR_CORRUPT, "worker %llu has no record", (unsigned long long)id);
    if (view->worker(view->ctx, key_of(r, id), kv))
        e = worker_decode(kv->value, &r->batch->memory, &r->change.worker);
    r->refusal = e;
    return err_is(&e) ? PLAN_REFUSED : PLAN_TAKEN;
}

/* The lowest slot that nobody holds. What a batch grants of one type grows. */
static uint32_t free_slot(const struct plan_run *r, struct bytes type)
{
    const struct plan_workers *w = &r->batch->workers;
    uint32_t from = 0;
    for (size_t i = w->count; i > 0; i--) {
        const struct plan_worker *c = &w->changes[i - 1];
        if (c->granted && bytes_equal(c->worker.type, type)) {
            from = c->worker.slot + 1;
            break;
        }
    }
    return workers_free_slot(r->batch->view->workers, type, from);
}

/* A slot is granted anew with each registration, so that its holder outranks its former life. */
static void grant_slot(struct plan_run *r)
{
    struct worker *w = &r->change.worker;
    if (!w->has_slot && !r->req->worker->slot)
        return;
    if (!w->has_slot) {
        w->slot = free_slot(r, w->type);
        r->change.granted = true;
    }
    w->has_slot = true;
    w->grant = ++r->counters.grant;
}

static enum plan_verdict register_worker(struct plan_run *r, const struct worker_seat *seat)
{
    const struct request_worker *q = r->req->worker;
    struct worker *w = &r->change.worker;
    struct etcd_kv before = {0};
    *w = (struct worker){.type = q->type, .addr = q->addr};
    if (seat) {
        enum plan_verdict verdict = read_worker(r, seat->id, &before);
        if (verdict != PLAN_TAKEN)
            return verdict;
        if (!bytes_equal(w->type, q->type))
            return refuse_by_state(r, ERR_BAD_WORKER);
    } else {
        w->id = ++r->counters.id;
    }
    w->incarnation = ++r->counters.incarnation;
    w->running = false;
    w->ttl_ms = q->ttl_ms ? q->ttl_ms : r->batch->limits.worker_ttl_ms;
    grant_slot(r);
    enum plan_verdict verdict = merge(r);
    return verdict == PLAN_TAKEN ? write_worker(r, &before) : verdict;
}

static enum plan_verdict run_add(struct plan_run *r)
{
    const struct request_worker *q = r->req->worker;
    const struct plan_batch *b = r->batch;
    const struct worker_seat *seat = workers_find_addr(b->view->workers, q->addr);
    if (!footprint_key_free(&b->workers.keys, q->addr, true) ||
        (seat && !footprint_key_free(&b->workers.keys, key_of(r, seat->id), true)))
        return PLAN_WAIT_NEXT;
    if (b->limits.no_puts) {
        r->refusal = *b->limits.no_puts;
        return PLAN_REFUSED;
    }
    uint64_t others = b->workers.counters.id - workers_counters(b->view->workers)->id;
    if (!seat && workers_count(b->view->workers) + others >= b->limits.max_workers)
        return refuse_by_state(r, ERR_TOO_MANY_WORKERS);
    return register_worker(r, seat);
}

static void toggle(bool *flag, enum request_toggle to)
{
    if (to != REQUEST_KEEP)
        *flag = to == REQUEST_ON;
}

static enum plan_verdict update(struct plan_run *r)
{
    const struct request_worker *q = r->req->worker;
    struct worker *w = &r->change.worker;
    toggle(&w->cordoned, q->cordoned);
    toggle(&w->draining, q->draining);
    if (q->draining == REQUEST_ON)
        w->cordoned = true;
    return merge(r);
}

static enum plan_verdict change_worker(struct plan_run *r, const struct etcd_kv *before)
{
    enum plan_verdict verdict = PLAN_TAKEN;
    if (r->req->method == REQUEST_DELETE_WORKER || r->req->method == REQUEST_EXPIRE_WORKER)
        return end_worker(r, before);
    if (r->batch->limits.no_puts) {
        r->refusal = *r->batch->limits.no_puts;
        return PLAN_REFUSED;
    }
    if (r->req->method == REQUEST_ACTIVATE_WORKER)
        r->change.worker.running = true;
    else
        verdict = update(r);
    return verdict == PLAN_TAKEN ? write_worker(r, before) : verdict;
}

enum plan_verdict plan_run_worker(struct plan_run *r)
{
    const struct request_worker *q = r->req->worker;
    struct etcd_kv before = {0};
    r->counters = r->batch->workers.counters;
    if (r->req->method == REQUEST_ADD_WORKER)
        return run_add(r);
    if (!footprint_key_free(&r->batch->workers.keys, key_of(r, q->id), true))
        return PLAN_WAIT_NEXT;
    const struct worker_seat *seat = workers_find(r->batch->view->workers, q->id);
    if (!seat || q->incarnation > seat->incarnation)
        return refuse_by_state(r, ERR_UNKNOWN_WORKER);
    if (q->incarnation && q->incarnation < seat->incarnation)
        return refuse_by_state(r, ERR_STALE_INCARNATION);
    enum plan_verdict verdict = read_worker(r, q->id, &before);
    return verdict == PLAN_TAKEN ? change_worker(r, &before) : verdict;
}

/* ---- keeping it ---- */

void plan_run_worker_keep(const struct plan_run *r)
{
    struct plan_workers *w = &r->batch->workers;
    if (!r->changes)
        return;
    if (w->count == w->cap) {
        w->cap = w->cap ? w->cap * 2 : 64;
        w->changes = mem_resize(w->changes, w->cap * sizeof *w->changes);
    }
    w->changes[w->count++] = r->change;
    w->counters = r->counters;
    footprint_add_key(&w->keys, r->answer->results[0].kvs[0].key, true);
    footprint_add_key(&w->keys, r->change.worker.addr, true);
    if (r->change.worker.end != WORKER_LIVES) {
        if (w->gone.len)
            buf_byte(&w->gone, '\n');
        worker_encode(&r->change.worker, &w->gone);
    }
}

static bool has_any(const struct plan_batch *b, const struct plan_run *r)
{
    return b->workers.count || r->changes;
}

size_t plan_workers_ops(const struct plan_batch *b, const struct plan_run *r)
{
    return has_any(b, r) ? 2 : 0;
}

size_t plan_workers_bytes(const struct plan_batch *b, const struct plan_run *r)
{
    if (!has_any(b, r))
        return 0;
    size_t line = 0;
    if (r->changes && r->change.worker.end != WORKER_LIVES)
        line = r->answer->results[0].kvs[0].value.len + COUNTERS_BYTES;
    return COUNTERS_BYTES + 2 * (b->state_prefix.len + OWN_KEY_BYTES) + b->workers.gone.len + line;
}

static void push_put(struct plan_batch *b, const char *name, struct bytes value)
{
    plan_push_op(b, &(struct etcd_op){.kind = ETCD_OP_PUT,
                                      .key = plan_key(b, "workers/", bytes_str(name)),
                                      .value = arena_copy(&b->memory, value)});
}

void plan_workers_end(struct plan_batch *b)
{
    struct plan_workers *w = &b->workers;
    const struct worker_counters *before =
        b->view->workers ? workers_counters(b->view->workers) : NULL;
    if (before && w->counters.incarnation != before->incarnation) {
        struct buf line = {0};
        worker_counters_encode(&w->counters, &line);
        push_put(b, WORKER_COUNTERS_KEY, buf_view(&line));
        buf_close(&line);
    }
    if (w->gone.len)
        push_put(b, WORKER_GONE_KEY, buf_view(&w->gone));
}

void plan_workers_committed(const struct plan_batch *b, struct workers *workers, int64_t now_ms)
{
    const struct plan_workers *w = &b->workers;
    for (size_t i = 0; i < w->count; i++) {
        if (w->changes[i].worker.end != WORKER_LIVES)
            workers_remove(workers, w->changes[i].worker.id);
        else
            workers_put(workers, &w->changes[i].worker, now_ms);
    }
    workers_set_counters(workers, &w->counters);
}
