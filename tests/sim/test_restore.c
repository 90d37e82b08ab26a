/* etcd restored from snapshots at random moments, under members that list it through endpoints
 * which lag behind, lead, stop, start, and are recovered by an operator: who has seen what is lost
 * always refuses it, nobody else ever does, and after a recovery epochs are above all before. */
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "meta/core/restore.h"
#include "tests/sim/fake_etcd.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#define PREFIX "/baton/sim/"
enum { MEMBERS = 4, STEPS = 400 };

struct member {
    struct restore_mark mark, synced; /* synced: what a restart leaves of it */
    bool refused, ran_before, accepted;
    int64_t seen, seen_synced; /* the highest revision that it has seen, in the present timeline */
    bool lost, lost_synced;    /* that lies behind the last restore: it must refuse */
};

struct play {
    struct rng rng;
    struct fake_etcd etcd;
    struct member members[MEMBERS];
    int64_t snapshot; /* its revision; 0: none was taken */
    uint64_t highest; /* epoch that ever was, in any timeline */
    int leader;       /* -1: none */
    struct leadership lead;
    struct record last; /* that the leader wrote */
    uint64_t restores, recoveries, refusals, lags;
    unsigned seed;
};

#define CHECK(p, holds, text)                                                                      \
    do {                                                                                           \
        if (!(holds))                                                                              \
            fail_msg("seed %u: %s", (p)->seed, text);                                              \
    } while (0)

static bool chance(struct play *p, uint64_t one_in)
{
    return rng_below(&p->rng, one_in) == 0;
}

/* ---- what etcd holds ---- */

static void see(struct member *m, const struct record *record, int64_t revision)
{
    bool at_once = restore_mark_see(&m->mark, record, revision);
    if (revision > m->seen)
        m->seen = revision;
    if (!at_once)
        return;
    m->synced = m->mark;
    m->seen_synced = m->seen;
}

static struct etcd_txn_result run(struct play *p, const struct etcd_txn *txn)
{
    struct etcd_txn_result result;
    struct err err = fake_etcd_txn(&p->etcd, txn, &result);
    CHECK(p, !err_is(&err), err.message);
    return result;
}

/* A look as raft orders it, or as an endpoint answers that knows etcd up to `revision` only. */
static struct restore_view look(struct play *p, const struct restore_mark *mark, int64_t revision)
{
    struct restore_view view;
    struct fence_txn txn = {0};
    struct etcd_op ops[RESTORE_LOOK_OPS];
    struct restore_keys keys;
    restore_look_ops(ops, &keys, PREFIX, mark);
    for (size_t i = 0; i < RESTORE_LOOK_OPS; i++)
        ops[i].revision = revision;
    if (revision)
        fence_txn_own(&txn, &(struct etcd_txn){.success = ops, .success_count = RESTORE_LOOK_OPS});
    else
        restore_make_look(&txn, PREFIX, mark);
    struct etcd_txn_result result = run(p, &txn.txn);
    if (revision)
        result.header.revision = revision;
    struct err err = restore_view_take(&view, &result, 0);
    CHECK(p, !err_is(&err), err.message);
    fake_result_close(&result);
    fence_txn_close(&txn);
    return view;
}

/* ---- members ---- */

static void accept(struct play *p, struct member *m, const struct restore_view *v,
                   enum restore_verdict verdict)
{
    if (verdict != RESTORE_FINE) {
        restore_mark_begin(&m->mark, v);
        m->seen = 0;
        m->lost = m->lost_synced = false;
    }
    m->mark.cluster = v->cluster;
    m->mark.etcd = v->etcd;
    m->refused = m->ran_before = false;
    m->accepted = true;
    if (v->record_revision)
        see(m, &v->record, v->record_revision);
    m->synced = m->mark;
    m->seen_synced = m->seen;
    m->lost_synced = m->lost;
}

/* As admission.c does it. */
static void list(struct play *p, int index)
{
    struct member *m = &p->members[index];
    struct err why;
    int64_t behind = p->etcd.revision - (int64_t)rng_below(&p->rng, 12);
    bool lags = chance(p, 2) && behind > 2;
    struct restore_view v = look(p, &m->mark, lags ? behind : 0);
    enum restore_verdict verdict = restore_judge(&m->mark, &v, &why);
    if (verdict != RESTORE_FINE) {
        p->lags += lags;
        v = look(p, &m->mark, 0);
        verdict = restore_judge(&m->mark, &v, &why);
    }
    if (verdict == RESTORE_BACK) {
        CHECK(p, m->lost, why.message);
        p->refusals += !m->refused;
        if (!m->refused)
            m->ran_before = m->accepted;
        m->refused = true;
        if (p->leader == index)
            p->leader = -1;
        return;
    }
    CHECK(p, !m->lost || verdict == RESTORE_RECOVERED,
          "it goes on although it has seen what is lost");
    accept(p, m, &v, verdict);
}

