#include "common/base/mem.h"
#include "tests/sim/member.h"
#include "tests/sim/net.h"
#include <stdlib.h>

/* One revision, or the end, on its way along a watch. */
struct watch_item {
    int member;
    uint64_t generation;
    int64_t revision; /* 0: the end */
    bool compacted;
};

static void item_run(struct world *w, void *arg)
{
    struct watch_item *item = arg;
    struct net_watch *watch = w->net->watches[item->member];
    if (watch && watch->generation == item->generation) {
        if (item->revision)
            watch->on_revision(w, item->member, item->generation, item->revision);
        else
            watch->on_end(w, item->member, item->generation, item->compacted);
    }
    free(item);
}

/* A stream keeps its order: nothing overtakes what was sent before. */
static void item_send(struct world *w, struct net_watch *watch, int64_t revision, bool compacted)
{
    struct watch_item *item = mem_alloc(sizeof *item);
    *item = (struct watch_item){.member = watch->member,
                                .generation = watch->generation,
                                .revision = revision,
                                .compacted = compacted};
    int64_t at_us = w->now_us + net_delay_us(w) + w->net->lag_us[watch->endpoint];
    int64_t cut_us = w->net->cut_until_us[watch->member][watch->endpoint];
    at_us = at_us > cut_us ? at_us : cut_us;
    watch->last_at_us = at_us > watch->last_at_us ? at_us : watch->last_at_us;
    world_post(w, watch->last_at_us - w->now_us, watch->member, THREAD_FOLLOW, item_run, free,
               item);
}

void net_watch_open(struct world *w, const struct net_watch *watch)
{
    net_watch_close(w, watch->member);
    struct net_watch *mine = mem_dup(watch, sizeof *watch);
    w->net->watches[watch->member] = mine;
    if (watch->from <= w->etcd.compacted) {
        item_send(w, mine, 0, true);
        return;
    }
    for (int64_t r = watch->from; r <= w->etcd.revision; r++)
        item_send(w, mine, r, false);
}

void net_watch_close(struct world *w, int member)
{
    free(w->net->watches[member]);
    w->net->watches[member] = NULL;
}

bool net_watch_is_open(const struct world *w, int member)
{
    return w->net->watches[member] != NULL;
}

void net_watch_break(struct world *w, int member)
{
    struct net_watch *watch = w->net->watches[member];
    if (watch)
        item_send(w, watch, 0, false);
}

void net_on_revision(struct world *w, int64_t revision)
{
    for (int i = 0; i < MEMBERS; i++) {
        struct net_watch *watch = w->net->watches[i];
        if (watch == NULL || watch->silent)
            continue;
        if (world_chance(w, w->net->faults.watch_gap))
            world_fault(w, FAULT_WATCH_GAP);
        else
            item_send(w, watch, revision, false);
    }
}
