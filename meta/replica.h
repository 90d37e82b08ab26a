/* The replica thread: the one writer of the local state. As a follower it applies what the watch
 * brings; as the leader it gathers mutations into batches and commits them, one fenced etcd txn in
 * flight. */
#pragma once
#include "common/base/err.h"
#include "common/base/etcd_types.h"
#include "meta/board.h"
#include "meta/core/commit.h"
#include "meta/core/plan.h"

struct replica;
struct store;
struct store_snapshot;
struct candidate;
struct fanout;
struct follow;
struct upkeep;
struct waiting;
struct workforce;

/* One mutation on its way. Whoever submits it allocates it; `done` is called exactly once, on the
 * replica's thread, and owns it from then on. */
struct write {
    struct plan_request request;
    size_t bytes;         /* what it holds in memory, for --max-pending-bytes */
    int64_t deadline_ms;  /* of the caller (clock_boot_ms); INT64_MAX: none */
    int64_t submitted_us; /* clock_mono_us */
    /* err OK: `answer` is what happened, with its revision filled in; borrowed for the call. epoch
     * is that of the leadership which committed it. */
    void (*done)(struct write *w, const struct err *err, const struct plan_answer *answer,
                 uint64_t epoch);
    void *user;
    /* of the replica */
    struct write *next;
    struct plan_answer *answer;
};

/* The word of the store that names the last leadership of this directory: "<epoch> <nonce>". */
#define REPLICA_LED_WORD "led"
/* The incarnation of the cluster that a store's state is of. */
uint64_t replica_incarnation_of(struct store_snapshot *snap);

/* Of a replica that leads alone: who it is, and whom it tells. */
struct replica_alone {
    const struct member_info *self;
    void (*publish)(void *ctx, enum role role, uint64_t epoch);
    void (*failed)(void *ctx, const struct err *e); /* the disk; it leads no more */
    void *ctx;
};

struct replica_config {
    struct board *board;
    struct store *store;
    const struct etcd_access *etcd; /* NULL: it leads alone, on a durable store */
    struct replica_alone alone;
    const char *prefix; /* "/baton/<cluster>/" */
    const char *member_id;
    int64_t ttl_ms;
    int64_t max_pending, max_pending_bytes;
    int64_t dedup_bytes;
    size_t max_workers;
    int64_t worker_ttl_ms; /* of workers that name none */
    int64_t max_txn_ops;   /* 0: learn it from etcd; needed without */
};

struct err replica_start(struct replica **out, const struct replica_config *cfg);
/* Answers what is pending and joins the thread; it may still be spoken to until replica_free. */
void replica_stop(struct replica *r);
void replica_free(struct replica *r);
/* Whom it tells; each may be NULL. */
struct replica_links {
    struct candidate *candidate;
    struct follow *follow;
    struct waiting *waiting;
    struct upkeep *upkeep;
    struct fanout *fanout;
    struct workforce *workforce;
};
/* Before anything is said to it. */
void replica_connect(struct replica *r, const struct replica_links *links);

/* For metrics; any thread. What waits or is in flight, and the limits. */
struct replica_pending {
    size_t count, bytes;
    int64_t max_count, max_bytes, max_id_bytes;
};
void replica_pending(struct replica *r, struct replica_pending *out);

/* Any thread. An error (OVERLOADED, or why this member takes no writes) leaves w the caller's. */
struct err replica_submit(struct replica *r, struct write *w);

/* A ticket: it is confirmed (see waiting_on_confirmed) once etcd has answered well to something
 * that this member sent, as the leader, after this call. Any thread. */
uint64_t replica_ask(struct replica *r);

/* Alone: makes the leaderships to come have epochs above this one, and leads anew with the next of
 * them; nothing happens when that was written before. Any thread; an error leaves `done` uncalled.
 * On the replica's thread it is called once, with what the state says of its cluster then. */
typedef void replica_raised(void *arg, const struct err *err, const struct cluster *cluster);
struct err replica_raise(struct replica *r, uint64_t above, replica_raised *done, void *arg);

/* ---- from upkeep ---- */
/* Bytes sent to etcd for commits, by this process. */
uint64_t replica_written(struct replica *r);
/* no_puts: why puts are refused; OK: they are not. Once `written` has come to ask_at, the next
 * batch waits a moment for another word. */
void replica_set_space(struct replica *r, const struct err *no_puts, uint64_t ask_at);

/* ---- from the election thread ---- */
void replica_lead(struct replica *r, const struct leadership *leadership); /* copied */
void replica_step_down(struct replica *r, uint64_t epoch, const char *why);

/* ---- from the follow thread: owned copies that the replica frees ---- */
struct replica_events {
    int64_t revision;    /* all events share it */
    uint64_t generation; /* of the watch that brought it; see follow_reopen */
    int64_t received_ms;
    struct etcd_event *events; /* slices point into one block behind the array */
    size_t count;
};
struct replica_events *replica_events_new(const struct etcd_event *events, size_t count,
                                          int64_t revision, int64_t received_ms);
void replica_events_free(struct replica_events *e);
/* Wait while the replica has more than it can work off; false when it is stopping (e stays the
 * caller's). */
bool replica_watch(struct replica *r, struct replica_events *e);
/* A page of a full listing at page->revision; `first` empties the store before, `last` ends the
 * listing. */
bool replica_load(struct replica *r, struct replica_events *page, bool first, bool last);
/* A watch of this generation was opened when the state stood at `revision` (the mod_revision of
 * `commit`): a replica that has applied it is caught up. */
void replica_opened(struct replica *r, uint64_t generation, int64_t revision);
void replica_watch_lost(struct replica *r);
int64_t replica_applied(struct replica *r);
/* Of the cluster when the whole state was last listed. */
uint64_t replica_incarnation(struct replica *r);
