/* The replica as follower: applies what the watch brings, checks that nothing is missing, takes the
 * whole state from a listing. */
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "meta/candidate.h"
#include "meta/core/keys.h"
#include "meta/fanout.h"
#include "meta/follow.h"
#include "meta/metrics.h"
#include "meta/replica_parts.h"
#include "meta/waiting.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEARN_TIMEOUT_MS = 2000 };
enum { REOPEN_MS = 1000 }; /* a watch that is open again by then was not missed */

void replica_set_applied(struct replica *r, int64_t revision)
{
    atomic_store(&r->applied, revision);
    board_set_applied(r->cfg.board, revision);
    waiting_on_applied(r->waiting, revision);
}

/* What changed before anybody who waits for the revision: a watch that it opens then begins behind
 * it. */
void replica_moved(struct replica *r, int64_t revision, uint64_t epoch)
{
    fanout_applied(r->fanout, revision, epoch, store_take_changes(r->cfg.store, revision, epoch));
    replica_set_applied(r, revision);
}

void replica_caught_up(struct replica *r, bool caught_up)
{
    if (r->caught_up == caught_up)
        return;
    r->caught_up = caught_up;
    candidate_post(r->candidate,
                   &(struct election_event){.kind = ELECTION_CAUGHT_UP, .flag = caught_up});
}

void replica_drop_state(struct replica *r, const struct err *why)
{
    log_limited(&r->broken_limit, LOG_ERROR,
                "the local state is of no use (%s): %s; it is listed anew from etcd",
                err_word(why->code), why->message);
    meta_count_store_failure(why->code);
    r->broken = true;
    r->opened = false;
    replica_set_applied(r, 0);
    lead_on_broken(r, why);
    replica_caught_up(r, false);
    r->generation = follow_reopen(r->follow, true);
}

void replica_own_record(struct replica *r, const struct record_bytes *record)
{
    struct err e = record_decode(record_view(record), &r->last);
    INVARIANT(!err_is(&e));
}

static bool is_key(const struct etcd_event *e, struct bytes key)
{
    return !e->deleted && bytes_equal(e->kv.key, key);
}

/* One revision, taken apart: its commit record, and the history entry if it is a takeover. */
struct revision {
    bool has_record, has_history;
    struct record record;
    struct history history;
    size_t others; /* changes of other keys */
};

static struct err read_revision(struct replica *r, const struct replica_events *e,
                                struct revision *out)
{
    char commit[KEY_MAX], histories[KEY_MAX];
    struct bytes commit_key = keys_commit(commit, r->cfg.prefix);
    struct bytes history_prefix = keys_histories(histories, r->cfg.prefix);
    struct err err = OK_ERR;
    *out = (struct revision){0};
    for (size_t i = 0; i < e->count && !err_is(&err); i++) {
        const struct etcd_event *event = &e->events[i];
        if (is_key(event, commit_key)) {
            out->has_record = true;
            err = record_decode(event->kv.value, &out->record);
        } else if (bytes_starts_with(event->kv.key, history_prefix)) {
            if (event->deleted)
                continue;
            out->has_history = true;
            err = history_decode(event->kv.value, &out->history);
        } else {
            out->others++;
        }
    }
    return err;
}

/* Does this revision follow the last one? Every revision below state/ carries a commit record, the
 * next in the order, with as many changes as it announces. */
static struct err check_chain(struct replica *r, const struct revision *v)
{
    const struct record *last = &r->last, *now = &v->record;
    if (now->events != v->others)
        return err_make(ERR_CORRUPT, "epoch %llu seq %llu announces %llu changes and brings %zu",
                        (unsigned long long)now->epoch, (unsigned long long)now->seq,
                        (unsigned long long)now->events, v->others);
    if (last->epoch == 0)
        return OK_ERR;
    bool next =
        now->epoch == last->epoch && !strcmp(now->nonce, last->nonce) && now->seq == last->seq + 1;
    bool takeover = now->epoch > last->epoch && now->seq == 0 && v->has_history &&
                    v->history.prev_seq == last->seq &&
                    !strcmp(v->history.prev_nonce, last->nonce) &&
                    !strcmp(v->history.prev_batch, last->batch);
    if (next || takeover)
        return OK_ERR;
    return err_make(ERR_CORRUPT, "epoch %llu seq %llu does not follow epoch %llu seq %llu",
                    (unsigned long long)now->epoch, (unsigned long long)now->seq,
                    (unsigned long long)last->epoch, (unsigned long long)last->seq);
}

