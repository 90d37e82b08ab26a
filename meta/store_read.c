#include "common/base/check.h"
#include "common/base/mem.h"
#include "meta/store_parts.h"
#include <stdio.h>
#include <stdlib.h>

/* A read transaction that is kept and renewed, so that opening one takes no lock and no memory. */
struct store_snapshot {
    struct store *store;
    MDB_txn *txn;
    MDB_cursor *kv; /* NULL until a range was read */
    bool kv_stale;  /* of an earlier opening */
};

/* Threads begin their search at different places, so that they seldom meet. */
static unsigned first_slot(void)
{
    static atomic_uint threads;
    static _Thread_local unsigned mine;
    if (mine == 0)
        mine = 1 + atomic_fetch_add(&threads, 1);
    return mine;
}

static struct store_snapshot *take_idle(struct store *s)
{
    unsigned first = first_slot();
    for (unsigned i = 0; i < STORE_IDLE_SNAPSHOTS; i++) {
        _Atomic(struct store_snapshot *) *slot = &s->idle[(first + i) % STORE_IDLE_SNAPSHOTS];
        if (!atomic_load_explicit(slot, memory_order_relaxed))
            continue;
        struct store_snapshot *snap = atomic_exchange(slot, NULL);
        if (snap)
            return snap;
    }
    return NULL;
}

struct store_snapshot *store_snapshot_open(struct store *s)
{
    struct store_snapshot *snap = take_idle(s);
    int rc;
    if (snap) {
        rc = mdb_txn_renew(snap->txn);
        snap->kv_stale = true;
    } else {
        snap = mem_alloc(sizeof *snap);
        snap->store = s;
        rc = mdb_txn_begin(s->env, NULL, MDB_RDONLY, &snap->txn);
    }
    if (rc)
        store_die(s, rc);
    return snap;
}

void store_snapshot_close(struct store_snapshot *snap)
{
    if (!snap)
        return;
    struct store *s = snap->store;
    unsigned first = first_slot();
    mdb_txn_reset(snap->txn);
    for (unsigned i = 0; i < STORE_IDLE_SNAPSHOTS; i++) {
        struct store_snapshot *none = NULL;
        if (atomic_compare_exchange_strong(&s->idle[(first + i) % STORE_IDLE_SNAPSHOTS], &none,
                                           snap))
            return;
    }
    store_snapshot_free(snap);
}

void store_snapshot_free(struct store_snapshot *snap)
{
    if (!snap)
        return;
    if (snap->kv)
        mdb_cursor_close(snap->kv);
    mdb_txn_abort(snap->txn);
    free(snap);
}

MDB_txn *store_snapshot_txn(struct store_snapshot *snap)
{
    return snap->txn;
}

/* false: absent. */
static bool look_up(struct store_snapshot *snap, MDB_dbi dbi, MDB_val key, MDB_val *out)
{
    int rc = mdb_get(snap->txn, dbi, &key, out);
    if (rc && rc != MDB_NOTFOUND)
        store_die(snap->store, rc);
    return rc == 0;
}

/* ---- about the whole ---- */

static struct store_head head_of(struct store_snapshot *snap)
{
    struct store_head head;
    int rc = store_get_head(snap->store, snap->txn, &head);
    if (rc)
        store_die(snap->store, rc);
    return head;
}

int64_t store_revision(struct store_snapshot *snap)
{
    return head_of(snap).revision;
}

int64_t store_floor(struct store_snapshot *snap)
{
    return head_of(snap).floor;
}

struct bytes store_record(struct store_snapshot *snap)
{
    MDB_val value;
    return look_up(snap, snap->store->meta, store_name("record"), &value) ? store_bytes(value)
                                                                          : BYTES_NONE;
}

bool store_word(struct store_snapshot *snap, const char *name, char *out, size_t cap)
{
    char full[48];
    MDB_val value;
    snprintf(full, sizeof full, "word/%s", name);
    if (!look_up(snap, snap->store->meta, store_name(full), &value) || value.mv_size >= cap)
        return false;
    memcpy(out, value.mv_data, value.mv_size);
    out[value.mv_size] = 0;
    return true;
}

