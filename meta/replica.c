#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/base/thread.h"
#include "meta/candidate.h"
#include "meta/core/keys.h"
#include "meta/follow.h"
#include "meta/metrics.h"
#include "meta/replica_parts.h"
#include <stdlib.h>
#include <string.h>

enum { INBOX_MAX = 256, LEARN_TIMEOUT_MS = 2000 };
enum { REOPEN_MS = 1000 }; /* a watch that is open again by then was not missed */

enum item_kind {
    ITEM_EVENTS,
    ITEM_PAGE,
    ITEM_OPENED,
    ITEM_WATCH_LOST,
    ITEM_LEAD,
    ITEM_STEP_DOWN,
    ITEM_ANSWER,
    ITEM_WORK, /* there are writes */
    ITEM_STOP,
};

struct item {
    enum item_kind kind;
    struct replica_events *events;
    bool first, last;
    uint64_t generation, epoch, attempt;
    int64_t revision;
    const char *why;
    struct leadership *leadership;
    struct err err;
    struct etcd_txn_result result;
};

static struct item *item_new(enum item_kind kind)
{
    struct item *item = mem_alloc(sizeof *item);
    item->kind = kind;
    return item;
}

static void item_free(struct item *item)
{
    replica_events_free(item->events);
    free(item->leadership);
    etcd_txn_result_close(&item->result);
    free(item);
}

/* ---- owned events ---- */

struct replica_events *replica_events_new(const struct etcd_event *events, size_t count,
                                          int64_t revision, int64_t received_ms)
{
    size_t size = sizeof(struct replica_events) + count * sizeof *events;
    size_t text = 0;
    for (size_t i = 0; i < count; i++)
        text += events[i].kv.key.len + events[i].kv.value.len;
    struct replica_events *e = mem_alloc(size + text);
    e->revision = revision;
    e->received_ms = received_ms;
    e->events = (struct etcd_event *)(e + 1);
    e->count = count;
    uint8_t *at = (uint8_t *)e + size;
    for (size_t i = 0; i < count; i++) {
        e->events[i] = events[i];
        struct bytes *parts[] = {&e->events[i].kv.key, &e->events[i].kv.value};
        for (int k = 0; k < 2; k++) {
            if (parts[k]->len)
                memcpy(at, parts[k]->data, parts[k]->len);
            parts[k]->data = at;
            at += parts[k]->len;
        }
    }
    return e;
}

void replica_events_free(struct replica_events *e)
{
    free(e);
}

/* ---- what others say to the replica ---- */

static bool post_wait(struct replica *r, struct item *item)
{
    while (!atomic_load(&r->halted))
        if (queue_push_wait(r->inbox, item, 200))
            return true;
    item->events = NULL;
    item_free(item);
    return false;
}

bool replica_watch(struct replica *r, struct replica_events *e)
{
    struct item *item = item_new(ITEM_EVENTS);
    item->events = e;
    return post_wait(r, item);
}

bool replica_load(struct replica *r, struct replica_events *page, bool first, bool last)
{
    struct item *item = item_new(ITEM_PAGE);
    item->events = page;
    item->first = first;
    item->last = last;
    return post_wait(r, item);
}

void replica_opened(struct replica *r, uint64_t generation, int64_t revision)
{
    struct item *item = item_new(ITEM_OPENED);
    item->generation = generation;
    item->revision = revision;
    queue_push_always(r->inbox, item);
}

void replica_watch_lost(struct replica *r)
{
    queue_push_always(r->inbox, item_new(ITEM_WATCH_LOST));
}

int64_t replica_applied(struct replica *r)
{
    return atomic_load(&r->applied);
}

void replica_lead(struct replica *r, const struct leadership *leadership)
{
    struct item *item = item_new(ITEM_LEAD);
    item->leadership = mem_dup(leadership, sizeof *leadership);
    queue_push_always(r->inbox, item);
}

void replica_step_down(struct replica *r, uint64_t epoch, const char *why)
{
    struct item *item = item_new(ITEM_STEP_DOWN);
    item->epoch = epoch;
    item->why = why;
    queue_push_always(r->inbox, item);
}

