/* libbaton: the client library of Baton, a highly available meta service.
 *
 * A client is given addresses, of the proxy or of members, and finds whoever leads; it finds the
 * next leader by itself when that one goes, so a failover is a call that takes a little longer.
 * Mutations carry a request id over all their attempts, so each takes effect once.
 *
 * - Every function may be called from any thread, but for a close or free: it comes last, once.
 * - Calls block until they are answered or out of time. Streams (watches, subscriptions, workers)
 *   call back from one thread of their own, never two at a time, perhaps before the function that
 *   opens it has returned, but not before *out is set; a callback may call anything of this library
 *   but the close of its own stream.
 * - Functions that can fail return 0, or -1 with *err filled in; err may be NULL.
 * - What is given is borrowed for the call and copied if it is needed longer. What comes back in a
 *   result belongs to the result, and what a callback is shown is valid until it returns.
 * - Times are in milliseconds. Keys are 1 to 480 bytes, values at most 1 MiB, any bytes.
 * - Out of memory ends the process.
 * - A process that forks uses clients made after the fork. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define BATON_API __attribute__((visibility("default")))
#else
#define BATON_API
#endif

/* "0.1.0", of the library that is loaded. */
BATON_API const char *baton_version(void);

/* ---- errors ---- */

/* The statuses of gRPC, with their numbers. */
enum baton_status {
    BATON_OK = 0,
    BATON_CANCELLED = 1,
    BATON_UNKNOWN = 2,
    BATON_INVALID_ARGUMENT = 3,
    BATON_DEADLINE_EXCEEDED = 4,
    BATON_NOT_FOUND = 5,
    BATON_ALREADY_EXISTS = 6,
    BATON_PERMISSION_DENIED = 7,
    BATON_RESOURCE_EXHAUSTED = 8,
    BATON_FAILED_PRECONDITION = 9,
    BATON_ABORTED = 10,
    BATON_OUT_OF_RANGE = 11,
    BATON_UNIMPLEMENTED = 12,
    BATON_INTERNAL = 13,
    BATON_UNAVAILABLE = 14,
    BATON_DATA_LOSS = 15,
    BATON_UNAUTHENTICATED = 16,
};

/* What became of a mutation that failed, all its attempts together. */
enum baton_outcome {
    BATON_NOT_EXECUTED,    /* certainly nothing happened */
    BATON_OUTCOME_UNKNOWN, /* it may or may not have: ask again with the same request id */
};

struct baton_error {
    enum baton_status status;
    enum baton_outcome outcome;
    char reason[40];   /* a stable upper-case word of docs/library.md, as "STALE_EPOCH" */
    char message[512]; /* for people: what was wrong */
    char hint[256];    /* what to do about it; "" when the message says all */
};

/* ---- clients ---- */

struct baton_bytes {
    const void *data;
    size_t len;
};

struct baton_client;

/* All zero but for the addresses is a good choice. */
struct baton_options {
    const char *addresses; /* "host:port[,host:port...]", of proxies or members; at most 32 */
    int64_t timeout_ms;    /* of a call that names none; 0: 15000 */
    int attempts_max;      /* of one call; 0: as many as its time allows */
    /* Consulted about everything a leader sends, and closed after the client; NULL: one in memory.
     */
    struct baton_guard *guard;
};

/* Connects to nobody yet. INVALID_ARGUMENT names the address that is wrong. */
BATON_API int baton_client_new(struct baton_client **out, const struct baton_options *options,
                               struct baton_error *err);
/* After its streams are closed. NULL is allowed. */
BATON_API void baton_client_free(struct baton_client *client);

/* How one call is made; NULL stands for all zero. */
struct baton_call {
    int64_t timeout_ms; /* 0: the client's */
    /* Of a mutation: 16 to 64 printable characters, no blanks, one id per intended effect; for who
     * repeats a call itself, also after its own restart. NULL: one is made. */
    const char *request_id;
};

/* ---- the epoch guard ----
 *
 * Keeps the highest epoch seen of a cluster, so that a process that takes orders from leaders can
 * reject what a deposed one sends late. */

struct baton_guard;

/* path: a file that keeps the epoch over restarts, made when there is something to keep, on disk
 * before a higher epoch is admitted; of one guard at a time (IN_USE), by a lock on a file path.lock
 * beside it. NULL: in memory. DATA_LOSS names a file that is damaged. */