static void note_foreign(struct replica *r, const struct replica_events *e)
{
    const struct bytes key = e->count ? e->events[0].kv.key : BYTES_NONE;
    meta_count_foreign_write();
    log_limited(&r->foreign_limit, LOG_ERROR,
                "somebody else wrote %.*s in etcd at revision %lld: only members may write there",
                (int)key.len, (const char *)key.data, (long long)e->revision);
}

void replica_publish_leader(struct replica *r, bool look_up_addr)
{
    if (r->last.epoch == 0)
        return;
    if (look_up_addr) {
        char room[KEY_MAX], prefix[KEY_MAX];
        struct bytes name, value;
        struct history h;
        r->leader_addr[0] = 0;
        struct store_snapshot *snap = store_snapshot_open(r->cfg.store);
        if (keys_rest(keys_history(room, r->cfg.prefix, r->last.epoch),
                      keys_histories(prefix, r->cfg.prefix), &name) &&
            store_history_get(snap, name, &value)) {
            struct err e = history_decode(value, &h);
            if (!err_is(&e))
                memcpy(r->leader_addr, h.addr, sizeof h.addr);
        }
        store_snapshot_close(snap);
    }
    board_see_leader(r->cfg.board, &r->last, r->leader_addr, r->seen_ms);
}

int64_t replica_behind_ms(const struct replica *r)
{
    bool waits = r->mode == REPLICA_FOLLOWING && r->caught_up && !r->opened;
    return waits ? r->lost_ms + REOPEN_MS : INT64_MAX;
}

static void check_caught_up(struct replica *r)
{
    if (r->mode == REPLICA_FOLLOWING && r->opened && !r->broken &&
        replica_applied(r) >= r->opened_revision)
        replica_caught_up(r, true);
}

/* The leader's copy is made of its own commits, so it lacks what somebody else wrote meanwhile: all
 * members agree again once it has listed the state anew. */
static void look_for_foreign(struct replica *r, const struct replica_events *e)
{
    char room[KEY_MAX];
    struct bytes commit = keys_commit(room, r->cfg.prefix);
    if (r->broken || e->revision <= r->lead.takeover_revision)
        return;
    for (size_t i = e->count; i-- > 0;) /* it is the last one written */
        if (is_key(&e->events[i], commit))
            return;
    note_foreign(r, e);
    struct err why = err_make(ERR_CORRUPT, "somebody else wrote below %sstate/", r->cfg.prefix);
    replica_drop_state(r, &why);
}

void replica_on_events(struct replica *r, const struct replica_events *e)
{
    if (r->mode == REPLICA_LEADING) {
        look_for_foreign(r, e);
        return;
    }
    bool wanted = r->mode == REPLICA_FOLLOWING ||
                  (r->mode == REPLICA_ACTIVATING && e->revision <= r->lead.takeover_revision);
    if (!wanted || r->broken || e->generation < r->generation || e->revision <= replica_applied(r))
        return;
    struct revision v;
    struct err err = read_revision(r, e, &v);
    if (!err_is(&err) && v.has_record)
        err = check_chain(r, &v);
    if (!err_is(&err))
        err = store_apply(r->cfg.store, e->revision, e->events, e->count);
    if (err_is(&err)) {
        replica_drop_state(r, &err);
        return;
    }
    replica_moved(r, e->revision, v.has_record ? v.record.epoch : r->last.epoch);
    if (v.has_record) {
        r->last = v.record;
        r->seen_ms = e->received_ms;
        replica_publish_leader(r, v.has_history);
    } else {
        note_foreign(r, e);
    }
    check_caught_up(r);
    lead_try_activate(r);
}

