/* Inside the replica: replica.c dispatches, replica_follow.c follows, replica_lead.c leads,
 * replica_batch.c makes its commits. All of it belongs to the replica thread, but for the inbox and
 * the list of writes. */
#pragma once
#include "common/base/log.h"
#include "common/base/queue.h"
#include "common/base/rng.h"
#include "common/io/etcd.h"
#include "meta/core/confirm.h"
#include "meta/replica.h"
#include "meta/store.h"
#include <pthread.h>
#include <stdatomic.h>

enum replica_mode {
    REPLICA_FOLLOWING,
    REPLICA_ACTIVATING, /* the takeover won; waits for the watch to bring it */
    REPLICA_LEADING,
    REPLICA_SETTLING, /* leads no more; waits for the outcome of what is in flight */
};

/* Alone: a wish for an epoch above this one; 0: none. */
struct raise {
    uint64_t above;
    replica_raised *done;
    void *arg;
};

/* Mutations that wait for a batch, handed over by the rpc threads. */
struct write_list {
    pthread_mutex_t lock;
    bool open; /* while LEADING */
    struct write *head, **tail;
    size_t count, bytes; /* waiting or in flight */
    struct raise raise;
};

struct replica;

/* How a replica leads: with others, by fenced commits in etcd, or alone. */
struct leading {
    void (*begin)(struct replica *r, const struct leadership *l);
    void (*end)(struct replica *r, uint64_t epoch, const char *why);
    /* Timers and, when nothing is in flight, the next batch. */
    void (*work)(struct replica *r);
    int64_t (*next_ms)(const struct replica *r);
    void (*give_up)(struct replica *r);
};
extern const struct leading lead_with_etcd; /* replica_lead.c */
extern const struct leading lead_alone;     /* embedded_lead.c */

struct replica {
    struct replica_config cfg;
    const struct leading *leading;
    struct candidate *candidate;
    struct follow *follow;
    struct waiting *waiting;
    struct upkeep *upkeep;
    struct fanout *fanout;
    struct workforce *workforce;
    struct etcd_client *etcd;
    pthread_t thread;
    struct queue *inbox;
    struct rng rng;
    enum replica_mode mode;
    bool stopping;
    _Atomic bool halted; /* by replica_stop: nothing is taken any more */
    struct write_list writes;
    _Atomic uint64_t asked; /* tickets given out */
    _Atomic bool ask_told;  /* the thread was woken for them, and has not looked since */

    /* following */
    _Atomic int64_t applied;
    _Atomic uint64_t incarnation;
    uint64_t generation;            /* events of an older watch are dropped */
    struct record last;             /* the last commit record applied; epoch 0: none */
    bool opened, caught_up, broken; /* broken: waits for a new listing */
    int64_t opened_revision;
    int64_t lost_ms; /* when the watch was lost, while it is not opened */
    int64_t seen_ms; /* when the last commit record was received */
    char leader_addr[ADDR_MAX + 1];
    int64_t max_txn_ops; /* 0: not known yet */
    struct log_limit broken_limit, foreign_limit, refused_limit;

    /* leading */
    struct leadership lead;
    struct commit *commit;
    struct plan_batch batch;
    struct dedup_window window;
    struct write *waiting_writes; /* taken from the list, in order; not yet in a batch */
    struct write *flight;         /* in the batch */
    struct record_bytes flight_record;
    struct confirm confirm;
    uint64_t confirmed_told;  /* the highest ticket that was told */
    _Atomic uint64_t written; /* bytes sent for commits, ever */
    struct err no_puts;       /* etcd is nearly full */
    uint64_t ask_at;
    bool held; /* what waits is not begun before upkeep has looked again, or held_by_ms */
    int64_t held_by_ms;
    bool in_flight;
    bool bare; /* what flies is a heartbeat without a batch, or a probe: `batch` is not of it */
    int64_t began_us;
    int64_t next_heartbeat_ms;
    int64_t renew_ms;       /* of the newest commit known applied */
    int64_t activate_by_ms; /* ACTIVATING: lets somebody else try then */
    int64_t beat_revision;  /* of heartbeats while ACTIVATING: applied after the drain */
    struct record_bytes beat_record;
};

