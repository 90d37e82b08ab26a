/* What the member publishes about leadership: who leads, up to when this member may answer reads,
 * how far its replica is. Written by the election and replica threads, read by everybody, under one
 * short lock. */
#pragma once
#include "common/base/err.h"
#include "meta/core/cluster.h"
#include "meta/core/role.h"
#include <stdbool.h>
#include <stdint.h>

struct board;

struct board *board_new(const char *member_id, const char *addr);
void board_free(struct board *b);

/* ---- written by the election ---- */
void board_set_role(struct board *b, enum role role, uint64_t epoch);
void board_set_draining(struct board *b);
/* Closes the read gate for good for this epoch; returns once no reader can pass it any more. */
void board_close_gate(struct board *b, uint64_t epoch);
/* The same from a signal handler: no lock. */
void board_close_gate_now(struct board *b);

/* ---- written by the replica and the follower of etcd ---- */
void board_set_cluster(struct board *b, const struct cluster *cluster);
void board_set_applied(struct board *b, int64_t revision);
void board_open_gate(struct board *b, uint64_t epoch);
void board_extend_gate(struct board *b, uint64_t epoch, int64_t deadline_ms);
/* This leadership was in force a moment ago: it may be named as the leader until then, though its
 * gate may have run out (etcd that is out of space takes probes, but no commits). */
void board_prove(struct board *b, uint64_t epoch, int64_t until_ms);
/* The leader that the commit record shows; addr may be "" when not known. */
void board_see_leader(struct board *b, const struct record *record, const char *addr,
                      int64_t seen_ms);
/* What etcd holds is not what this member has seen: it serves nothing of it. OK: it is again. */
void board_set_refused(struct board *b, const struct err *why);
/* A leadership that certainly ended. */
void board_see_released(struct board *b, uint64_t epoch, const char *nonce);

/* ---- read by all ---- */

/* The epoch under which a local read that takes its snapshot from now on is current, or 0. */
uint64_t board_read_epoch(struct board *b);
/* Asked once the snapshot is taken: it holds nothing of a later epoch, because the gate of `epoch`
 * has not been closed yet, and a replica follows others only behind a closed gate. */
bool board_still_reads(struct board *b, uint64_t epoch);

/* Why this member takes no leader's work now, with the leader it knows: NOT_LEADER, ACTIVATING,
 * NO_LEADER, DRAINING or EPOCH_REGRESSION; OK when it leads. */
struct board_refusal {
    struct err err;
    char leader_addr[ADDR_MAX + 1]; /* "": unknown */
    uint64_t epoch;
    char cluster_id[40];
};
void board_refusal(struct board *b, struct board_refusal *out);

/* The id of the cluster; "": not known yet. */
void board_cluster_id(struct board *b, char out[40]);
/* Why it serves nothing of etcd's state, not even what is stale; OK: it does. */
struct err board_refused(struct board *b);
/* What its `cluster` key said last: format level, incarnation, floor. No id: not known yet. */
void board_cluster(struct board *b, struct cluster *out);

struct board_leader {
    char cluster_id[40];
    bool known;
    char id[ID_MAX + 1];
    char addr[ADDR_MAX + 1];
    uint64_t epoch; /* highest seen */
    int64_t revision;
    int64_t age_ms;
};
void board_leader(struct board *b, struct board_leader *out);

struct board_self {
    enum role role;
    uint64_t epoch; /* of the own leadership, 0 when not leading */
    int64_t deadline_left_ms;
    bool proven; /* leads, and etcd has confirmed it lately */
    int64_t applied;
    bool draining;
};
void board_self(struct board *b, struct board_self *out);

/* The one listener: called after each change of role, leader or cluster id, under the board's lock,
 * so it must only note that something happened. NULL ends it. */
void board_listen(struct board *b, void (*changed)(void *arg), void *arg);