BATON_API int baton_guard_open(struct baton_guard **out, const char *path, struct baton_error *err);
BATON_API void baton_guard_close(struct baton_guard *guard);
/* Is this epoch not below the highest seen? Then it is the highest from now on, durably.
 * STALE_EPOCH: reject what came with it. OTHER_CLUSTER: the guard knows epochs of another cluster
 * id, and they do not compare: delete the file to follow another cluster. */
BATON_API int baton_guard_admit(struct baton_guard *guard, const char *cluster_id, uint64_t epoch,
                                struct baton_error *err);
/* 0: none yet. */
BATON_API uint64_t baton_guard_epoch(struct baton_guard *guard);

/* ---- the cluster ---- */

enum baton_role {
    BATON_ROLE_UNKNOWN,
    BATON_FOLLOWER,
    BATON_CANDIDATE,
    BATON_ACTIVATING,
    BATON_LEADER,
    BATON_STEPPING_DOWN,
};

struct baton_leader {
    char cluster_id[40];
    bool known; /* false: no leader that may still serve is known */
    char id[72];
    char addr[304];
    uint64_t epoch; /* the highest seen */
    int64_t age_ms; /* since the answering member last saw a sign of life of that leader */
};

struct baton_member {
    const char *id, *addr, *http_addr, *version, *instance;
    enum baton_role role;
    uint64_t epoch;
    int64_t started_unix_ms, applied_revision, lag;
};

struct baton_leadership {
    uint64_t epoch;
    const char *leader_id, *addr, *reason;
    int64_t started_unix_ms, ended_unix_ms; /* ended 0: it lasts */
};

struct baton_members { /* a result */
    const char *cluster_id;
    const struct baton_member *members;
    size_t count;
};

struct baton_history { /* a result */
    const char *cluster_id;
    const struct baton_leadership *leaderships; /* newest first */
    size_t count;
};

BATON_API int baton_leader(struct baton_client *client, const struct baton_call *call,
                           struct baton_leader *out, struct baton_error *err);
BATON_API int baton_members(struct baton_client *client, const struct baton_call *call,
                            struct baton_members **out, struct baton_error *err);
/* limit 0: 100. */
BATON_API int baton_history(struct baton_client *client, const struct baton_call *call,
                            unsigned limit, struct baton_history **out, struct baton_error *err);
struct baton_transferred {
    uint64_t epoch;  /* of the leadership that ended */
    char target[72]; /* who is first in line now; another than asked for, if that one just left */
};

/* Hands the leadership over; target NULL: to whoever is first in line. out may be NULL. Neither
 * this nor a removal is repeated once it may have happened. */
BATON_API int baton_transfer(struct baton_client *client, const struct baton_call *call,
                             const char *target, struct baton_transferred *out,
                             struct baton_error *err);
/* out (may be NULL): the one member as it was listed. */
BATON_API int baton_remove_member(struct baton_client *client, const struct baton_call *call,
                                  const char *id, struct baton_members **out,
                                  struct baton_error *err);

/* Frees any result of this library, with all it shows; NULL is allowed. */
BATON_API void baton_result_free(void *result);

/* ---- keys and values ---- */

enum baton_consistency {
    BATON_LEASE,  /* linearizable while clocks drift less than docs/guarantees.md allows */
    BATON_QUORUM, /* linearizable without any clock */
    BATON_STALE,  /* what the member at one of the addresses has */
};

struct baton_kv {
    struct baton_bytes key, value;
    int64_t create_revision, mod_revision, version;
};

struct baton_kvs { /* a result */
    int64_t revision;
    uint64_t epoch;             /* of the leader that answered; 0: not told */
    bool replayed;              /* the answer of an earlier attempt with this request id */
    const struct baton_kv *kvs; /* get: none when the key is not there */
    size_t kv_count;
    bool more; /* range: go on at next_key */
    struct baton_bytes next_key;
    uint64_t count; /* range with count_only; delete: how many went */
};

/* How fresh a read is; NULL stands for all zero. */
struct baton_read {
    enum baton_consistency consistency;
    int64_t min_revision; /* waits until the state holds it */
};

struct baton_range {
    struct baton_bytes key;       /* from this one on; empty: from the first */
    struct baton_bytes range_end; /* up to this one, not included; empty: to the last */
    bool prefix;                  /* instead of range_end: every key that starts with key */
    uint32_t limit;               /* of one page; 0: 1000 */
    bool keys_only, count_only;
};

BATON_API int baton_get(struct baton_client *client, const struct baton_call *call,
                        struct baton_bytes key, const struct baton_read *read,
                        struct baton_kvs **out, struct baton_error *err);