/* ---- replica.c ---- */

/* An answer of etcd to an attempt of the leadership of `epoch` (each numbers its own), posted from
 * the client's thread. */
void replica_post_answer(struct replica *r, uint64_t epoch, uint64_t attempt,
                         const struct etcd_reply *reply);
/* There is something to work off: any thread. */
void replica_wake(struct replica *r);

/* ---- replica_follow.c ---- */
void replica_set_applied(struct replica *r, int64_t revision);
/* The store holds this revision, by the leadership of `epoch`: told to all who follow the state. */
void replica_moved(struct replica *r, int64_t revision, uint64_t epoch);
/* A store that fails is thrown away and listed anew. */
void replica_drop_state(struct replica *r, const struct err *why);
void replica_caught_up(struct replica *r, bool caught_up);
/* The commit record that the state holds now, written by this member. */
void replica_own_record(struct replica *r, const struct record_bytes *record);
/* The state as it is in the store now: at start and after a listing. */
void replica_adopt_store(struct replica *r);
/* Takes the present leader from the store: its record, and its address from the history. */
void replica_publish_leader(struct replica *r, bool look_up_addr);
/* How much etcd takes in one txn: the least of what the endpoints say that answer. */
void replica_learn_limits(struct replica *r);
/* When a follower whose watch is lost falls behind. */
int64_t replica_behind_ms(const struct replica *r);
void replica_on_events(struct replica *r, const struct replica_events *e);
void replica_on_page(struct replica *r, const struct replica_events *page, bool first, bool last);
void replica_on_opened(struct replica *r, uint64_t generation, int64_t revision);
void replica_on_watch_lost(struct replica *r);

/* ---- replica_workers.c ---- */
/* Begins to take out whoever is not heard of any more, when it is time to look. */
void replica_end_workers(struct replica *r);
int64_t replica_workers_next_ms(const struct replica *r);

/* ---- replica_lead.c ---- */
/* The state is of no use, so this leadership must end. */
void lead_on_broken(struct replica *r, const struct err *why);
/* After anything that may have moved the applied revision while ACTIVATING. */
void lead_try_activate(struct replica *r);
void lead_on_answer(struct replica *r, uint64_t epoch, uint64_t attempt, const struct err *err,
                    const struct etcd_txn_result *result);
/* Sends what the commit wants sent, takes note of its outcome. */
void lead_carry_out(struct replica *r, struct commit_effects *effects);

/* ---- replica_batch.c ---- */
enum { BATCH_FENCE_OPS = 8 };     /* of a txn that the fence adds, with room to spare */
enum { BATCH_OPS_DEFAULT = 128 }; /* of etcd */
/* What was recorded with request ids counts as fresh for a new leader. */
void batch_inherit_ids(struct replica *r);
void batch_open_writes(struct replica *r);
/* What came in since, behind what waits already. */
void batch_gather_writes(struct replica *r);
/* Nothing more is accepted, and what was accepted but not sent certainly did not happen. */
void batch_close_writes(struct replica *r);
/* Makes a batch of what waits, in r->batch and r->flight; false: there is nothing to commit. */
bool batch_plan(struct replica *r, int64_t now_ms);
/* Begins a commit of what waits, or a heartbeat when one is due. */
void batch_begin(struct replica *r, int64_t now_ms);
/* Asks etcd whether this leadership is in force. */
void batch_begin_probe(struct replica *r, int64_t now_ms);
/* While ACTIVATING there is no plan: only the heartbeat that keeps others from taking over. */
void batch_begin_heartbeat(struct replica *r, int64_t now_ms);
/* etcd holds what flew, so it is durable whatever becomes of the local copy. */
void batch_apply(struct replica *r, int64_t revision);
/* It is applied at this revision, so it counts for the batches to come. */
void batch_committed(struct replica *r, int64_t revision);
/* err OK: each gets its planned answer. */
void batch_answer(struct replica *r, const struct err *err);
/* An endpoint that takes fewer operations in a txn than the others said: what it refused certainly
 * did not happen, and is planned anew in smaller batches. */
bool batch_split_refused(struct replica *r, const struct err *e);
