/* The follow thread: lists what is live, then watches; notices silence; tells the election of
 * records and of the queue, the replica of revisions. */
#include "common/base/mem.h"
#include "meta/core/cluster.h"
#include "tests/sim/operator.h"
#include <stdlib.h>

enum { LIST_TIMEOUT_MS = 2000, CHECK_US = 250 * 1000 };

static void connect_watch(struct world *w, struct member *m);
static void reconnect_after(struct world *w, struct member *m, int64_t delay_us);

/* ---- telling ---- */

static void tell_record(struct world *w, struct member *m, struct bytes value, int64_t revision)
{
    struct election_event event = {
        .kind = ELECTION_RECORD_SEEN, .revision = revision, .received_ms = member_ms(w, m)};
    if (record_bytes_set(&event.bytes, value))
        election_shell_post(w, m, &event);
}

static bool is_first(struct world *w, const struct member *m, int64_t create_revision)
{
    char key[KEY_MAX];
    struct buf end = {0};
    struct etcd_op op = {.kind = ETCD_OP_RANGE,
                         .key = keys_elections(key, SIM_PREFIX),
                         .revision = m->live_revision,
                         .keys_only = true,
                         .by_create = true,
                         .limit = 1};
    bytes_prefix_end(op.key, &end);
    op.range_end = buf_view(&end);
    struct etcd_op_result found;
    fake_etcd_range(&w->etcd, &op, &found);
    bool first = found.count == 1 && found.kvs[0].create_revision == create_revision;
    fake_op_result_close(&found);
    buf_close(&end);
    return first;
}

/* The live table is what stood in etcd at live_revision. */
static void tell_live(struct world *w, struct member *m)
{
    char key[KEY_MAX];
    struct election_event event = {.kind = ELECTION_LIVE_CHANGED};
    event.live.lease = election_lease(m->election);
    event.live.revision = m->live_revision;
    const struct fake_version *v =
        fake_etcd_get(&w->etcd, keys_election(key, SIM_PREFIX, event.live.lease), m->live_revision);
    if (v && event.live.lease) {
        event.live.create_revision = v->create_revision;
        event.live.first = is_first(w, m, v->create_revision);
    }
    v = fake_etcd_get(&w->etcd, keys_released(key, SIM_PREFIX), m->live_revision);
    if (v)
        released_decode(v->value, &event.live.released);
    operator_mark(w, m->index, m->live_revision, event.live.removed_start);
    event.live.spoken = operator_levels(w, m);
    election_shell_post(w, m, &event);
}

/* ---- what the watch brings ---- */

struct revision_note {
    struct member *m;
    int64_t revision;
};

static void run_watch(struct world *w, void *arg)
{
    struct revision_note *note = arg;
    replica_shell_watch(w, note->m, note->revision);
    free(note);
}

static void run_loaded(struct world *w, void *arg)
{
    struct revision_note *note = arg;
    replica_shell_loaded(w, note->m, note->revision);
    free(note);
}

static void run_opened(struct world *w, void *arg)
{
    struct revision_note *note = arg;
    replica_shell_opened(w, note->m, note->revision);
    free(note);
}

static void post_note(struct world *w, struct member *m, int64_t revision,
                      void (*run)(struct world *, void *))
{
    struct revision_note *note = mem_alloc(sizeof *note);
    *note = (struct revision_note){.m = m, .revision = revision};
    world_post(w, 1, m->index, THREAD_REPLICA, run, free, note);
}

static void on_revision(struct world *w, int member, uint64_t generation, int64_t revision)
{
    struct member *m = &w->members[member];
    if (generation != m->watch_generation)
        return;
    m->heard_us = w->now_us;
    const struct fake_revision *r = fake_etcd_log(&w->etcd, revision);
    bool live = false, state = false, cluster = false;
    for (size_t i = 0; i < r->count; i++) {
        struct etcd_event e = fake_etcd_event(&w->etcd, r, i);
        if (bytes_starts_with(e.kv.key, bytes_str(SIM_PREFIX "live/"))) {
            live = true;
        } else if (bytes_equal(e.kv.key, bytes_str(SIM_PREFIX "cluster"))) {
            cluster = revision > m->live_revision;
        } else if (bytes_starts_with(e.kv.key, bytes_str(SIM_PREFIX "state/"))) {
            state = true;
            if (bytes_equal(e.kv.key, bytes_str(SIM_PREFIX "state/commit")) && !e.deleted)
                tell_record(w, m, e.kv.value, revision);
        }
    }
    if (live && revision > m->live_revision) {
        m->live_revision = revision;
        tell_live(w, m);
    }
    if (state)
        post_note(w, m, revision, run_watch);
    if (cluster) /* it is asked where a listing asks it */
        reconnect_after(w, m, 1000);
}

/* ---- opening it ---- */

struct reconnect {
    struct member *m;
    uint64_t generation;
};

static void run_reconnect(struct world *w, void *arg)
{
    struct reconnect *again = arg;
    if (again->generation == again->m->watch_generation)
        connect_watch(w, again->m);
    free(again);
}

