/* Follows the leader: a WatchLeader stream to every member, ListMembers now and then, the view made
 * of it, and the members' addresses with their connections. One per worker. */
#pragma once
#include "proxy/core/leader_view.h"
#include "proxy/target.h"

#define FOLLOW_TARGETS_MAX (LEADER_SEEDS_MAX + 64)

struct follow {
    struct worker *worker;
    struct leader_view view;
    struct target *targets; /* every address that is a seed, a member or the leader */
    size_t target_count;
    struct target *leader; /* NULL: none known */
    int64_t revision;      /* the highest a member told; for request ids */
    int64_t listed_ms;     /* when ListMembers was asked last; 0: ask soon */
    uv_timer_t grace;      /* for calls at a leader that was replaced */
    bool ping_off;         /* a member answered pings with too_many_pings */
};

/* Dials the seeds, which options.c has checked. */
void follow_start(struct follow *f, struct worker *w);
void follow_tick(struct follow *f, int64_t now_ms);
void follow_stop(struct follow *f); /* ends all connections; the loop has to run on */
void follow_free(struct follow *f); /* after the loop's end */
/* A trailer told a leader's address and epoch. */
void follow_hint(struct follow *f, struct bytes addr, struct bytes epoch, struct bytes cluster);
/* From the targets: a connection is ready; a seed's name has these addresses. */
void follow_on_ready(struct follow *f, struct uplink *l);
void follow_on_addresses(struct follow *f, struct target *seed, const struct addrinfo *list);
/* From the questions: what a member said. Strings are borrowed. */
void follow_on_state(struct follow *f, struct target *t, const struct leader_report *told,
                     int64_t revision);
void follow_on_members(struct follow *f, const char *cluster_id, const char *const *addrs,
                       size_t n);
