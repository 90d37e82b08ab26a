#include "meta/store_parts.h"
#include <stdlib.h>

/* ---- where keys go ---- */

bool store_route(const struct store *s, struct bytes key, struct store_key *out)
{
    static const struct {
        const char *folder;
        enum store_place place;
    } folders[] = {{"kv/", STORE_KV},
                   {"workers/", STORE_WORKER},
                   {"history/", STORE_HISTORY},
                   {"dedup/", STORE_CHUNK}};
    *out = (struct store_key){.place = STORE_FOREIGN};
    if (!bytes_starts_with(key, s->state_prefix))
        return false;
    key = bytes_of(key.data + s->state_prefix.len, key.len - s->state_prefix.len);
    if (bytes_equal(key, bytes_str("commit")))
        out->place = STORE_COMMIT;
    else if (bytes_equal(key, bytes_str("dedup/floor")))
        out->place = STORE_FLOOR;
    for (size_t i = 0; i < 4 && out->place == STORE_FOREIGN; i++) {
        struct bytes folder = bytes_str(folders[i].folder);
        if (!bytes_starts_with(key, folder))
            continue;
        out->rest = bytes_of(key.data + folder.len, key.len - folder.len);
        if (out->rest.len == 0 || out->rest.len > REQUEST_KEY_MAX)
            break;
        if (folders[i].place != STORE_CHUNK || dedup_number_decode(out->rest, &out->n))
            out->place = folders[i].place;
    }
    return true;
}

/* ---- single records ---- */

int store_get_head(struct store *s, MDB_txn *txn, struct store_head *out)
{
    MDB_val key = store_name("head"), value;
    *out = (struct store_head){0};
    int rc = mdb_get(txn, s->meta, &key, &value);
    if (rc == 0 && value.mv_size != sizeof *out)
        return MDB_CORRUPTED;
    if (rc == 0)
        memcpy(out, value.mv_data, sizeof *out);
    return rc == MDB_NOTFOUND ? 0 : rc;
}

int store_put_head(struct store *s, MDB_txn *txn, const struct store_head *head)
{
    MDB_val key = store_name("head"), value = {.mv_size = sizeof *head, .mv_data = (void *)head};
    return mdb_put(txn, s->meta, &key, &value, 0);
}

static int put_reserved(MDB_cursor *cursor, MDB_val key, struct bytes head, struct bytes body,
                        unsigned flags)
{
    MDB_val space = {.mv_size = head.len + body.len};
    int rc = mdb_cursor_put(cursor, &key, &space, MDB_RESERVE | flags);
    if (rc)
        return rc;
    memcpy(space.mv_data, head.data, head.len);
    if (body.len)
        memcpy((uint8_t *)space.mv_data + head.len, body.data, body.len);
    return 0;
}

int store_put_kv(struct store *s, MDB_cursor *cursor, struct bytes key, const struct etcd_kv *kv)
{
    const int64_t revisions[3] = {kv->create_revision, kv->mod_revision, kv->version};
    return put_reserved(cursor, store_val(key), bytes_of(revisions, sizeof revisions), kv->value,
                        0);
}

/* Takes the chunk's ids out of the index, when there is such a chunk. */
static int forget_chunk(struct store *s, MDB_txn *txn, MDB_val key, uint64_t n)
{
    MDB_val old;
    s->ids_ahead = true;
    int rc = mdb_get(txn, s->chunks, &key, &old);
    if (rc == 0)
        dedup_index_remove(&s->ids, n,
                           bytes_of((const uint8_t *)old.mv_data + STORE_CHUNK_HEAD_BYTES,
                                    old.mv_size - STORE_CHUNK_HEAD_BYTES));
    return rc == MDB_NOTFOUND ? 0 : rc;
}

