/* Inside of the fan-out: fanout.c has the ring and takes streams in, fanout_shard.c is the thread
 * that sends to a part of them, fanout_filter.c keeps what streams of the same filter share. */
#pragma once
#include "meta/fanout.h"
#include <pthread.h>
#include <stdatomic.h>

/* Messages in the order in which they are sent; owns them. All zero is empty. */
struct fanout_out {
    struct rpc_shared **messages;
    size_t count, cap;
    size_t bytes;
    size_t sent; /* of them, by whoever sends */
};
void fanout_out_clear(struct fanout_out *out); /* keeps the memory */
void fanout_out_close(struct fanout_out *out);

/* ---- fanout_filter.c: of one shard, on its thread ---- */

enum { FILTER_SLOTS = 16 };

/* A commit as a filter sees it. */
struct filter_entry {
    bool made, encoded;
    uint64_t place, epoch; /* epoch: that of the leadership which committed it */
    int64_t revision;
    size_t weight; /* 0: it does not concern the filter */
    struct ring_commit *commit;
    struct fanout_out out;
};

struct filter;
/* All zero is empty; it is empty again once all were given back and filters_forget was called. */
struct filter_table {
    struct filter *all;  /* by kind and bytes */
    struct filter *used; /* in this round */
};
struct filter *filter_take(struct filter_table *t, const struct fanout_kind *kind,
                           struct bytes bytes);
void filter_give(struct filter_table *t, struct filter *f);
const void *filter_decoded(const struct filter *f);
/* What is known of the commit at `place`; its commit is to be set when it is not `made`. Valid
 * until the next one is asked for, or all are forgotten. */
struct filter_entry *filter_entry_at(struct filter *f, uint64_t place);
/* Takes the reference. */
void filter_entry_make(struct filter_table *t, struct filter *f, struct filter_entry *e,
                       uint64_t place, struct ring_commit *c);
void filter_entry_encode(struct filter *f, struct filter_entry *e, const struct fanout_view *v);
/* At the end of a round: what was made in it is seldom needed again. */
void filters_forget(struct filter_table *t);

/* ---- a stream ---- */

enum sub_state {
    SUB_WAITS,    /* for its turn to read a snapshot */
    SUB_SNAPSHOT, /* holds one, and is told it page by page */
    SUB_TELLING,  /* commits */
};

struct shard;

struct sub {
    struct shard *shard;
    struct rpc_call *call;
    const struct fanout_kind *kind;
    struct bytes filter_bytes; /* owned */
    bool snapshot;
    uint64_t epoch; /* as in the request, like the next one */
    void *user;

    /* between the RPC's events and the shard */
    _Atomic bool gone, owed; /* owed: waits until what is queued is written */
    bool opened, mailed;     /* under the shard's lock, as the next one */
    struct sub *next_mail;

    /* of the shard's thread */
    bool listed;
    struct filter *filter;
    enum sub_state state;
    uint64_t generation; /* of the ring, that what follows is of */
    int64_t told;        /* everything up to it */
    uint64_t place;      /* of the next commit */
    size_t part;         /* messages of that commit which are sent */
    bool live;           /* it has been at the end of the ring: from then on it has to keep up */
    uint64_t counted;    /* place up to which `waiting` counts */
    size_t waiting;      /* bytes that concern it and are not sent */
    uint64_t touched;    /* what it was told beside commits is as of this fanout_touch */
    struct buf beside;
    struct store_snapshot *snap;
    bool last_page;
    struct buf cursor;
    struct fanout_out out; /* of this stream alone: pages, what is told beside */
    int64_t sent_ms;       /* when anything was sent last; 0: never */
    int64_t moved_ms;      /* when its reader last took something of a snapshot, … */
    int64_t began_ms;      /* … which was begun then */
    struct sub *prev, *next, *prev_waiting, *next_waiting;
};

struct shard {
    struct fanout *fanout;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t called;
    bool woken, stopping;
    struct sub *mail, **mail_tail; /* to be looked at */
    size_t mail_count;
    _Atomic size_t count; /* of subs, those in the mail too */

    /* of the thread */
    struct sub *subs, *waiting;
    struct filter_table filters;
    int snapshots; /* open */
};

void shard_start(struct shard *s, struct fanout *f, int number);
void shard_stop(struct shard *s);
/* There is something new for all. */
void shard_wake(struct shard *s);
/* Puts a stream that has begun into the hands of the shard. */
void shard_add(struct shard *s, struct sub *sub);
/* The RPC's events; user is a sub. */
void shard_on_event(struct rpc_call *call, enum rpc_stream_event event, void *user);

/* ---- fanout.c ---- */

struct fanout {
    struct fanout_config cfg;
    const struct fanout_wire *wire;
    struct shard *shards;
    _Atomic unsigned next_shard;
    _Atomic int streams;
    _Atomic uint64_t touched;

    pthread_mutex_t lock; /* of what follows */
    struct ring ring;
    uint64_t generation; /* grows when the state is listed anew */
    bool listed;         /* the state is whole */
    uint64_t epoch, incarnation;
};

/* Where things stand; all of one moment. */
struct fanout_now {
    uint64_t generation, end, epoch, incarnation;
    bool listed;
    int64_t last;
};
void fanout_now(struct fanout *f, struct fanout_now *out);
/* A reference to the commit at a place before the end; NULL: it is not kept any more. */
struct ring_commit *fanout_commit_at(struct fanout *f, uint64_t place);
/* Where a stream of this generation goes on that was told everything up to a revision. false: what
 * follows is not kept any more, or the generation is over. */
bool fanout_place_after(struct fanout *f, uint64_t generation, int64_t revision, uint64_t *place);
void fanout_end(struct fanout *f, struct sub *sub, const struct err *e);
