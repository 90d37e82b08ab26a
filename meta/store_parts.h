/* Inside of the store; the only header that knows LMDB.
 *
 * Databases: kv (key -> revisions, value), workers (the same), chunks (n -> revision, chunk),
 * history (name -> value), meta: "format", "head" (applied revision, floor), "record" (value of
 * `commit`), "word/<name>". */
#pragma once
#include "meta/core/dedup_index.h"
#include "meta/core/ring.h"
#include "meta/store.h"
#include <lmdb.h>
#include <stdatomic.h>

enum {
    STORE_IDLE_SNAPSHOTS = 64,
    STORE_READERS_MAX = 1024,
    STORE_REVISIONS_BYTES = 24, /* in front of a value: create, mod, version */
    STORE_CHUNK_HEAD_BYTES = 8, /* in front of a chunk: its revision */
};
#define STORE_FORMAT "1"

struct store {
    char *dir, *cache_dir;
    bool durable;
    struct bytes state_prefix; /* owned */
    char boot_id[64];
    MDB_env *env;
    MDB_dbi kv, workers, chunks, history, meta;
    struct dedup_index ids;    /* the writer's */
    bool ids_ahead;            /* of what is committed */
    _Atomic uint64_t id_count; /* as metrics see it */
    struct ring_draft changes; /* of the apply that is under way, or was the last; the writer's */
    _Atomic(struct store_snapshot *) idle[STORE_IDLE_SNAPSHOTS];
};

struct store_head {
    int64_t revision, floor;
};

static inline MDB_val store_val(struct bytes s)
{
    return (MDB_val){.mv_size = s.len, .mv_data = (void *)s.data};
}
static inline struct bytes store_bytes(MDB_val v)
{
    return bytes_of(v.mv_data, v.mv_size);
}
MDB_val store_name(const char *name);

/* What LMDB's code means; `what` was being done. */
struct err store_err(const struct store *s, int rc, const char *what);
/* A snapshot that cannot be read: a cache is distrusted and the process ends, because nothing it
 * would answer from here on could be right. */
_Noreturn void store_die(const struct store *s, int rc);

/* store_apply.c */
int store_get_head(struct store *s, MDB_txn *txn, struct store_head *out); /* zeros when absent */
int store_put_head(struct store *s, MDB_txn *txn, const struct store_head *head);
int store_put_kv(struct store *s, MDB_cursor *cursor, struct bytes key, const struct etcd_kv *kv);
int store_put_chunk(struct store *s, MDB_txn *txn, uint64_t n, int64_t revision,
                    struct bytes chunk);
/* Builds the index of ids anew from what is committed. */
struct err store_reindex(struct store *s);

/* Where a key below state/ is kept. */
enum store_place {
    STORE_FOREIGN, /* nowhere: of no meaning to this version */
    STORE_COMMIT,
    STORE_KV,
    STORE_WORKER, /* a key below workers/ */
    STORE_HISTORY,
    STORE_CHUNK,
    STORE_FLOOR,
};
struct store_key {
    enum store_place place;
    struct bytes rest; /* user key, or name */
    uint64_t n;        /* of a chunk */
};
/* false: not below state/. */
bool store_route(const struct store *s, struct bytes key, struct store_key *out);

/* store_read.c */
void store_snapshot_free(struct store_snapshot *snap); /* for good; NULL does nothing */
MDB_txn *store_snapshot_txn(struct store_snapshot *snap);
void store_decode_kv(MDB_val key, MDB_val value, struct etcd_kv *out);