static void restart(struct play *p, int index)
{
    struct member *m = &p->members[index];
    m->mark = m->synced;
    m->seen = m->seen_synced;
    m->lost = m->lost_synced;
    m->refused = m->ran_before = m->accepted = false;
    if (p->leader == index)
        p->leader = -1;
    list(p, index);
}

/* ---- leading ---- */

static void name(struct play *p, char out[NONCE_DIGITS + 1])
{
    rng_hex(&p->rng, out, NONCE_DIGITS);
}

static void take_over(struct play *p, int index)
{
    char room[KEY_MAX];
    struct member *m = &p->members[index];
    if (m->refused || !m->accepted)
        return;
    struct restore_view v = look(p, &m->mark, 0);
    struct fence_takeover t = {.seat = {.prefix = PREFIX, .lease = index + 1}};
    struct bytes own = keys_election(room, PREFIX, index + 1);
    struct record_bytes now;
    struct fence_txn txn = {0};
    struct buf cluster = {0};
    fake_etcd_delete(&p->etcd, own, BYTES_NONE);
    fake_etcd_put(&p->etcd, own, bytes_str("h:1"), 0);
    t.seat.create_revision = p->etcd.revision;
    cluster_encode(&v.cluster, &cluster);
    record_bytes_set(&t.cluster, buf_view(&cluster));
    buf_close(&cluster);
    if (v.record_revision)
        record_bytes_encode(&t.old, &v.record);
    t.next =
        (struct record){.epoch = cluster_next_epoch(&v.cluster, v.record.epoch), .ttl_ms = 1000};
    snprintf(t.next.leader, sizeof t.next.leader, "m%d", index);
    name(p, t.next.nonce);
    name(p, t.next.batch);
    memcpy(t.history.leader, t.next.leader, sizeof t.history.leader);
    memcpy(t.history.nonce, t.next.nonce, sizeof t.history.nonce);
    memcpy(t.history.prev_nonce, v.record.nonce, sizeof t.history.prev_nonce);
    memcpy(t.history.prev_batch, v.record.batch, sizeof t.history.prev_batch);
    t.history.prev_seq = v.record.seq;
    fence_make_takeover(&txn, &t);
    struct etcd_txn_result result = run(p, &txn.txn);
    int64_t revision;
    if (fence_judge_takeover(&t, &result, &revision, &now) == TAKEOVER_WON) {
        p->leader = index;
        p->lead = (struct leadership){.seat = t.seat, .epoch = t.next.epoch};
        memcpy(p->lead.nonce, t.next.nonce, sizeof p->lead.nonce);
        p->last = t.next;
        p->highest = t.next.epoch > p->highest ? t.next.epoch : p->highest;
        see(m, &t.next, revision);
    }
    fake_result_close(&result);
    fence_txn_close(&txn);
}

static void commit(struct play *p)
{
    if (p->leader < 0)
        return;
    struct record next = p->last;
    struct record_bytes last;
    struct fence_txn txn = {0};
    next.seq++;
    name(p, next.batch);
    record_bytes_encode(&last, &p->last);
    fence_make_commit(&txn, &p->lead, record_view(&last), &next, NULL, 0);
    struct etcd_txn_result result = run(p, &txn.txn);
    if (result.succeeded) {
        p->last = next;
        see(&p->members[p->leader], &next, result.header.revision);
    } else {
        p->leader = -1; /* deposed */
    }
    fake_result_close(&result);
    fence_txn_close(&txn);
}

/* What the watch brings: of a member whose watch goes on, all of it. */
static void follow(struct play *p, int index)
{
    struct member *m = &p->members[index];
    if (m->refused || !m->accepted || m->lost)
        return;
    struct restore_view v = look(p, &m->mark, 0);
    if (v.record_revision && v.cluster.incarnation == m->mark.cluster.incarnation)
        see(m, &v.record, v.record_revision);
}

/* ---- what operators do ---- */

