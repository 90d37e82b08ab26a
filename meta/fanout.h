/* One fan-out for everything that follows the state: watches, notifications, and whatever else
 * tells commits as they happen. The replica hands in each commit once; a few threads own all
 * streams and bring each from the place in the ring of recent commits where it stands to the end.
 *
 * How a service uses it: it makes one `struct fanout_kind`, which says what a commit, a page of the
 * state and an idle moment look like in its messages, and for each stream fills a `struct
 * fanout_request` in its handler and calls fanout_open, which from then on owns the call. A filter
 * (what a stream wants) is a byte string; streams with the same one share its decoded form, and the
 * messages made for it: a commit is encoded once for each filter and thread.
 *
 * What holds. A stream is told each commit above the revision where it began, in order, each once,
 * as long as it lives; a snapshot is of one revision, and what comes after it continues from there.
 * A stream of a leader is told nothing that a later leader committed: it ends before, with the
 * reason that the board gives. Nothing is in the ring but what is committed and applied. A reader
 * that does not read holds no memory but what its RPC has queued (FANOUT_QUEUED_BYTES and one
 * message); it is cut with TOO_SLOW when more than buffer_bytes wait for it, or when the ring has
 * gone on without it. */
#pragma once
#include "common/io/rpc_server.h"
#include "meta/core/resume.h"
#include "meta/core/ring.h"
#include <stdbool.h>

struct board;
struct fanout;
struct store;
struct store_snapshot;

enum {
    FANOUT_QUEUED_BYTES = 64 * 1024, /* a stream is given no more while so much waits in its RPC */
    FANOUT_MESSAGE_BYTES = 1024 * 1024, /* the size of a message to aim at */
    FANOUT_PAGE_BYTES = 256 * 1024,     /* the same, of a page of a snapshot */
};

/* Takes messages one by one, in the order in which they are to be sent; copies. */
struct fanout_out;
void fanout_say(struct fanout_out *out, struct bytes message);

/* For whom messages are made. */
struct fanout_view {
    const char *cluster_id;
    uint64_t incarnation;
    uint64_t epoch; /* of the leadership that this member follows, or is */
};
/* The token of a reader that was told everything up to this revision. */
void fanout_token(const struct fanout_view *v, int64_t revision, struct buf *out);

/* A kind of streams; all functions run on threads of the fan-out, for one filter on several of them
 * at once. */
struct fanout_kind {
    const char *name; /* a label of metrics */
    void *ctx;        /* for filter_new */
    /* The decoded form of a filter, and its end. */
    void *(*filter_new)(void *ctx, struct bytes filter);
    void (*filter_free)(void *filter);
    /* About how many bytes a commit is for this filter; 0: it does not concern it. */
    size_t (*weigh)(const void *filter, const struct ring_commit *c);
    /* The messages of a commit that concerns it. The same ones each time, but for the view. */
    void (*commit)(const void *filter, const struct fanout_view *v, const struct ring_commit *c,
                   struct fanout_out *out);
    /* The next page of a snapshot; *cursor (empty for the first page) says where it begins, and
     * then where the next one does. true: this was the last. At least one message in all. `told`:
     * as of `beside`, for what a snapshot shows of that. */
    bool (*page)(const void *filter, const struct fanout_view *v, struct store_snapshot *snap,
                 struct buf *cursor, struct buf *told, struct fanout_out *out);
    /* Everything up to this revision was told. Said when a stream begins without a snapshot, and
     * when nothing else was said for ten seconds. */
    void (*progress)(const void *filter, const struct fanout_view *v, int64_t revision,
                     struct fanout_out *out);
    /* What is told beside commits, as it is now; NULL: nothing. Asked before any commit is told on
     * a stream, and after each fanout_touch, but never within a snapshot or between the messages of
     * one commit. `told` is the stream's own, empty at first: what was told last, for the callee to
     * compare with and to replace. `revision`: told up to it. */
    void (*beside)(const void *filter, const struct fanout_view *v, int64_t revision,
                   struct buf *told, struct fanout_out *out);
    /* A stream is over, or was refused; `user` is that of its request. NULL: nobody cares. */
    void (*closed)(void *user);
};

enum fanout_start {
    FANOUT_NOW,      /* what comes from now on */
    FANOUT_AFTER,    /* what came after `revision`; it may be one that is still to come */
    FANOUT_RESUME,   /* what came after `resume` */
    FANOUT_SNAPSHOT, /* the state as it is now, and what comes after it */
};

/* Everything is copied. */
struct fanout_request {
    const struct fanout_kind *kind; /* lives as long as the fan-out */
    struct bytes filter;
    enum fanout_start start;
    int64_t revision;
    struct resume resume;
    bool snapshot; /* instead of COMPACTED or RESYNC, now and when the state is listed anew */
    /* The leadership of this member under which the stream was opened (the caller has made sure of
     * it): the stream ends with it. 0: of a follower, it goes on whoever leads. */
    uint64_t epoch;
    void *user; /* for closed */
};

struct fanout_config {
    struct board *board;
    struct store *store;
    int threads;
    size_t history_bytes, buffer_bytes;
    int max_streams;
    /* How streams are spoken to; NULL: as calls of the RPC server. */
    const struct fanout_wire *wire;
};

/* The ring begins at what the store holds. */
struct fanout *fanout_start(const struct fanout_config *cfg);
/* After the RPC server is freed: no stream is left by then. NULL is allowed. */
void fanout_stop(struct fanout *f);

/* In a handler of a stream, before it has begun. Begins it, or refuses it: OVERLOADED (there are
 * max_streams), COMPACTED with the oldest revision there is, RESYNC, NOT_READY. */
void fanout_open(struct fanout *f, const struct fanout_request *request, struct rpc_call *call);

/* What a kind tells beside commits may have changed. Any thread, never blocks. */
void fanout_touch(struct fanout *f);
/* The role of this member may have changed. Any thread, also under the board's lock; NULL is
 * allowed, here and below. */
void fanout_on_role(struct fanout *f);

/* ---- from the replica, on its thread, in the order in which it happened ---- */
/* The state moved to `revision`, by the leadership of `epoch`; takes the reference to what changed
 * (NULL: nothing did). After the store holds it, before any caller is told. */
void fanout_applied(struct fanout *f, int64_t revision, uint64_t epoch, struct ring_commit *c);
/* The state is of no use any more: what is told next is after fanout_listed. */
void fanout_lost(struct fanout *f);
/* The state was listed as a whole, at this revision. */
void fanout_listed(struct fanout *f, int64_t revision, uint64_t epoch, uint64_t incarnation);

/* ---- for others ---- */
struct fanout_load {
    int64_t streams, max_streams;
    int64_t history_bytes, max_history_bytes, history_commits;
    int64_t oldest_revision; /* the oldest start that is kept; 0: no state yet */
};
void fanout_load(struct fanout *f, struct fanout_load *out);

/* The calls of the RPC server, for tests to stand in for. `call` is whatever fanout_open was given.
 */
struct fanout_wire {
    void (*begin)(struct fanout *f, struct rpc_call *call, uint64_t epoch, rpc_stream_fn *on_event,
                  void *user);
    bool (*send)(struct rpc_call *call, struct rpc_shared *message);
    size_t (*queued_bytes)(struct rpc_call *call);
    void (*end)(struct fanout *f, struct rpc_call *call, const struct err *e,
                int64_t oldest_revision);
};