/* ---- keys ---- */

void store_decode_kv(MDB_val key, MDB_val value, struct etcd_kv *out)
{
    INVARIANT(value.mv_size >= STORE_REVISIONS_BYTES);
    int64_t revisions[3];
    memcpy(revisions, value.mv_data, sizeof revisions);
    *out = (struct etcd_kv){
        .key = store_bytes(key),
        .value = bytes_of((const uint8_t *)value.mv_data + STORE_REVISIONS_BYTES,
                          value.mv_size - STORE_REVISIONS_BYTES),
        .create_revision = revisions[0],
        .mod_revision = revisions[1],
        .version = revisions[2],
    };
}

bool store_get(struct store_snapshot *snap, struct bytes key, struct etcd_kv *out)
{
    MDB_val value;
    if (key.len == 0 || key.len > REQUEST_KEY_MAX)
        return false;
    if (!look_up(snap, snap->store->kv, store_val(key), &value))
        return false;
    store_decode_kv(store_val(key), value, out);
    return true;
}

static MDB_cursor *kv_cursor(struct store_snapshot *snap)
{
    int rc = 0;
    if (!snap->kv)
        rc = mdb_cursor_open(snap->txn, snap->store->kv, &snap->kv);
    else if (snap->kv_stale)
        rc = mdb_cursor_renew(snap->txn, snap->kv);
    if (rc)
        store_die(snap->store, rc);
    snap->kv_stale = false;
    return snap->kv;
}

/* Moves to the first key that is not below `start` (first) or to the next one; false: past the end.
 */
static bool step(struct store_snapshot *snap, MDB_cursor *cursor, struct bytes start, bool first,
                 struct bytes end, MDB_val *key, MDB_val *value)
{
    *key = store_val(start);
    MDB_cursor_op op = !first ? MDB_NEXT : start.len ? MDB_SET_RANGE : MDB_FIRST;
    int rc = mdb_cursor_get(cursor, key, value, op);
    if (rc && rc != MDB_NOTFOUND)
        store_die(snap->store, rc);
    return rc == 0 && (end.len == 0 || bytes_compare(store_bytes(*key), end) < 0);
}

void store_range(struct store_snapshot *snap, struct bytes key, struct bytes end,
                 bool (*visit)(void *arg, const struct etcd_kv *kv), void *arg)
{
    MDB_cursor *cursor = kv_cursor(snap);
    MDB_val at, value;
    struct etcd_kv kv;
    for (bool ok = step(snap, cursor, key, true, end, &at, &value); ok;
         ok = step(snap, cursor, key, false, end, &at, &value)) {
        store_decode_kv(at, value, &kv);
        if (!visit(arg, &kv))
            return;
    }
}

uint64_t store_count(struct store_snapshot *snap, struct bytes key, struct bytes end)
{
    MDB_stat st;
    if (key.len == 0 && end.len == 0 && mdb_stat(snap->txn, snap->store->kv, &st) == 0)
        return st.ms_entries;
    MDB_cursor *cursor = kv_cursor(snap);
    MDB_val at, value;
    uint64_t n = 0;
    for (bool ok = step(snap, cursor, key, true, end, &at, &value); ok;
         ok = step(snap, cursor, key, false, end, &at, &value))
        n++;
    return n;
}

/* ---- request ids ---- */

static void decode_chunk(MDB_val value, int64_t *revision, struct bytes *chunk)
{
    INVARIANT(value.mv_size >= STORE_CHUNK_HEAD_BYTES);
    memcpy(revision, value.mv_data, sizeof *revision);
    *chunk = bytes_of((const uint8_t *)value.mv_data + STORE_CHUNK_HEAD_BYTES,
                      value.mv_size - STORE_CHUNK_HEAD_BYTES);
}