BATON_API int baton_range(struct baton_client *client, const struct baton_call *call,
                          const struct baton_range *range, const struct baton_read *read,
                          struct baton_kvs **out, struct baton_error *err);
/* out may be NULL, here and below. */
BATON_API int baton_put(struct baton_client *client, const struct baton_call *call,
                        struct baton_bytes key, struct baton_bytes value, struct baton_kvs **out,
                        struct baton_error *err);
BATON_API int baton_delete(struct baton_client *client, const struct baton_call *call,
                           struct baton_bytes key, struct baton_kvs **out, struct baton_error *err);
BATON_API int baton_delete_prefix(struct baton_client *client, const struct baton_call *call,
                                  struct baton_bytes prefix, struct baton_kvs **out,
                                  struct baton_error *err);

enum baton_target {
    BATON_TARGET_VALUE,
    BATON_TARGET_VERSION,
    BATON_TARGET_CREATE_REVISION,
    BATON_TARGET_MOD_REVISION,
};
enum baton_relation { BATON_EQUAL, BATON_NOT_EQUAL, BATON_LESS, BATON_GREATER };

/* Of a key that is not there, VERSION and the revisions are 0, and VALUE equals nothing. */
struct baton_compare {
    struct baton_bytes key;
    enum baton_target target;
    enum baton_relation relation;
    struct baton_bytes value; /* of VALUE */
    int64_t number;           /* of the others */
};

enum baton_op_kind { BATON_OP_GET, BATON_OP_PUT, BATON_OP_DELETE, BATON_OP_DELETE_PREFIX };

struct baton_op {
    enum baton_op_kind kind;
    struct baton_bytes key;
    struct baton_bytes value; /* PUT */
};

/* At most 100 of each. */
struct baton_txn {
    const struct baton_compare *compares;
    size_t compare_count;
    const struct baton_op *then_ops, *else_ops;
    size_t then_count, else_count;
};

struct baton_op_result {
    const struct baton_kv *kvs; /* GET: what is there */
    size_t kv_count;
    uint64_t deleted;
};

struct baton_txn_result { /* a result */
    int64_t revision;
    uint64_t epoch;
    bool replayed;
    bool succeeded; /* the compares held, so then_ops were done, else else_ops */
    const struct baton_op_result *results;
    size_t result_count;
};

BATON_API int baton_txn(struct baton_client *client, const struct baton_call *call,
                        const struct baton_txn *txn, struct baton_txn_result **out,
                        struct baton_error *err);

/* ---- watches ----
 *
 * Changes as they are committed: without a gap and without a repeat, over any number of failovers.
 * The stream is opened again inside; what cannot be resumed (compacted, restored) comes as a
 * snapshot with `restart` set. A commit that was told in part when a stream broke goes on with the
 * part that is missing; a snapshot begins anew, with `restart`. */

struct baton_watch;

struct baton_event {
    struct baton_kv kv; /* of a deletion: key and mod_revision, that of the deletion */
    bool deleted;
};

struct baton_changes {
    int64_t revision; /* all of it is of this revision */
    bool snapshot;    /* what exists, rather than what changed */
    bool restart;     /* first part of a snapshot: forget every key known before */
    bool more;        /* the same revision goes on in the next call */
    const struct baton_event *events;
    size_t count;
    struct baton_bytes token; /* resumes behind this, in a later life; empty while `more` */
    const char *cluster_id;
    uint64_t epoch;
};

struct baton_watch_options {
    const struct baton_bytes *prefixes; /* none: every key; at most 100 */
    size_t prefix_count;
    int64_t start_revision;   /* 0: from when it is connected first */
    struct baton_bytes token; /* instead: right behind it */
    bool snapshot;            /* with neither: the present state first */
    void (*changed)(void *user, const struct baton_changes *changes);
    /* Everything up to this revision was told; at least every 10 s while connected. May be NULL. */
    void (*progress)(void *user, int64_t revision);
    /* The stream is being opened anew because of err; NULL: it is connected (again). In turn, so
     * what fails until it is connected again is told once. May be NULL. */
    void (*connection)(void *user, const struct baton_error *err);
    /* Nothing more comes: what was asked for can never be had (INVALID_ARGUMENT). It is still to be
     * closed. May be NULL. */
    void (*failed)(void *user, const struct baton_error *err);
    void *user;
};

BATON_API int baton_watch_open(struct baton_watch **out, struct baton_client *client,
                               const struct baton_watch_options *options, struct baton_error *err);
