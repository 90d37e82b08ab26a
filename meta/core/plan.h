/* Requests become changes. A batch collects the requests of one commit against one snapshot of the
 * committed state: no request in it sees or overwrites what another one in it writes, so the
 * snapshot is all there is to look at, and what the commit does is known before it is sent. Pure;
 * one thread. */
#pragma once
#include "meta/core/answer.h"
#include "meta/core/dedup.h"
#include "meta/core/footprint.h"
#include "meta/core/workers.h"

enum { PLAN_DELETE_MAX = 10000 }; /* keys that one request deletes */

/* The committed state. What the functions show is valid until the view is closed by its owner. */
struct plan_view {
    void *ctx;
    bool (*get)(void *ctx, struct bytes key, struct etcd_kv *out);
    /* Keys from key up to end (empty: to the last), in order, until visit answers false. */
    void (*range)(void *ctx, struct bytes key, struct bytes end,
                  bool (*visit)(void *arg, const struct etcd_kv *kv), void *arg);
    bool (*dedup)(void *ctx, struct bytes id, struct dedup_hit *out);
    /* A key below workers/, and the table of those keys. */
    bool (*worker)(void *ctx, struct bytes key, struct etcd_kv *out);
    const struct workers *workers;
};

struct plan_limits {
    size_t max_ops;   /* of the whole commit, but for what the fence adds */
    size_t max_bytes; /* of keys, values, ids and answers */
    /* Not NULL: requests that would put a key are refused with it; what only deletes is not. */
    const struct err *no_puts;
    size_t max_workers;
    uint64_t worker_ttl_ms; /* of workers that name none */
};

enum plan_verdict {
    PLAN_TAKEN,     /* *answer is settled by plan_committed */
    PLAN_WAIT_NEXT, /* touches what this batch writes: add it to the next one, first */
    PLAN_FULL,      /* no room: add it to the next one, first */
    PLAN_ANSWERED,  /* *answer is final: recorded by an earlier commit */
    PLAN_REFUSED,   /* *refusal says why; certainly not executed now */
};

/* What a batch does to the workers. */
struct plan_worker {
    struct worker worker; /* of one that ends: as it was, and how */
    bool granted;         /* has a slot that it had not before */
};
struct plan_workers {
    struct worker_counters counters; /* as they will be */
    struct plan_worker *changes;     /* in order, no worker twice */
    size_t count, cap;
    struct buf gone;       /* lines of those that end */
    struct footprint keys; /* ids and addresses */
};

/* All zero to start; plan_close frees. */
struct plan_batch {
    /* What the commit writes, complete after plan_end: user keys, chunk, evictions, floor; full
     * etcd keys. A DELETE with a range_end deletes every key of the range. */
    struct etcd_op *ops;
    size_t op_count;
    size_t request_count; /* taken */
    size_t user_events;   /* keys that change below state/kv/ */
    size_t events;        /* all keys that change, but for what the fence adds */

    /* inside */
    struct bytes state_prefix;
    const struct plan_view *view;
    struct dedup_window *window;
    struct plan_limits limits;
    struct arena memory;
    struct footprint keys, ids; /* of the requests taken */
    struct plan_workers workers;
    struct buf chunk, encoded;
    size_t op_cap, bytes, evict;
    struct plan_answer **answers;
    size_t answer_cap;
};

/* Starts a batch; everything of the one before is gone. The prefix ("/baton/<cluster>/state/") and
 * the view are borrowed until plan_end, the window until plan_committed or the next plan_begin. A
 * batch without requests may still hold evictions, so heartbeats are batches too. */
void plan_begin(struct plan_batch *b, struct bytes state_prefix, const struct plan_view *view,
                struct dedup_window *window, const struct plan_limits *limits, int64_t now_ms);

/* A taken request is borrowed until the batch is over: its ops point into it. The request has
 * passed request_check. Answers live in the batch until the next plan_begin. */
enum plan_verdict plan_add(struct plan_batch *b, const struct plan_request *req,
                           struct plan_answer **answer, struct err *refusal);

/* Adds chunk, evictions and floor. The ops are complete; nothing is taken any more. */
void plan_end(struct plan_batch *b);

/* The commit was applied at this revision: settles the answers and moves the window. A batch that
 * was not applied is simply begun anew. */
void plan_committed(struct plan_batch *b, int64_t revision, int64_t now_ms);
/* The same for the table of the workers that the view showed. */
void plan_workers_committed(const struct plan_batch *b, struct workers *workers, int64_t now_ms);

void plan_close(struct plan_batch *b);
