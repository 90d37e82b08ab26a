/* What there is: workers one by one, and the cluster at a glance. */
#include "meta/board.h"
#include "meta/convert_worker.h"
#include "meta/fanout.h"
#include "meta/leased.h"
#include "meta/live.h"
#include "meta/metrics.h"
#include "meta/service_cluster_parts.h"
#include "meta/store.h"
#include "meta/workforce.h"

enum { PAGE_BYTES = 1024 * 1024, TYPES_MAX = 1000 };

/* NULL: the call is answered, or runs anew. */
static struct store_snapshot *open_state(struct service_cluster *s, struct rpc_call *call,
                                         uint64_t confirmed, lead_run *run, uint64_t *epoch)
{
    if (!lead_check_epoch(s->lead, call, confirmed, run, s))
        return NULL;
    struct store_snapshot *snap = leased_snapshot(s->lead->board, s->store, confirmed, epoch);
    if (!snap)
        lead_confirm_or_refuse(s->lead, call, run, s);
    return snap;
}

/* ---- ListWorkers ---- */

struct page {
    struct service_cluster *service;
    const struct worker_filter *filter;
    struct arena memory; /* of the worker at hand */
    struct buf *out;
    size_t count;
    bool more;
};

/* Messages one behind the other are one message with all their workers. */
static void append(struct page *p, const Baton__V1__ListWorkersResponse *m)
{
    buf_reserve(p->out, baton__v1__list_workers_response__get_packed_size(m));
    p->out->len += baton__v1__list_workers_response__pack(m, p->out->data + p->out->len);
}

static bool has_label(const struct worker *w, const struct worker_label *wanted)
{
    for (size_t i = 0; i < w->label_count; i++)
        if (bytes_equal(w->labels[i].name, wanted->name))
            return bytes_equal(w->labels[i].value, wanted->value);
    return false;
}

static bool is_wanted(const struct worker_filter *f, const struct worker *w, bool expiring)
{
    static const bool any = true;
    const bool states[] = {any, !w->running && !expiring, w->running && !expiring, expiring};
    if ((f->type.len && !bytes_equal(f->type, w->type)) || !states[f->state])
        return false;
    if (f->schedulable && (!w->running || expiring || w->cordoned || w->draining))
        return false;
    for (size_t i = 0; i < f->label_count; i++)
        if (!has_label(w, &f->labels[i]))
            return false;
    return true;
}

static void add_to_page(struct page *p, const struct worker *w, const struct etcd_kv *kv)
{
    bool expiring;
    int64_t silent_ms;
    workforce_look(p->service->workforce, w->id, w->incarnation, &expiring, &silent_ms);
    if (!is_wanted(p->filter, w, expiring))
        return;
    Baton__V1__ListWorkersResponse one = BATON__V1__LIST_WORKERS_RESPONSE__INIT;
    Baton__V1__Worker *m = convert_worker(w, kv, &p->memory);
    m->silent_ms = silent_ms;
    if (expiring)
        m->state = BATON__V1__WORKER_STATE__WORKER_STATE_EXPIRING;
    one.n_workers = 1;
    one.workers = &m;
    append(p, &one);
    p->count++;
}

static bool look_at_worker(void *arg, const struct etcd_kv *kv)
{
    struct page *p = arg;
    struct worker w;
    uint64_t id;
    if (!worker_key_id(kv->key, &id))
        return true;
    p->more = p->count == p->filter->limit || p->out->len > PAGE_BYTES;
    if (p->more)
        return false;
    struct err e = worker_decode(kv->value, &p->memory, &w);
    if (!err_is(&e))
        add_to_page(p, &w, kv);
    arena_clear(&p->memory);
    return true;
}

static void list(struct service_cluster *s, struct store_snapshot *snap,
                 const struct worker_filter *filter, struct buf *out)
{
    struct page p = {.service = s, .filter = filter, .out = out};
    char from[WORKER_KEY_DIGITS + 1];
    worker_key(from, filter->after_id + (filter->after_id < UINT64_MAX));
    store_workers(snap, bytes_str(from), look_at_worker, &p);
    Baton__V1__ListWorkersResponse m = BATON__V1__LIST_WORKERS_RESPONSE__INIT;
    m.revision = store_revision(snap);
    m.more = p.more;
    append(&p, &m);
    arena_close(&p.memory);
}