void replica_post_answer(struct replica *r, uint64_t attempt, const struct etcd_reply *reply)
{
    struct item *item = item_new(ITEM_ANSWER);
    item->attempt = attempt;
    item->err = reply->err;
    if (!err_is(&item->err))
        item->err = etcd_decode_txn(reply->body, &item->result);
    if (err_is(&item->err))
        meta_count_etcd_error(item->err.code);
    queue_push_always(r->inbox, item);
}

struct err replica_submit(struct replica *r, struct write *w)
{
    struct write_list *l = &r->writes;
    struct err e = OK_ERR;
    bool wake = false;
    w->next = NULL;
    pthread_mutex_lock(&l->lock);
    if (!l->open) {
        e = err_make(ERR_NOT_LEADER, "this member does not lead");
    } else if ((int64_t)l->count >= r->cfg.max_pending ||
               (int64_t)(l->bytes + w->bytes) > r->cfg.max_pending_bytes) {
        e = err_make(ERR_OVERLOADED,
                     "%zu mutations wait already (--max-pending %lld, "
                     "--max-pending-bytes %lld): slow down",
                     l->count, (long long)r->cfg.max_pending, (long long)r->cfg.max_pending_bytes);
    } else {
        wake = l->head == NULL;
        *l->tail = w;
        l->tail = &w->next;
        l->count++;
        l->bytes += w->bytes;
    }
    pthread_mutex_unlock(&l->lock);
    if (wake)
        queue_push_always(r->inbox, item_new(ITEM_WORK));
    return e;
}

/* ---- following ---- */

void replica_set_applied(struct replica *r, int64_t revision)
{
    atomic_store(&r->applied, revision);
    board_set_applied(r->cfg.board, revision);
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

/* Takes the present leader from the store: its record, and its address from the history. */
static void publish_leader(struct replica *r, bool look_up_addr)
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

/* When a follower whose watch is lost falls behind. */
static int64_t behind_ms(const struct replica *r)
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

static void on_events(struct replica *r, const struct replica_events *e)
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
    replica_set_applied(r, e->revision);
    if (v.has_record) {
        r->last = v.record;
        r->seen_ms = e->received_ms;
        publish_leader(r, v.has_history);
    } else {
        note_foreign(r, e);
    }
    check_caught_up(r);
    lead_try_activate(r);
}

/* The state as it is in the store now: at start and after a listing. */
static void adopt_store(struct replica *r)
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
    store_snapshot_close(snap);
}

static void on_page(struct replica *r, const struct item *item)
{
    const struct replica_events *page = item->events;
    if ((r->mode != REPLICA_FOLLOWING && r->mode != REPLICA_ACTIVATING) ||
        page->generation < r->generation)
        return;
    struct err e = OK_ERR;
    if (item->first) {
        r->broken = true;
        replica_caught_up(r, false);
        replica_set_applied(r, 0);
        e = store_load_begin(r->cfg.store);
    }
    struct etcd_kv *kvs = mem_array(page->count, sizeof *kvs);
    for (size_t i = 0; i < page->count; i++)
        kvs[i] = page->events[i].kv;
    if (!err_is(&e))
        e = store_load_put(r->cfg.store, kvs, page->count);
    free(kvs);
    if (!err_is(&e) && item->last)
        e = store_load_end(r->cfg.store, page->revision);
    if (err_is(&e)) {
        replica_drop_state(r, &e);
        return;
    }
    if (!item->last)
        return;
    r->broken = false;
    r->seen_ms = page->received_ms;
    adopt_store(r);
    publish_leader(r, true);
    check_caught_up(r);
    lead_try_activate(r);
}