/* The word that says so; missing: the first. */
#define INCARNATION_WORD "incarnation"

uint64_t replica_incarnation_of(struct store_snapshot *snap)
{
    char word[24];
    unsigned long long incarnation = CLUSTER_INCARNATION_FIRST;
    if (store_word(snap, INCARNATION_WORD, word, sizeof word))
        sscanf(word, "%llu", &incarnation);
    return incarnation;
}

/* What was listed is of the incarnation that was admitted before the listing began. */
static struct err note_incarnation(struct replica *r)
{
    char word[24];
    struct cluster cluster;
    board_cluster(r->cfg.board, &cluster);
    snprintf(word, sizeof word, "%llu", (unsigned long long)cluster.incarnation);
    return store_set_word(r->cfg.store, INCARNATION_WORD, word);
}

void replica_adopt_store(struct replica *r)
{
    struct store_snapshot *snap = store_snapshot_open(r->cfg.store);
    struct bytes record = store_record(snap);
    r->last = (struct record){0};
    if (record.len) {
        struct err e = record_decode(record, &r->last);
        if (err_is(&e))
            log_error("the commit record is not readable: %s", e.message);
    }
    replica_set_applied(r, store_revision(snap));
    atomic_store(&r->incarnation, replica_incarnation_of(snap));
    store_snapshot_close(snap);
}

void replica_on_page(struct replica *r, const struct replica_events *page, bool first, bool last)
{
    if ((r->mode != REPLICA_FOLLOWING && r->mode != REPLICA_ACTIVATING) ||
        page->generation < r->generation)
        return;
    struct err e = OK_ERR;
    if (first) {
        r->broken = true;
        replica_caught_up(r, false);
        replica_set_applied(r, 0);
        fanout_lost(r->fanout);
        e = store_load_begin(r->cfg.store);
    }
    struct etcd_kv *kvs = mem_array(page->count, sizeof *kvs);
    for (size_t i = 0; i < page->count; i++)
        kvs[i] = page->events[i].kv;
    if (!err_is(&e))
        e = store_load_put(r->cfg.store, kvs, page->count);
    free(kvs);
    if (!err_is(&e) && last)
        e = note_incarnation(r);
    if (!err_is(&e) && last)
        e = store_load_end(r->cfg.store, page->revision);
    if (err_is(&e)) {
        replica_drop_state(r, &e);
        return;
    }
    if (!last)
        return;
    r->broken = false;
    r->seen_ms = page->received_ms;
    replica_adopt_store(r);
    fanout_listed(r->fanout, page->revision, r->last.epoch, replica_incarnation(r));
    replica_publish_leader(r, true);
    check_caught_up(r);
    lead_try_activate(r);
}

void replica_learn_limits(struct replica *r)
{
    int64_t least = 0;
    char room[KEY_MAX];
    struct bytes key = keys_probe(room, r->cfg.prefix);
    for (int i = 0; i < etcd_endpoint_count(r->etcd) && !r->cfg.max_txn_ops; i++) {
        int ops;
        struct err e = etcd_learn_max_txn_ops(r->etcd, i, key, LEARN_TIMEOUT_MS, &ops);
        if (err_is(&e))
            log_warn("etcd at %s does not say how many operations it takes in a txn: %s",
                     etcd_endpoint_url(r->etcd, i), e.message);
        else if (least == 0 || ops < least)
            least = ops;
    }
    if (least) {
        r->max_txn_ops = least;
        log_info("etcd takes %lld operations in a txn", (long long)least);
    }
}

void replica_on_opened(struct replica *r, uint64_t generation, int64_t revision)
{
    if (generation < r->generation)
        return;
    r->opened = true;
    r->opened_revision = revision;
    if (r->mode == REPLICA_FOLLOWING && replica_applied(r) < revision)
        replica_caught_up(r, false);
    if (r->mode == REPLICA_FOLLOWING && !r->max_txn_ops)
        replica_learn_limits(r);
    check_caught_up(r);
}

void replica_on_watch_lost(struct replica *r)
{
    r->opened = false;
    r->lost_ms = clock_boot_ms();
}
