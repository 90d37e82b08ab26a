/* What a member counts. Any thread, before and after anything else exists. What is shown as it is
 * now, and not counted, is collected by meta/metrics_collect.h. */
#pragma once
#include "common/base/err.h"
#include "common/io/etcd_observe.h"
#include "common/io/rpc_server.h"
#include "meta/core/commit.h"
#include "meta/core/election.h"
#include "meta/workforce.h"

struct dedup_window;
struct metric_cell;

/* Makes the series that can be foreseen, so that they start at 0 and not with their first event.
 * Once, before the threads. */
void meta_metrics_init(void);

/* ---- commits (the replica) ---- */
enum meta_commit_kind { META_BATCH, META_HEARTBEAT, META_PROBE };
void meta_count_outcome(enum meta_commit_kind kind, enum commit_outcome_kind outcome);
/* Of an applied commit: mutations in it (0: none) and how long it took. */
void meta_observe_commit(size_t requests, int64_t spent_us);
void meta_count_attempt(enum commit_txn_kind kind, size_t bytes);
/* A mutation that was not carried out; err is what its caller is told. */
void meta_count_write_refused(enum err_code code);
void meta_count_replayed(void);
/* The table of request ids as the leader keeps it; after each commit. */
void meta_note_ids(const struct dedup_window *window, int64_t now_ms);

/* ---- state ---- */
void meta_count_foreign_write(void);
void meta_count_store_failure(enum err_code code);
void meta_count_listing(void);
/* The watch brought this revision, which the replica has not applied yet. */
void meta_note_seen_revision(int64_t revision);

/* ---- workers ---- */
/* An answer to a heartbeat, and a worker that has expired. */
void meta_count_heartbeat(enum workforce_beat said);
void meta_count_expired(void);

/* What this process has done: the counts above, summed up for clients. */
struct meta_activity {
    uint64_t commits; /* applied, with mutations in them */
    uint64_t writes;  /* mutations in them */
    uint64_t reads;   /* of the key-value store */
    uint64_t heartbeats;
};
void meta_activity(struct meta_activity *out);

/* ---- etcd ---- */
/* How full its fullest endpoint is, and whether puts are refused for it. */
void meta_note_space(int64_t file_bytes, int64_t used_bytes, int64_t quota_bytes, bool full);
void meta_note_compacted(int64_t revision);
void meta_count_watch_opened(void);
/* Granted or kept just now; ttl_ms 0: lost or given back. */
void meta_note_lease(int64_t ttl_ms);
/* For etcd_observe. */
void meta_count_etcd(const struct etcd_observation *o);

/* ---- election ---- */
/* The seat moved to another state; why it did. Election thread. */
void meta_note_seat(enum seat to, const char *why);
/* The replica holds the takeover: reads and writes may be answered. */
void meta_note_activated(void);
/* Everybody on this member knows the role now. Election thread. */
void meta_note_published(enum role role);
void meta_count_step_down(const char *why); /* why is a constant */

/* ---- RPCs ---- */
/* The methods that are served, borrowed for ever. Once, before the first call. */
void meta_metrics_methods(const struct rpc_method *methods, size_t count);
/* For rpc_server_config.answered. */
void meta_count_rpc(const struct rpc_method *method, int status, int64_t spent_us);
/* A read of the key-value store, by what it was answered on: the leader's lease, an answer of etcd,
 * nothing. */
enum meta_read { META_READ_LEADER, META_READ_QUORUM, META_READ_STALE };
void meta_count_read(enum meta_read how);
/* A subscriber of notifications, by what it says it is; what comes back is given to the second one.
 */
struct metric_cell *meta_count_subscriber(const char *kind);
void meta_count_subscriber_gone(struct metric_cell *kind);
/* A call to a leader that had to wait for etcd's confirmation, or for a revision. */
enum meta_wait { META_WAIT_CONFIRMED, META_WAIT_REVISION };
void meta_count_wait(enum meta_wait what);

/* ---- the fan-out ---- */
void meta_count_stream_sent(const char *service, size_t messages, size_t bytes);
void meta_count_stream_ended(const char *service, enum err_code why);
void meta_count_stream_snapshot(void);