int store_put_chunk(struct store *s, MDB_txn *txn, uint64_t n, int64_t revision, struct bytes chunk)
{
    size_t number = n;
    MDB_val key = store_val(bytes_of(&number, sizeof number));
    int rc = forget_chunk(s, txn, key, n);
    if (rc)
        return rc;
    MDB_val space = {.mv_size = STORE_CHUNK_HEAD_BYTES + chunk.len};
    rc = mdb_put(txn, s->chunks, &key, &space, MDB_RESERVE);
    if (rc)
        return rc;
    memcpy(space.mv_data, &revision, STORE_CHUNK_HEAD_BYTES);
    memcpy((uint8_t *)space.mv_data + STORE_CHUNK_HEAD_BYTES, chunk.data, chunk.len);
    dedup_index_add(&s->ids, n, chunk);
    s->id_count = s->ids.count;
    return 0;
}

static int delete_chunk(struct store *s, MDB_txn *txn, uint64_t n)
{
    size_t number = n;
    MDB_val key = store_val(bytes_of(&number, sizeof number));
    int rc = forget_chunk(s, txn, key, n);
    s->id_count = s->ids.count;
    if (rc == 0)
        rc = mdb_del(txn, s->chunks, &key, NULL);
    return rc == MDB_NOTFOUND ? 0 : rc;
}

struct err store_reindex(struct store *s)
{
    MDB_txn *txn;
    MDB_cursor *cursor = NULL;
    MDB_val key, value;
    dedup_index_close(&s->ids);
    int rc = mdb_txn_begin(s->env, NULL, MDB_RDONLY, &txn);
    if (rc)
        return store_err(s, rc, "begin");
    rc = mdb_cursor_open(txn, s->chunks, &cursor);
    while (rc == 0 && (rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) == 0) {
        size_t n;
        memcpy(&n, key.mv_data, sizeof n);
        dedup_index_add(&s->ids, n,
                        bytes_of((const uint8_t *)value.mv_data + STORE_CHUNK_HEAD_BYTES,
                                 value.mv_size - STORE_CHUNK_HEAD_BYTES));
    }
    if (cursor)
        mdb_cursor_close(cursor);
    mdb_txn_abort(txn);
    s->id_count = s->ids.count;
    s->ids_ahead = false;
    return store_err(s, rc == MDB_NOTFOUND ? 0 : rc, "read its request ids");
}

/* ---- one revision ---- */

/* Keys that readers follow, with their revisions. */
struct table {
    MDB_dbi dbi;
    const char *folder; /* below state/ */
    MDB_cursor *cursor; /* opened when it is needed */
};

struct apply {
    struct store *s;
    MDB_txn *txn;
    struct table kv, workers;
    struct store_head head; /* as it will be */
};

static struct err failed(const struct apply *a, int rc)
{
    return store_err(a->s, rc, "apply a commit");
}

static struct err senseless(struct bytes key, const char *why)
{
    return err_make(ERR_PROTOCOL, "key %.*s: %s", key.len < 120 ? (int)key.len : 120,
                    (const char *)key.data, why);
}

static int open_table(const struct apply *a, struct table *t)
{
    return t->cursor ? 0 : mdb_cursor_open(a->txn, t->dbi, &t->cursor);
}

/* Revisions follow from what is there: a key changes once in a commit. etcd's own, when they came
 * with the event, must be the same, or this copy has gone astray. */
static struct err put_kv(struct apply *a, struct table *into, struct bytes key,
                         const struct etcd_kv *said)
{
    MDB_val at = store_val(key), old;
    struct etcd_kv kv = {.value = said->value,
                         .create_revision = a->head.revision,
                         .mod_revision = a->head.revision,
                         .version = 1};
    int rc = open_table(a, into);
    if (rc)
        return failed(a, rc);
    rc = mdb_cursor_get(into->cursor, &at, &old, MDB_SET);
    if (rc == 0) {
        struct etcd_kv before;
        store_decode_kv(at, old, &before);
        kv.create_revision = before.create_revision;
        kv.version = before.version + 1;
    } else if (rc != MDB_NOTFOUND) {
        return failed(a, rc);
    }
    if (said->version &&
        (said->version != kv.version || said->create_revision != kv.create_revision))
        return senseless(said->key, "its version is not the one that follows from the copy");
    ring_draft_add(&a->s->changes, into->folder, key, &kv);
    return failed(a, store_put_kv(a->s, into->cursor, key, &kv));
}