/* When it returns, no callback runs or will run; that takes up to 2 s while no leader is known.
 * NULL is allowed. */
BATON_API void baton_watch_close(struct baton_watch *watch);

/* ---- workers ---- */

enum baton_worker_state {
    BATON_WORKER_UNKNOWN,
    BATON_WORKER_STARTING,
    BATON_WORKER_RUNNING,
    BATON_WORKER_EXPIRING, /* silent for too long, being taken out */
};

struct baton_label {
    const char *name, *value;
};
struct baton_resource {
    const char *name;
    uint64_t amount;
};

struct baton_worker_info {
    uint64_t id;          /* never used twice */
    uint64_t incarnation; /* grows with each registration */
    const char *type, *addr;
    enum baton_worker_state state;
    bool cordoned, draining;
    bool has_slot;
    uint32_t slot;
    uint64_t slot_grant;
    int64_t ttl_ms, silent_ms;
    int64_t create_revision, mod_revision;
    const struct baton_label *labels;
    size_t label_count;
    const struct baton_resource *resources;
    size_t resource_count;
};

struct baton_workers { /* a result */
    int64_t revision;
    const struct baton_worker_info *workers;
    size_t count;
    bool more; /* go on with after_id = id of the last */
};

struct baton_worker_filter {
    const char *type; /* NULL: all */
    const struct baton_label *labels;
    size_t label_count;
    enum baton_worker_state state; /* UNKNOWN: all */
    bool schedulable_only;
    uint64_t after_id;
    uint32_t limit; /* 0: 1000 */
};

struct baton_worker_spec {
    const char *type, *addr;
    const struct baton_label *labels;
    size_t label_count;
    const struct baton_resource *resources;
    size_t resource_count;
    bool slot;      /* wants one */
    int64_t ttl_ms; /* 0: the members' default */
};

enum baton_toggle { BATON_KEEP, BATON_ON, BATON_OFF };

struct baton_worker_change {
    uint64_t id, incarnation; /* incarnation 0: whichever it is */
    const struct baton_label *set_labels;
    size_t set_label_count;
    const char *const *remove_labels;
    size_t remove_label_count;
    const struct baton_resource *set_resources;
    size_t set_resource_count;
    const char *const *remove_resources;
    size_t remove_resource_count;
    enum baton_toggle cordoned, draining;
};

struct baton_worker_beat {
    int64_t ttl_ms; /* from when the heartbeat was sent */
    bool cordoned, draining;
};

struct baton_cluster_info { /* a result */
    const char *cluster_id, *leader_id, *leader_addr;
    int64_t revision;
    uint64_t epoch, keys, workers;
    uint32_t members, format_level;
    const struct baton_worker_type {
        const char *type;
        uint32_t starting, running, expiring, unschedulable, slots;
    } * types;
    size_t type_count;
    /* Of the leader's process since it began: two answers of one epoch give rates. */
    uint64_t commits, writes, reads, heartbeats;
    uint64_t streams; /* watches, subscriptions and others that are open there */
};

/* Results of one worker: `workers` has count 1. out may be NULL but for add and list. */
BATON_API int baton_worker_add(struct baton_client *client, const struct baton_call *call,
                               const struct baton_worker_spec *spec, struct baton_workers **out,
                               struct baton_error *err);
BATON_API int baton_worker_activate(struct baton_client *client, const struct baton_call *call,
                                    uint64_t id, uint64_t incarnation, struct baton_workers **out,
                                    struct baton_error *err);
BATON_API int baton_worker_update(struct baton_client *client, const struct baton_call *call,
                                  const struct baton_worker_change *change,
                                  struct baton_workers **out, struct baton_error *err);
BATON_API int baton_worker_delete(struct baton_client *client, const struct baton_call *call,
                                  uint64_t id, uint64_t incarnation, struct baton_workers **out,
                                  struct baton_error *err);
BATON_API int baton_worker_list(struct baton_client *client, const struct baton_call *call,
                                const struct baton_worker_filter *filter,
                                struct baton_workers **out, struct baton_error *err);
BATON_API int baton_worker_heartbeat(struct baton_client *client, const struct baton_call *call,
                                     uint64_t id, uint64_t incarnation,
                                     struct baton_worker_beat *out, struct baton_error *err);
BATON_API int baton_cluster_info(struct baton_client *client, const struct baton_call *call,
                                 struct baton_cluster_info **out, struct baton_error *err);