static void reconnect_after(struct world *w, struct member *m, int64_t delay_us)
{
    net_watch_close(w, m->index);
    m->watch_generation++;
    m->watch_endpoint = (m->watch_endpoint + 1) % ENDPOINTS;
    struct reconnect *again = mem_alloc(sizeof *again);
    *again = (struct reconnect){.m = m, .generation = m->watch_generation};
    world_post(w, delay_us, m->index, THREAD_FOLLOW, run_reconnect, free, again);
}

static void on_end(struct world *w, int member, uint64_t generation, bool compacted)
{
    struct member *m = &w->members[member];
    if (generation != m->watch_generation)
        return;
    world_trace(w, member, "watch ended%s", compacted ? ": compacted" : "");
    m->reload = m->reload || compacted;
    reconnect_after(w, m, 20000 + (int64_t)rng_below(&w->rng, 200000));
}

static void tell_cluster(struct world *w, struct member *m, const struct etcd_kv *kv)
{
    struct cluster cluster;
    struct err err = kv ? cluster_decode(kv->value, &cluster) : err_make(ERR_KEY_NOT_FOUND, "none");
    if (!err_is(&err))
        election_shell_post(w, m,
                            &(struct election_event){.kind = ELECTION_IDENTIFIED,
                                                     .etcd_cluster_id = w->etcd.cluster_id,
                                                     .epoch_floor = cluster.epoch_floor,
                                                     .level = cluster.format});
}

static void listed(struct world *w, struct net_call *call, struct net_answer *answer)
{
    struct member *m = call->owner;
    if (call->tag != m->watch_generation)
        return;
    if (err_is(&answer->err) || answer->result.result_count != 2) {
        reconnect_after(w, m, 20000 + (int64_t)rng_below(&w->rng, 500000));
        return;
    }
    const struct etcd_txn_result *r = &answer->result;
    const struct etcd_kv *commit = r->results[1].count ? r->results[1].kvs : NULL;
    tell_cluster(w, m, r->results[0].count ? r->results[0].kvs : NULL);
    m->heard_us = w->now_us;
    m->live_revision = r->header.revision;
    tell_record(w, m, commit ? commit->value : BYTES_NONE, commit ? commit->mod_revision : 0);
    tell_live(w, m);
    int64_t from = m->replica.applied;
    if (m->reload || from == 0) {
        m->reload = false;
        from = r->header.revision;
        post_note(w, m, from, run_loaded);
    }
    from = (from < m->live_revision ? from : m->live_revision) + 1;
    net_watch_open(w, &(struct net_watch){.member = m->index,
                                          .endpoint = m->watch_endpoint,
                                          .generation = m->watch_generation,
                                          .from = from,
                                          .on_revision = on_revision,
                                          .on_end = on_end});
    post_note(w, m, commit ? commit->mod_revision : 1, run_opened);
}

static void connect_watch(struct world *w, struct member *m)
{
    m->heard_us = w->now_us;
    struct etcd_op ranges[] = {
        {.kind = ETCD_OP_RANGE, .key = bytes_str(SIM_PREFIX "cluster")},
        {.kind = ETCD_OP_RANGE, .key = bytes_str(SIM_PREFIX "state/commit")},
    };
    net_send(w, &(struct net_call){.member = m->index,
                                   .thread = THREAD_FOLLOW,
                                   .endpoint = m->watch_endpoint,
                                   .what = "list",
                                   .kind = NET_TXN,
                                   .txn = {.success = ranges, .success_count = 2},
                                   .timeout_ms = LIST_TIMEOUT_MS,
                                   .done = listed,
                                   .owner = m,
                                   .tag = m->watch_generation});
}

static void check_silence(struct world *w, void *arg)
{
    struct member *m = arg;
    int64_t silence_us = (m->ttl_ms / 2 + 1000) * 1000;
    if (net_watch_is_open(w, m->index) && w->now_us - m->heard_us > silence_us) {
        world_trace(w, m->index, "watch is silent");
        reconnect_after(w, m, 1000);
    }
    world_post(w, CHECK_US, m->index, THREAD_FOLLOW, check_silence, NULL, m);
}

void follow_shell_start(struct world *w, struct member *m)
{
    m->watch_generation++;
    m->watch_endpoint = (int)rng_below(&w->rng, ENDPOINTS);
    m->live_revision = 0;
    m->heard_us = w->now_us;
    struct reconnect *first = mem_alloc(sizeof *first);
    *first = (struct reconnect){.m = m, .generation = m->watch_generation};
    world_post(w, 1, m->index, THREAD_FOLLOW, run_reconnect, free, first);
    world_post(w, CHECK_US, m->index, THREAD_FOLLOW, check_silence, NULL, m);
}

void follow_shell_reopen(struct world *w, struct member *m, bool reload)
{
    m->reload = m->reload || reload;
    reconnect_after(w, m, 1000);
}