/* Every revision behind the snapshot never was. Its watches end: each member lists anew. */
static void restore(struct play *p)
{
    struct fake_etcd *e = &p->etcd;
    if (!p->snapshot || p->snapshot >= e->revision)
        return;
    for (size_t i = 0; i < e->key_count; i++) {
        struct fake_key *key = e->keys[i];
        while (key->count && key->versions[key->count - 1].revision > p->snapshot)
            key->count--;
    }
    e->revision = p->snapshot;
    e->revision_count = (size_t)p->snapshot - 1;
    const struct fake_revision *last = fake_etcd_log(e, p->snapshot);
    e->change_count = last->first + last->count;
    for (int i = 0; i < MEMBERS; i++) {
        struct member *m = &p->members[i];
        m->lost |= m->seen > p->snapshot;
        m->lost_synced |= m->seen_synced > p->snapshot;
    }
    p->leader = -1;
    p->restores++;
    for (int i = 0; i < MEMBERS; i++)
        list(p, i);
}

/* As batonctl does it, which asks all. */
static void recover(struct play *p)
{
    struct restore_plan plan = {.member = "m0", .ttl_ms = 1000, .now_unix_ms = 1};
    int by = -1;
    for (int i = 0; i < MEMBERS; i++) {
        restart(p, i);
        const struct restore_mark *mark = &p->members[i].mark;
        CHECK(p, !p->members[i].ran_before, "it was just started");
        if (p->members[i].refused && (by < 0 || mark->epoch > p->members[by].mark.epoch))
            by = i;
        plan.epoch_above = mark->epoch > plan.epoch_above ? mark->epoch : plan.epoch_above;
        if (mark->cluster.incarnation > plan.incarnation_above)
            plan.incarnation_above = mark->cluster.incarnation;
    }
    if (by < 0)
        return;
    struct fence_txn txn = {0};
    struct cluster written;
    name(p, plan.nonce);
    name(p, plan.batch);
    struct restore_view v = look(p, &p->members[by].mark, 0);
    struct err err = restore_make_recovery(&txn, PREFIX, &p->members[by].mark, &v, &plan, &written);
    CHECK(p, !err_is(&err), err.message);
    struct etcd_txn_result result = run(p, &txn.txn);
    CHECK(p, result.succeeded, "the recovery is written");
    fake_result_close(&result);
    fence_txn_close(&txn);
    uint64_t before = p->highest;
    p->recoveries++;
    p->leader = -1;
    for (int i = 0; i < MEMBERS; i++) {
        list(p, i);
        CHECK(p, !p->members[i].refused, "all accept what was recovered above them");
    }
    take_over(p, (int)rng_below(&p->rng, MEMBERS));
    CHECK(p, p->leader >= 0 && p->lead.epoch > before, "epochs go on above all before");
}

static void step(struct play *p)
{
    int who = (int)rng_below(&p->rng, MEMBERS);
    switch (rng_below(&p->rng, 12)) {
    case 0:
        take_over(p, who);
        break;
    case 1:
        restart(p, who);
        break;
    case 2:
        list(p, who);
        break;
    case 3:
        if (chance(p, 3))
            p->snapshot = p->etcd.revision;
        break;
    case 4:
        if (chance(p, 6))
            restore(p);
        break;
    case 5:
        if (chance(p, 4))
            recover(p);
        break;
    case 6:
    case 7:
    case 8:
        follow(p, who);
        break;
    default:
        commit(p);
        break;
    }
}

static struct play *play_new(unsigned seed)
{
    struct play *p = mem_alloc(sizeof *p);
    struct cluster cluster;
    struct buf value = {0};
    p->seed = seed;
    p->leader = -1;
    rng_seed(&p->rng, seed);
    fake_etcd_init(&p->etcd, 99);
    cluster_begin(&cluster, "0123456789abcdef0123456789abcdef");
    cluster_encode(&cluster, &value);
    fake_etcd_put(&p->etcd, bytes_str(PREFIX "cluster"), buf_view(&value), 0);
    buf_close(&value);
    for (int i = 0; i < MEMBERS; i++) {
        restore_mark_init(&p->members[i].mark);
        p->members[i].synced = p->members[i].mark;
        list(p, i);
    }
    return p;
}

static void restores_are_noticed_and_nothing_else_is(void **state)
{
    (void)state;
    uint64_t restores = 0, recoveries = 0, refusals = 0, lags = 0;
    for (unsigned seed = 1; seed <= 500; seed++) {
        struct play *p = play_new(seed);
        for (int i = 0; i < STEPS; i++)
            step(p);
        restores += p->restores;
        recoveries += p->recoveries;
        refusals += p->refusals;
        lags += p->lags;
        fake_etcd_close(&p->etcd);
        free(p);
    }
    print_message(
        "%llu restores, %llu refusals, %llu recoveries, %llu listings that lagged behind\n",
        (unsigned long long)restores, (unsigned long long)refusals, (unsigned long long)recoveries,
        (unsigned long long)lags);
    assert_true(restores > 500 && refusals > 500 && recoveries > 200 && lags > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(restores_are_noticed_and_nothing_else_is)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