/* ---- being a worker ----
 *
 * Registers, activates, sends heartbeats, registers again when the cluster has forgotten it, and
 * says when the work may be done: from `run` until `stop`. */

struct baton_worker;

enum baton_stop_reason {
    BATON_STOP_LOST_TOUCH, /* no heartbeat was answered in time: others may take the id or slot soon
                            */
    BATON_STOP_FORGOTTEN,  /* expired or deleted: registers anew, `run` follows with another id */
    BATON_STOP_REPLACED,   /* another process registered this address: the worker is over */
    BATON_STOP_CLOSED,     /* by baton_worker_close */
};

struct baton_worker_options {
    struct baton_worker_spec spec;
    /* Work stops this long before others may take over; 0: a tenth of the ttl, at least 100 ms. At
     * most half of the ttl. */
    int64_t margin_ms;
    /* The worker is registered and active as `self`: the work may be done, elsewhere, as no
     * heartbeat is sent and no stop comes while a callback runs. Called anew after each stop that
     * is not the last. */
    void (*run)(void *user, const struct baton_worker_info *self);
    /* The work has to have stopped when this returns; called once after each `run`. */
    void (*stop)(void *user, enum baton_stop_reason reason);
    /* Operators want it to be left alone, or to give its work back. May be NULL. */
    void (*wanted)(void *user, bool cordoned, bool draining);
    /* It is over, REPLACED (STALE_INCARNATION) or refused for good (BAD_WORKER): register no more.
     * It is still to be closed. May be NULL. */
    void (*failed)(void *user, const struct baton_error *err);
    void *user;
};

BATON_API int baton_worker_open(struct baton_worker **out, struct baton_client *client,
                                const struct baton_worker_options *options,
                                struct baton_error *err);
/* Up to when the work may be done, on CLOCK_BOOTTIME in milliseconds; 0: not now. What must not be
 * done by two looks here before each step, as a process may be paused at any time. */
BATON_API int64_t baton_worker_until_ms(struct baton_worker *worker);
BATON_API bool baton_worker_may_work(struct baton_worker *worker);
/* Stops the work, leaves the cluster (waits at most timeout_ms for that; 0: 2000), frees; up to 2 s
 * later when a call was under way. NULL is allowed. */
BATON_API void baton_worker_close(struct baton_worker *worker, int64_t timeout_ms);

/* ---- subscriptions ----
 *
 * One stream for a process that follows the cluster: a snapshot, then each change, with versions
 * that go on across failovers. What a deposed leader sends late is rejected by the client's guard.
 */

struct baton_subscription;

enum baton_topic { BATON_MEMBERS = 1, BATON_LEADERS = 2, BATON_WORKERS = 4, BATON_KEYS = 8 };

struct baton_worker_event {
    struct baton_worker_info worker; /* of one that is gone: as it was */
    bool gone, expired;
};

struct baton_notification {
    const char *cluster_id;
    uint64_t epoch;
    int64_t version;
    bool snapshot, restart, more; /* as of struct baton_changes */
    const struct baton_event *keys;
    size_t key_count;
    const struct baton_worker_event *workers;
    size_t worker_count;
    const struct baton_members *members; /* the whole list, when it has changed; else NULL */
    const struct baton_leader *leader;   /* when it has changed; else NULL */
    struct baton_bytes token;
};

struct baton_subscribe_options {
    const char *kind;                   /* what the subscriber is, as "compute" */
    unsigned topics;                    /* of enum baton_topic, or-ed */
    const struct baton_bytes *prefixes; /* KEYS; none: every key */
    size_t prefix_count;
    const char *const *worker_types; /* WORKERS; none: all */
    size_t worker_type_count;
    struct baton_bytes token; /* right behind it; empty: a snapshot first */
    void (*notified)(void *user, const struct baton_notification *notification);
    /* As of struct baton_watch_options. */
    void (*progress)(void *user, int64_t version);
    void (*connection)(void *user, const struct baton_error *err);
    void (*failed)(void *user, const struct baton_error *err);
    /* Something of a deposed leader was rejected. May be NULL, as all but `notified`. */
    void (*rejected)(void *user, uint64_t epoch, const struct baton_error *err);
    void *user;
};

BATON_API int baton_subscribe(struct baton_subscription **out, struct baton_client *client,
                              const struct baton_subscribe_options *options,
                              struct baton_error *err);
/* As baton_watch_close. */
BATON_API void baton_subscription_close(struct baton_subscription *subscription);

#ifdef __cplusplus
}
#endif
