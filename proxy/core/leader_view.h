/* Who leads, as told by several members that may disagree, lag or belong to another cluster. Pure:
 * what was heard goes in, what changed comes out. One view belongs to one worker thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#define LEADER_NAME_MAX 256
#define LEADER_SEEDS_MAX 64

/* What one member said. Strings are borrowed for the call; one with a name of LEADER_NAME_MAX bytes
 * or more is ignored. */
struct leader_report {
    int seed;              /* slot of leader_view_add_seed; -1: a member that is no seed */
    const char *from_addr; /* where the member was reached */
    const char *member_id; /* who it says it is; may be empty */
    const char *cluster_id;
    bool known;
    const char *leader_id, *addr;
    uint64_t epoch;
};

struct leader_seed {
    bool used;
    char cluster_id[LEADER_NAME_MAX]; /* what it last said; empty: nothing yet */
};

struct leader_view {
    char cluster_id[LEADER_NAME_MAX]; /* empty until the first report */
    bool pinned;                      /* by --cluster-id */
    bool known;
    bool ended; /* the leader of this epoch said itself that it leads no more */
    uint64_t epoch;
    char leader_id[LEADER_NAME_MAX]; /* empty when learnt from a hint */
    char addr[LEADER_NAME_MAX];
    struct leader_seed seeds[LEADER_SEEDS_MAX];
};

enum leader_change {
    LEADER_SAME,
    LEADER_CHANGED,   /* known, and another address or epoch than before */
    LEADER_ENDED,     /* was known, is not any more */
    LEADER_FOREIGN,   /* ignored: the report names another cluster */
    LEADER_RESTARTED, /* most seeds name another cluster: the view started anew (known or not) */
};

/* cluster_id may be NULL or empty: believe the first report. */
void leader_view_init(struct leader_view *v, const char *cluster_id);
/* A slot for a seed, or -1 when all are taken. */
int leader_view_add_seed(struct leader_view *v);
void leader_view_remove_seed(struct leader_view *v, int seed);
enum leader_change leader_view_report(struct leader_view *v, const struct leader_report *r);
/* A hint out of trailers: counts only for a listed member and when its epoch is not below the known
 * one. */
enum leader_change leader_view_hint(struct leader_view *v, const char *addr, uint64_t epoch,
                                    const char *cluster_id, bool listed);
