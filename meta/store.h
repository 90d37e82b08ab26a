/* The member's copy of the state below `state/`, in LMDB: the applied revision, the commit record
 * and the data move in one transaction. Beside etcd it is a cache: never synced, thrown away when
 * the machine stopped without closing it (see store_boot.h). Without etcd it is the state itself:
 * durable, and never thrown away. One thread writes; snapshots are for any thread. */
#pragma once
#include "common/base/err.h"
#include "common/base/etcd_types.h"
#include "meta/core/dedup.h"
#include "meta/core/plan.h"

struct ring_commit;
struct store;
struct store_snapshot;

struct store_config {
    const char *dir;          /* exists and is the caller's alone: identity_open */
    const char *state_prefix; /* "/baton/<cluster>/state/": keys of events and ops start with it */
    size_t map_bytes;         /* address space that the data may fill; 0: 64 GiB */
    const char *boot_id;      /* of the machine; NULL: the kernel's */
    /* This is the only copy: what is applied is on the disk before the call returns. */
    bool durable;
};

/* NO_SPACE: disk full. CORRUPT names the directory and the remedy: damaged, or another format's.
 * IO: the rest. */
struct err store_open(struct store **out, const struct store_config *cfg);
/* No snapshot is open any more. A store that is closed survives a stop of the machine. */
void store_close(struct store *s);

/* ---- the writer's thread ---- */

/* Applies one revision whole, or not at all. A follower gives the events of the watch, `commit`
 * among them; the leader what its batch wrote, with the bytes of its commit record. PROTOCOL: not
 * newer than what is applied, or a key or chunk that makes no sense. NO_SPACE: the map or the disk
 * is full, and nothing of it was written. IO or CORRUPT of a durable store: the disk failed, what
 * is on it is known only when it is opened again; use the store no more. */
struct err store_apply(struct store *s, int64_t revision, const struct etcd_event *events,
                       size_t count);
struct err store_apply_ops(struct store *s, int64_t revision, const struct etcd_op *ops,
                           size_t count, struct bytes record);

/* What the last apply changed that readers may follow, with one reference; NULL: nothing, or it was
 * taken before. `epoch` is that of the leadership which committed it. */
struct ring_commit *store_take_changes(struct store *s, int64_t revision, uint64_t epoch);

/* Replaces everything by a listing at one revision: begin empties the store (applied revision 0,
 * also after a crash half way), put takes the pages in any order, end sets the revision. Snapshots
 * taken before stay as they are. */
struct err store_load_begin(struct store *s);
struct err store_load_put(struct store *s, const struct etcd_kv *kvs, size_t count);
struct err store_load_end(struct store *s, int64_t revision);

/* Words that are kept with the state, as "cluster"; names of at most 32 bytes. A load keeps them.
 */
enum { STORE_WORD_MAX = 1023 }; /* bytes of a word */
struct err store_set_word(struct store *s, const char *name, const char *value);

/* ---- any thread: what was committed when the snapshot was opened ---- */

/* Cheap: readers are kept and renewed. Close it soon: an open snapshot keeps old pages alive. Used
 * by one thread at a time. */
struct store_snapshot *store_snapshot_open(struct store *s);
void store_snapshot_close(struct store_snapshot *snap);

/* Slices shown by these functions are valid until the snapshot is closed. */
int64_t store_revision(struct store_snapshot *snap);    /* applied; 0: nothing is loaded */
struct bytes store_record(struct store_snapshot *snap); /* value of `commit`; empty: none */
int64_t store_floor(struct store_snapshot *snap);       /* of forgotten request ids */
bool store_word(struct store_snapshot *snap, const char *name, char *out, size_t cap);

bool store_get(struct store_snapshot *snap, struct bytes key, struct etcd_kv *out);
/* From key up to end (empty: to the last), in order, until visit answers false. */
void store_range(struct store_snapshot *snap, struct bytes key, struct bytes end,
                 bool (*visit)(void *arg, const struct etcd_kv *kv), void *arg);
uint64_t store_count(struct store_snapshot *snap, struct bytes key, struct bytes end);

/* What stands below workers/, under its key there (worker.h); all of it from a key on, in order,
 * until visit answers false. */
bool store_worker(struct store_snapshot *snap, struct bytes key, struct etcd_kv *out);
void store_workers(struct store_snapshot *snap, struct bytes from,
                   bool (*visit)(void *arg, const struct etcd_kv *kv), void *arg);

/* Only on the writer's thread, and only on a snapshot opened after its last change: the ids are
 * found by an index in memory. */
bool store_dedup(struct store_snapshot *snap, struct bytes id, struct dedup_hit *out);
/* Every chunk in the order of n, as a new leader takes them over; seen_ms is 0. */
void store_chunks(struct store_snapshot *snap,
                  void (*visit)(void *arg, const struct dedup_slot *slot), void *arg);
/* `history/<name>` -> value, newest first, until visit answers false. */
void store_history(struct store_snapshot *snap,
                   bool (*visit)(void *arg, struct bytes name, struct bytes value), void *arg);
bool store_history_get(struct store_snapshot *snap, struct bytes name, struct bytes *out);

/* The functions above as a planner looks at them, but for the table of workers; valid until the
 * snapshot is closed. */
struct plan_view store_view(struct store_snapshot *snap);

/* For metrics. */
struct store_size {
    uint64_t keys, ids, chunks;
    uint64_t used_bytes, map_bytes;
};
void store_size(struct store *s, struct store_size *out);