bool store_dedup(struct store_snapshot *snap, struct bytes id, struct dedup_hit *out)
{
    size_t at = 0;
    const struct dedup_place *place;
    while ((place = dedup_index_next(&snap->store->ids, id, &at))) {
        size_t n = place->n;
        struct bytes chunk;
        MDB_val value;
        if (!look_up(snap, snap->store->chunks, store_val(bytes_of(&n, sizeof n)), &value))
            continue;
        decode_chunk(value, &out->revision, &chunk);
        if (dedup_entry_at(chunk, place->offset, &out->entry) && bytes_equal(out->entry.id, id))
            return true;
    }
    return false;
}

static MDB_cursor *open_cursor(struct store_snapshot *snap, MDB_dbi dbi)
{
    MDB_cursor *cursor;
    int rc = mdb_cursor_open(snap->txn, dbi, &cursor);
    if (rc)
        store_die(snap->store, rc);
    return cursor;
}

void store_chunks(struct store_snapshot *snap,
                  void (*visit)(void *arg, const struct dedup_slot *slot), void *arg)
{
    MDB_cursor *cursor = open_cursor(snap, snap->store->chunks);
    MDB_val key, value;
    while (mdb_cursor_get(cursor, &key, &value, MDB_NEXT) == 0) {
        struct dedup_slot slot = {0};
        struct bytes chunk;
        size_t n;
        memcpy(&n, key.mv_data, sizeof n);
        decode_chunk(value, &slot.revision, &chunk);
        slot.n = n;
        slot.ids = dedup_chunk_count(chunk);
        slot.bytes = (uint32_t)chunk.len;
        visit(arg, &slot);
    }
    mdb_cursor_close(cursor);
}

/* ---- history ---- */

void store_history(struct store_snapshot *snap,
                   bool (*visit)(void *arg, struct bytes name, struct bytes value), void *arg)
{
    MDB_cursor *cursor = open_cursor(snap, snap->store->history);
    MDB_val key, value;
    while (mdb_cursor_get(cursor, &key, &value, MDB_PREV) == 0)
        if (!visit(arg, store_bytes(key), store_bytes(value)))
            break;
    mdb_cursor_close(cursor);
}

bool store_history_get(struct store_snapshot *snap, struct bytes name, struct bytes *out)
{
    MDB_val value;
    if (!look_up(snap, snap->store->history, store_val(name), &value))
        return false;
    *out = store_bytes(value);
    return true;
}

/* ---- workers ---- */

bool store_worker(struct store_snapshot *snap, struct bytes key, struct etcd_kv *out)
{
    MDB_val value;
    if (!look_up(snap, snap->store->workers, store_val(key), &value))
        return false;
    store_decode_kv(store_val(key), value, out);
    return true;
}

void store_workers(struct store_snapshot *snap, struct bytes from,
                   bool (*visit)(void *arg, const struct etcd_kv *kv), void *arg)
{
    MDB_cursor *cursor = open_cursor(snap, snap->store->workers);
    MDB_val at, value;
    struct etcd_kv kv;
    for (bool ok = step(snap, cursor, from, true, BYTES_NONE, &at, &value); ok;
         ok = step(snap, cursor, from, false, BYTES_NONE, &at, &value)) {
        store_decode_kv(at, value, &kv);
        if (!visit(arg, &kv))
            break;
    }
    mdb_cursor_close(cursor);
}

/* ---- for a planner ---- */

static bool view_get(void *ctx, struct bytes key, struct etcd_kv *out)
{
    return store_get(ctx, key, out);
}

static void view_range(void *ctx, struct bytes key, struct bytes end,
                       bool (*visit)(void *arg, const struct etcd_kv *kv), void *arg)
{
    store_range(ctx, key, end, visit, arg);
}

static bool view_dedup(void *ctx, struct bytes id, struct dedup_hit *out)
{
    return store_dedup(ctx, id, out);
}

static bool view_worker(void *ctx, struct bytes key, struct etcd_kv *out)
{
    return store_worker(ctx, key, out);
}

struct plan_view store_view(struct store_snapshot *snap)
{
    return (struct plan_view){.ctx = snap,
                              .get = view_get,
                              .range = view_range,
                              .dedup = view_dedup,
                              .worker = view_worker};
}