static struct err delete_kv(struct apply *a, const struct table *from, struct bytes key)
{
    MDB_val at = store_val(key);
    int rc = mdb_del(a->txn, from->dbi, &at, NULL);
    if (rc == 0)
        ring_draft_add(&a->s->changes, from->folder, key, NULL);
    return failed(a, rc == MDB_NOTFOUND ? 0 : rc);
}

static struct err delete_kv_range(struct apply *a, struct bytes start, struct bytes end)
{
    MDB_val key = store_val(start), value;
    struct table *from = &a->kv;
    int rc = open_table(a, from);
    if (rc == 0)
        rc = mdb_cursor_get(from->cursor, &key, &value, start.len ? MDB_SET_RANGE : MDB_FIRST);
    while (rc == 0 && (end.len == 0 || bytes_compare(store_bytes(key), end) < 0)) {
        ring_draft_add(&a->s->changes, from->folder, store_bytes(key), NULL);
        rc = mdb_cursor_del(from->cursor, 0);
        if (rc == 0)
            rc = mdb_cursor_get(from->cursor, &key, &value, MDB_NEXT);
    }
    return failed(a, rc == MDB_NOTFOUND ? 0 : rc);
}

static struct err put_meta(struct apply *a, const char *name, struct bytes value)
{
    MDB_val key = store_name(name), data = store_val(value);
    return failed(a, mdb_put(a->txn, a->s->meta, &key, &data, 0));
}

static struct err put_floor(struct apply *a, const struct etcd_kv *kv)
{
    uint64_t floor;
    if (!dedup_number_decode(kv->value, &floor) || floor > INT64_MAX)
        return senseless(kv->key, "no revision");
    a->head.floor = (int64_t)floor;
    return OK_ERR;
}

static struct err apply_put(struct apply *a, const struct etcd_kv *kv)
{
    struct store_key to;
    if (!store_route(a->s, kv->key, &to))
        return senseless(kv->key, "not below the state's prefix");
    switch (to.place) {
    case STORE_COMMIT:
        return put_meta(a, "record", kv->value);
    case STORE_KV:
        return put_kv(a, &a->kv, to.rest, kv);
    case STORE_WORKER:
        return put_kv(a, &a->workers, to.rest, kv);
    case STORE_HISTORY: {
        MDB_val key = store_val(to.rest), value = store_val(kv->value);
        return failed(a, mdb_put(a->txn, a->s->history, &key, &value, 0));
    }
    case STORE_CHUNK:
        if (!dedup_chunk_valid(kv->value))
            return senseless(kv->key, "no chunk of request ids");
        return failed(a, store_put_chunk(a->s, a->txn, to.n, a->head.revision, kv->value));
    case STORE_FLOOR:
        return put_floor(a, kv);
    case STORE_FOREIGN:
        return OK_ERR;
    }
    return OK_ERR;
}

static struct err apply_delete(struct apply *a, struct bytes full_key)
{
    struct store_key from;
    if (!store_route(a->s, full_key, &from))
        return senseless(full_key, "not below the state's prefix");
    switch (from.place) {
    case STORE_KV:
        return delete_kv(a, &a->kv, from.rest);
    case STORE_WORKER:
        return delete_kv(a, &a->workers, from.rest);
    case STORE_HISTORY: {
        MDB_val key = store_val(from.rest);
        int rc = mdb_del(a->txn, a->s->history, &key, NULL);
        return failed(a, rc == MDB_NOTFOUND ? 0 : rc);
    }
    case STORE_CHUNK:
        return failed(a, delete_chunk(a->s, a->txn, from.n));
    case STORE_COMMIT:
        return put_meta(a, "record", BYTES_NONE);
    case STORE_FLOOR:
        a->head.floor = 0;
        return OK_ERR;
    case STORE_FOREIGN:
        return OK_ERR;
    }
    return OK_ERR;
}

