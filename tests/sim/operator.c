#include "tests/sim/operator.h"
#include "common/base/mem.h"
#include "meta/core/cluster.h"
#include "meta/core/removal.h"
#include <stdio.h>
#include <stdlib.h>

enum { LINE_MAX = 64 };

/* ---- what stood in etcd ---- */

static void list(struct world *w, struct bytes prefix, int64_t revision, struct etcd_op_result *out)
{
    struct buf end = {0};
    bytes_prefix_end(prefix, &end);
    fake_etcd_range(&w->etcd,
                    &(struct etcd_op){.kind = ETCD_OP_RANGE,
                                      .key = prefix,
                                      .range_end = buf_view(&end),
                                      .revision = revision},
                    out);
    buf_close(&end);
}

struct level_range operator_levels(struct world *w, const struct member *m)
{
    char room[KEY_MAX];
    struct etcd_op_result found;
    struct level_range all = {0};
    list(w, keys_members(room, SIM_PREFIX), m->live_revision, &found);
    for (size_t i = 0; i < found.count; i++) {
        struct member_info info;
        struct err err = member_info_decode(found.kvs[i].value, &info);
        if (!err_is(&err))
            level_narrow(&all, &info);
    }
    fake_op_result_close(&found);
    return all;
}

void operator_mark(struct world *w, int member, int64_t revision, char start[NONCE_DIGITS + 1])
{
    char room[KEY_MAX], id[8];
    snprintf(id, sizeof id, "m%d", member);
    const struct fake_version *v =
        fake_etcd_get(&w->etcd, keys_removed(room, SIM_PREFIX, id), revision);
    removal_decode_mark(v ? v->value : BYTES_NONE, start);
}

bool operator_has_removed(struct world *w, int member)
{
    char start[NONCE_DIGITS + 1];
    operator_mark(w, member, 0, start);
    return start[0] && strcmp(start, w->members[member].start) == 0;
}

/* ---- handing over ---- */

static void take_place(struct handover_view *view, struct handover_member *members,
                       const struct etcd_kv *key)
{
    char room[KEY_MAX];
    int64_t lease;
    if (!keys_rest_lease(key->key, keys_elections(room, SIM_PREFIX), &lease))
        return;
    for (size_t i = 0; i < view->count; i++) {
        if (members[i].lease == lease) {
            members[i].place = key->create_revision;
            return;
        }
    }
    if (!view->foreign_place || key->create_revision < view->foreign_place)
        view->foreign_place = key->create_revision;
}

static void fill_view(struct world *w, const struct member *m, struct handover_view *view,
                      struct handover_member members[LINE_MAX])
{
    char room[KEY_MAX];
    struct etcd_op_result found;
    list(w, keys_members(room, SIM_PREFIX), m->live_revision, &found);
    for (size_t i = 0; i < found.count && view->count < LINE_MAX; i++) {
        struct member_info info;
        struct err err = member_info_decode(found.kvs[i].value, &info);
        struct handover_member *to = &members[view->count];
        if (err_is(&err))
            continue;
        *to = (struct handover_member){.lease = found.kvs[i].lease, .reported = true};
        memcpy(to->id, info.id, sizeof to->id);
        view->count++;
    }
    fake_op_result_close(&found);
    list(w, keys_elections(room, SIM_PREFIX), m->live_revision, &found);
    for (size_t i = 0; i < found.count; i++)
        take_place(view, members, &found.kvs[i]);
    fake_op_result_close(&found);
}

void operator_transfer(struct world *w, int member, const char *target)
{
    struct member *m = &w->members[member];
    struct handover_member members[LINE_MAX];
    char self[8];
    snprintf(self, sizeof self, "m%d", member);
    struct handover_view view = {.self_id = self, .members = members};
    struct election_event event = {.kind = ELECTION_TRANSFER, .epoch = m->epoch};
    if (!m->alive || m->role != ROLE_LEADER)
        return;
    fill_view(w, m, &view, members);
    struct err err = handover_plan(&view, target, &event.handover);
    if (err_is(&err)) {
        world_trace(w, member, "does not hand over: %s", err.message);
        return;
    }
    world_fault(w, FAULT_TRANSFER);
    world_trace(w, member, "is asked to hand over to %s", event.handover.target);
    event.ticket = ++m->transfers_asked;
    m->transfers_open |= 1ULL << event.ticket % 64;
    election_shell_post(w, m, &event);
}

/* ---- taking out ---- */

struct taking_out {
    struct removal removal;
    int attempts;
};

static void revoke_done(struct world *w, struct net_call *call, struct net_answer *answer)
{
    free(call->owner);
}

static void send_txn(struct world *w, struct taking_out *t);

static void txn_done(struct world *w, struct net_call *call, struct net_answer *answer)
{
    struct taking_out *t = call->owner;
    enum removal_verdict verdict = REMOVAL_UNKNOWN;
    if (!err_is(&answer->err))
        verdict = removal_judge(&t->removal, w->etcd.cluster_id, &answer->result);
    if (verdict == REMOVAL_UNKNOWN && t->attempts < 3) {
        send_txn(w, t);
        return;
    }
    world_trace(w, NOBODY, "the removal of %s: verdict %d", t->removal.id, verdict);
    if (verdict != REMOVAL_DONE || !t->removal.lease) {
        free(t);
        return;
    }
    net_send(w, &(struct net_call){.member = NOBODY,
                                   .what = "revoke",
                                   .kind = NET_REVOKE,
                                   .lease = t->removal.lease,
                                   .timeout_ms = 1000,
                                   .done = revoke_done,
                                   .owner = t});
}