/* How much etcd takes in one txn: the least of what the endpoints say that answer. */
static void learn_limits(struct replica *r)
{
    int64_t least = 0;
    for (int i = 0; i < etcd_endpoint_count(r->etcd) && !r->cfg.max_txn_ops; i++) {
        int ops;
        struct err e = etcd_learn_max_txn_ops(r->etcd, i, LEARN_TIMEOUT_MS, &ops);
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

static void on_opened(struct replica *r, const struct item *item)
{
    if (item->generation < r->generation)
        return;
    r->opened = true;
    r->opened_revision = item->revision;
    if (r->mode == REPLICA_FOLLOWING && replica_applied(r) < item->revision)
        replica_caught_up(r, false);
    if (r->mode == REPLICA_FOLLOWING && !r->max_txn_ops)
        learn_limits(r);
    check_caught_up(r);
}

/* ---- the thread ---- */

static void handle(struct replica *r, struct item *item)
{
    switch (item->kind) {
    case ITEM_EVENTS:
        on_events(r, item->events);
        break;
    case ITEM_PAGE:
        on_page(r, item);
        break;
    case ITEM_OPENED:
        on_opened(r, item);
        break;
    case ITEM_WATCH_LOST:
        r->opened = false;
        r->lost_ms = clock_boot_ms();
        break;
    case ITEM_LEAD:
        lead_begin(r, item->leadership);
        break;
    case ITEM_STEP_DOWN:
        lead_end(r, item->epoch, item->why);
        break;
    case ITEM_ANSWER:
        lead_on_answer(r, item->attempt, &item->err, &item->result);
        break;
    case ITEM_WORK:
        break; /* lead_work looks at the list */
    case ITEM_STOP:
        r->stopping = true;
        break;
    }
    item_free(item);
}

static void *replica_run(void *arg)
{
    struct replica *r = arg;
    publish_leader(r, true);
    if (!r->max_txn_ops)
        learn_limits(r); /* while the follower lists what is there */
    while (!r->stopping) {
        int64_t next = lead_next_ms(r), wait = -1;
        next = behind_ms(r) < next ? behind_ms(r) : next;
        if (next != INT64_MAX) {
            wait = next - clock_boot_ms();
            wait = wait < 0 ? 0 : wait;
        }
        struct item *item = queue_pop(r->inbox, wait);
        for (; item; item = queue_pop(r->inbox, 0))
            handle(r, item);
        if (clock_boot_ms() >= behind_ms(r))
            replica_caught_up(r, false);
        lead_work(r);
    }
    lead_give_up(r);
    return NULL;
}

struct err replica_start(struct replica **out, const struct replica_config *cfg)
{
    struct replica *r = mem_alloc(sizeof *r);
    r->cfg = *cfg;
    r->max_txn_ops = cfg->max_txn_ops;
    r->generation = 1;
    rng_seed_os(&r->rng);
    struct err e = etcd_client_new(
        &r->etcd, &(struct etcd_config){.endpoints = cfg->etcd, .name = "etcd-commit"});
    if (err_is(&e)) {
        free(r);
        return e;
    }
    r->inbox = queue_new(INBOX_MAX);
    pthread_mutex_init(&r->writes.lock, NULL);
    r->writes.tail = &r->writes.head;
    struct dedup_limits limits = DEDUP_LIMITS_DEFAULT;
    limits.max_bytes = (uint64_t)cfg->dedup_bytes;
    dedup_window_init(&r->window, &limits);
    adopt_store(r);
    *out = r;
    return OK_ERR;
}

void replica_connect(struct replica *r, struct candidate *candidate, struct follow *follow)
{
    r->candidate = candidate;
    r->follow = follow;
    r->thread = thread_start("replica", replica_run, r);
}

void replica_stop(struct replica *r)
{
    atomic_store(&r->halted, true);
    queue_push_always(r->inbox, item_new(ITEM_STOP));
    pthread_join(r->thread, NULL);
}

void replica_free(struct replica *r)
{
    if (!r)
        return;
    etcd_client_free(r->etcd); /* answers what is still asked: into the inbox */
    struct item *item;
    while ((item = queue_pop(r->inbox, 0)))
        item_free(item);
    queue_free(r->inbox);
    plan_close(&r->batch);
    dedup_window_close(&r->window);
    pthread_mutex_destroy(&r->writes.lock);
    free(r);
}