/* Only keys of users are deleted by ranges. */
static struct err apply_delete_range(struct apply *a, const struct etcd_op *op)
{
    size_t skip = a->s->state_prefix.len + 3;
    struct store_key start, end;
    if (op->key.len < skip || !store_route(a->s, op->key, &start) ||
        !store_route(a->s, op->range_end, &end) || memcmp(op->key.data + skip - 3, "kv/", 3) != 0)
        return senseless(op->key, "no range of user keys");
    return delete_kv_range(a, bytes_of(op->key.data + skip, op->key.len - skip),
                           end.place == STORE_KV ? end.rest : BYTES_NONE);
}

static struct err apply_op(struct apply *a, const struct etcd_op *op)
{
    if (op->kind == ETCD_OP_PUT)
        return apply_put(a, &(struct etcd_kv){.key = op->key, .value = op->value});
    return op->range_end.len ? apply_delete_range(a, op) : apply_delete(a, op->key);
}

static struct err apply_begin(struct apply *a, struct store *s, int64_t revision)
{
    *a = (struct apply){.s = s,
                        .kv = {.dbi = s->kv, .folder = "kv/"},
                        .workers = {.dbi = s->workers, .folder = "workers/"}};
    ring_draft_clear(&s->changes);
    int rc = mdb_txn_begin(s->env, NULL, 0, &a->txn);
    if (rc)
        return failed(a, rc);
    rc = store_get_head(s, a->txn, &a->head);
    if (rc)
        return failed(a, rc);
    if (revision <= a->head.revision)
        return err_make(ERR_PROTOCOL, "revision %lld is not newer than what is applied (%lld)",
                        (long long)revision, (long long)a->head.revision);
    a->head.revision = revision;
    return OK_ERR;
}

/* LMDB writes nothing any more once it could not tell whether its last page of all arrived. */
static struct err commit(struct apply *a)
{
    struct err e = failed(a, mdb_txn_commit(a->txn));
    MDB_txn *next;
    if (!err_is(&e) || !a->s->durable)
        return e;
    int rc = mdb_txn_begin(a->s->env, NULL, 0, &next);
    if (rc == 0)
        mdb_txn_abort(next);
    return rc ? err_make(ERR_IO, "%s: the disk failed: %s", a->s->cache_dir, e.message) : e;
}

/* Commits, or undoes everything when e says so. */
static struct err apply_end(struct apply *a, struct err e)
{
    if (a->kv.cursor)
        mdb_cursor_close(a->kv.cursor);
    if (a->workers.cursor)
        mdb_cursor_close(a->workers.cursor);
    if (a->txn && !err_is(&e))
        e = failed(a, store_put_head(a->s, a->txn, &a->head));
    if (a->txn && !err_is(&e))
        e = commit(a);
    else if (a->txn)
        mdb_txn_abort(a->txn);
    if (err_is(&e) && a->s->ids_ahead) {
        struct err again = store_reindex(a->s);
        return err_is(&again) ? again : e;
    }
    a->s->ids_ahead = false;
    return e;
}

struct err store_apply(struct store *s, int64_t revision, const struct etcd_event *events,
                       size_t count)
{
    struct apply a;
    struct err e = apply_begin(&a, s, revision);
    for (size_t i = 0; i < count && !err_is(&e); i++)
        e = events[i].deleted ? apply_delete(&a, events[i].kv.key) : apply_put(&a, &events[i].kv);
    return apply_end(&a, e);
}

struct err store_apply_ops(struct store *s, int64_t revision, const struct etcd_op *ops,
                           size_t count, struct bytes record)
{
    struct apply a;
    struct err e = apply_begin(&a, s, revision);
    for (size_t i = 0; i < count && !err_is(&e); i++)
        e = apply_op(&a, &ops[i]);
    if (!err_is(&e))
        e = put_meta(&a, "record", record);
    return apply_end(&a, e);
}

struct ring_commit *store_take_changes(struct store *s, int64_t revision, uint64_t epoch)
{
    return ring_draft_take(&s->changes, revision, epoch);
}
