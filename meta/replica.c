#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/base/thread.h"
#include "meta/candidate.h"
#include "meta/core/keys.h"
#include "meta/follow.h"
#include "meta/replica_parts.h"
#include <stdlib.h>
#include <string.h>

enum { INBOX_MAX = 256 };

enum item_kind {
    ITEM_EVENTS,
    ITEM_PAGE,
    ITEM_OPENED,
    ITEM_WATCH_LOST,
    ITEM_LEAD,
    ITEM_STEP_DOWN,
    ITEM_ANSWER,
    ITEM_SPACE,
    ITEM_WORK, /* there are writes */
    ITEM_STOP,
};

struct item {
    enum item_kind kind;
    struct replica_events *events;
    bool first, last;
    uint64_t generation, epoch, attempt, ask_at;
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

uint64_t replica_incarnation(struct replica *r)
{
    return atomic_load(&r->incarnation);
}

void replica_wake(struct replica *r)
{
    queue_push_always(r->inbox, item_new(ITEM_WORK));
}

uint64_t replica_ask(struct replica *r)
{
    uint64_t ticket = atomic_fetch_add(&r->asked, 1) + 1;
    if (!atomic_exchange(&r->ask_told, true))
        replica_wake(r);
    return ticket;
}

uint64_t replica_written(struct replica *r)
{
    return atomic_load(&r->written);
}

void replica_set_space(struct replica *r, const struct err *no_puts, uint64_t ask_at)
{
    struct item *item = item_new(ITEM_SPACE);
    item->err = *no_puts;
    item->ask_at = ask_at;
    queue_push_always(r->inbox, item);
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

void replica_post_answer(struct replica *r, uint64_t epoch, uint64_t attempt,
                         const struct etcd_reply *reply)
{
    struct item *item = item_new(ITEM_ANSWER);
    item->epoch = epoch;
    item->attempt = attempt;
    item->err = etcd_reply_txn(reply, &item->result);
    queue_push_always(r->inbox, item);
}

/* ---- the thread ---- */

static void handle(struct replica *r, struct item *item)
{
    switch (item->kind) {
    case ITEM_EVENTS:
        replica_on_events(r, item->events);
        break;
    case ITEM_PAGE:
        replica_on_page(r, item->events, item->first, item->last);
        break;
    case ITEM_OPENED:
        replica_on_opened(r, item->generation, item->revision);
        break;
    case ITEM_WATCH_LOST:
        replica_on_watch_lost(r);
        break;
    case ITEM_LEAD:
        r->leading->begin(r, item->leadership);
        break;
    case ITEM_STEP_DOWN:
        r->leading->end(r, item->epoch, item->why);
        break;
    case ITEM_ANSWER:
        lead_on_answer(r, item->epoch, item->attempt, &item->err, &item->result);
        break;
    case ITEM_SPACE:
        r->no_puts = item->err;
        r->ask_at = item->ask_at;
        r->held = false;
        break;
    case ITEM_WORK:
        break; /* what leads looks at the list */
    case ITEM_STOP:
        r->stopping = true;
        break;
    }
    item_free(item);
}

static void *replica_run(void *arg)
{
    struct replica *r = arg;
    replica_publish_leader(r, true);
    if (!r->max_txn_ops)
        replica_learn_limits(r); /* while the follower lists what is there */
    while (!r->stopping) {
        int64_t next = r->leading->next_ms(r), wait = -1;
        next = replica_behind_ms(r) < next ? replica_behind_ms(r) : next;
        if (next != INT64_MAX) {
            wait = next - clock_boot_ms();
            wait = wait < 0 ? 0 : wait;
        }
        struct item *item = queue_pop(r->inbox, wait);
        for (; item; item = queue_pop(r->inbox, 0))
            handle(r, item);
        if (clock_boot_ms() >= replica_behind_ms(r))
            replica_caught_up(r, false);
        r->leading->work(r);
    }
    r->leading->give_up(r);
    return NULL;
}

struct err replica_start(struct replica **out, const struct replica_config *cfg)
{
    struct replica *r = mem_alloc(sizeof *r);
    r->cfg = *cfg;
    r->max_txn_ops = cfg->max_txn_ops;
    r->generation = 1;
    r->ask_at = UINT64_MAX;
    rng_seed_os(&r->rng);
    r->leading = cfg->etcd ? &lead_with_etcd : &lead_alone;
    struct err e = OK_ERR;
    if (cfg->etcd)
        e = etcd_client_new(&r->etcd,
                            &(struct etcd_config){.access = *cfg->etcd, .name = "etcd-commit"});
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
    replica_adopt_store(r);
    *out = r;
    return OK_ERR;
}

void replica_connect(struct replica *r, const struct replica_links *links)
{
    r->candidate = links->candidate;
    r->follow = links->follow;
    r->waiting = links->waiting;
    r->upkeep = links->upkeep;
    r->fanout = links->fanout;
    r->workforce = links->workforce;
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