static void run_list(struct rpc_call *call, void *ctx, uint64_t confirmed)
{
    struct service_cluster *s = ctx;
    struct arena memory = {0};
    struct worker_filter filter;
    struct store_snapshot *snap;
    uint64_t epoch;
    struct err e = convert_list_workers(rpc_call_body(call), &memory, &filter);
    if (err_is(&e)) {
        lead_fail(s->lead, call, &e);
    } else if ((snap = open_state(s, call, confirmed, run_list, &epoch))) {
        struct buf message = {0};
        list(s, snap, &filter, &message);
        store_snapshot_close(snap);
        lead_reply(s->lead, call, epoch, false, buf_view(&message));
        buf_close(&message);
    }
    arena_close(&memory);
}

void cluster_handle_list(struct rpc_call *call, void *ctx)
{
    run_list(call, ctx, 0);
}

/* ---- GetClusterInfo ---- */

static void add_types(Baton__V1__GetClusterInfoResponse *m, struct workforce *f,
                      struct arena *memory)
{
    struct worker_counters counters;
    size_t workers;
    struct workforce_type *types = arena_array(memory, TYPES_MAX, sizeof *types);
    size_t count = workforce_types(f, types, TYPES_MAX, &counters, &workers);
    count = count < TYPES_MAX ? count : TYPES_MAX;
    m->workers = workers;
    m->started_workers = counters.incarnation;
    m->n_worker_types = count;
    m->worker_types = arena_array(memory, count + 1, sizeof *m->worker_types);
    for (size_t i = 0; i < count; i++) {
        Baton__V1__GetClusterInfoResponse__WorkerType *t = arena_alloc(memory, sizeof *t);
        baton__v1__get_cluster_info_response__worker_type__init(t);
        t->type = types[i].name;
        t->starting = types[i].sum.starting;
        t->running = types[i].sum.running;
        t->expiring = types[i].sum.expiring;
        t->unschedulable = types[i].sum.unschedulable;
        t->slots = types[i].sum.slots;
        m->worker_types[i] = t;
    }
}

static uint32_t count_members(struct live *live)
{
    struct member_info any;
    return (uint32_t)live_members(live, &any, 1);
}

static void describe(struct service_cluster *s, struct store_snapshot *snap, uint64_t epoch,
                     struct buf *out)
{
    Baton__V1__GetClusterInfoResponse m = BATON__V1__GET_CLUSTER_INFO_RESPONSE__INIT;
    Baton__V1__GetClusterInfoResponse__Activity did =
        BATON__V1__GET_CLUSTER_INFO_RESPONSE__ACTIVITY__INIT;
    struct arena memory = {0};
    struct board_leader leader;
    struct cluster cluster;
    struct meta_activity activity;
    board_leader(s->lead->board, &leader);
    board_cluster(s->lead->board, &cluster);
    struct fanout_load load;
    meta_activity(&activity);
    fanout_load(s->fanout, &load);
    m.cluster_id = leader.cluster_id;
    m.leader_id = leader.id;
    m.leader_addr = leader.addr;
    m.revision = store_revision(snap);
    m.epoch = epoch;
    m.members = s->live ? count_members(s->live) : 1;
    m.keys = store_count(snap, BYTES_NONE, BYTES_NONE);
    m.format_level = cluster.format;
    add_types(&m, s->workforce, &memory);
    did.commits = activity.commits;
    did.writes = activity.writes;
    did.reads = activity.reads;
    did.heartbeats = activity.heartbeats;
    did.streams = (uint64_t)load.streams;
    m.activity = &did;
    buf_reserve(out, baton__v1__get_cluster_info_response__get_packed_size(&m));
    out->len = baton__v1__get_cluster_info_response__pack(&m, out->data);
    arena_close(&memory);
}

static void run_info(struct rpc_call *call, void *ctx, uint64_t confirmed)
{
    struct service_cluster *s = ctx;
    uint64_t epoch;
    struct store_snapshot *snap = open_state(s, call, confirmed, run_info, &epoch);
    if (!snap)
        return;
    struct buf message = {0};
    describe(s, snap, epoch, &message);
    store_snapshot_close(snap);
    lead_reply(s->lead, call, epoch, false, buf_view(&message));
    buf_close(&message);
}

void cluster_handle_info(struct rpc_call *call, void *ctx)
{
    run_info(call, ctx, 0);
}