static void send_txn(struct world *w, struct taking_out *t)
{
    struct fence_txn txn = {0};
    removal_make(&txn, SIM_PREFIX, &t->removal);
    t->attempts++;
    net_send(w, &(struct net_call){.member = NOBODY,
                                   .endpoint = t->attempts % ENDPOINTS,
                                   .what = "removal",
                                   .kind = NET_TXN,
                                   .txn = txn.txn,
                                   .timeout_ms = 1000,
                                   .done = txn_done,
                                   .owner = t});
    fence_txn_close(&txn);
}

void operator_remove(struct world *w, int member, int victim)
{
    char room[KEY_MAX], id[8];
    struct member_info info;
    snprintf(id, sizeof id, "m%d", victim);
    const struct fake_version *v = fake_etcd_get(&w->etcd, keys_member(room, SIM_PREFIX, id),
                                                 w->members[member].live_revision);
    if (!v)
        return;
    struct err err = member_info_decode(v->value, &info);
    struct taking_out *t = mem_alloc(sizeof *t);
    t->removal.record_revision = v->create_revision;
    t->removal.lease = v->lease;
    snprintf(t->removal.id, sizeof t->removal.id, "%s", id);
    if (err_is(&err)) {
        free(t);
        return;
    }
    memcpy(t->removal.start, info.start, sizeof t->removal.start);
    world_fault(w, FAULT_REMOVED);
    world_trace(w, victim, "is taken out by an operator");
    send_txn(w, t);
}

/* ---- upgrades ---- */

void operator_upgrade(struct world *w, int member, unsigned version)
{
    struct member *m = &w->members[member];
    if (m->version == version)
        return;
    world_fault(w, version > m->version ? FAULT_UPGRADE : FAULT_DOWNGRADE);
    m->version = version;
}

void operator_begin_cluster(struct world *w)
{
    struct cluster cluster;
    struct buf value = {0};
    cluster_begin(&cluster, "0123456789abcdef0123456789abcdef");
    cluster_encode(&cluster, &value);
    fake_etcd_put(&w->etcd, bytes_str(SIM_PREFIX "cluster"), buf_view(&value), 0);
    buf_close(&value);
}

/* ---- what must hold ---- */

static uint32_t level_at(struct world *w, int64_t revision)
{
    struct cluster cluster;
    const struct fake_version *v =
        fake_etcd_get(&w->etcd, bytes_str(SIM_PREFIX "cluster"), revision);
    struct err err = v ? cluster_decode(v->value, &cluster) : err_make(ERR_KEY_NOT_FOUND, "none");
    return err_is(&err) ? 0 : cluster.format;
}

/* Everybody who is listed must speak a level that was raised. */
static void check_raise(struct world *w, int64_t revision)
{
    char room[KEY_MAX];
    struct etcd_op_result found;
    uint32_t level = level_at(w, revision), before = level_at(w, revision - 1);
    if (level < before)
        world_violate(w, "the format level falls from %u to %u", before, level);
    list(w, keys_members(room, SIM_PREFIX), revision, &found);
    for (size_t i = 0; i < found.count && before; i++) {
        struct member_info info;
        struct err err = member_info_decode(found.kvs[i].value, &info);
        if (!err_is(&err) && info.format_max < level)
            world_violate(w, "the format level is %u, and %s speaks %u at most", level, info.id,
                          info.format_max);
    }
    fake_op_result_close(&found);
}

static void check_takeover(struct world *w, struct bytes value, int64_t revision)
{
    struct history history;
    struct err err = history_decode(value, &history);
    int i = err_is(&err) ? 0 : history.leader[1] - '0';
    uint32_t level = level_at(w, revision);
    if (w->members[i].running_version < level)
        world_violate(w, "m%d takes over with level %u in use, and speaks %u at most", i, level,
                      w->members[i].running_version);
}

static void check_registration(struct world *w, struct bytes value, int64_t revision)
{
    char start[NONCE_DIGITS + 1];
    struct member_info info;
    struct err err = member_info_decode(value, &info);
    if (err_is(&err))
        return;
    operator_mark(w, info.id[1] - '0', revision - 1, start);
    if (start[0] && strcmp(start, info.start) == 0)
        world_violate(w, "%s registers again after it was taken out", info.id);
}

void operator_check(struct world *w, const struct fake_revision *r)
{
    for (size_t i = 0; i < r->count; i++) {
        struct etcd_event e = fake_etcd_event(&w->etcd, r, i);
        if (e.deleted)
            continue;
        if (bytes_equal(e.kv.key, bytes_str(SIM_PREFIX "cluster")))
            check_raise(w, r->revision);
        else if (bytes_starts_with(e.kv.key, bytes_str(SIM_PREFIX "state/history/")))
            check_takeover(w, e.kv.value, r->revision);
        else if (bytes_starts_with(e.kv.key, bytes_str(SIM_PREFIX "live/members/")))
            check_registration(w, e.kv.value, r->revision);
    }
}
