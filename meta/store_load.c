#include "meta/store_parts.h"

static int begin(struct store *s, MDB_txn **txn)
{
    *txn = NULL;
    return mdb_txn_begin(s->env, NULL, 0, txn);
}

static int finish(MDB_txn *txn, int rc)
{
    if (rc == 0)
        return mdb_txn_commit(txn);
    if (txn)
        mdb_txn_abort(txn);
    return rc;
}

static int empty_tables(struct store *s, MDB_txn *txn)
{
    MDB_val record = store_name("record");
    int rc = mdb_drop(txn, s->kv, 0);
    if (rc == 0)
        rc = mdb_drop(txn, s->workers, 0);
    if (rc == 0)
        rc = mdb_drop(txn, s->chunks, 0);
    if (rc == 0)
        rc = mdb_drop(txn, s->history, 0);
    if (rc == 0) {
        rc = mdb_del(txn, s->meta, &record, NULL);
        rc = rc == MDB_NOTFOUND ? 0 : rc;
    }
    return rc ? rc : store_put_head(s, txn, &(struct store_head){0});
}

struct err store_load_begin(struct store *s)
{
    MDB_txn *txn;
    int rc = begin(s, &txn);
    rc = finish(txn, rc ? rc : empty_tables(s, txn));
    if (rc)
        return store_err(s, rc, "empty it");
    dedup_index_close(&s->ids);
    s->id_count = 0;
    return OK_ERR;
}

static int load_meta(struct store *s, MDB_txn *txn, const struct store_key *to,
                     const struct etcd_kv *kv)
{
    struct store_head head;
    uint64_t floor;
    if (to->place == STORE_COMMIT) {
        MDB_val key = store_name("record"), value = store_val(kv->value);
        return mdb_put(txn, s->meta, &key, &value, 0);
    }
    int rc = store_get_head(s, txn, &head);
    if (rc || !dedup_number_decode(kv->value, &floor) || floor > INT64_MAX)
        return rc ? rc : MDB_BAD_VALSIZE;
    head.floor = (int64_t)floor;
    return store_put_head(s, txn, &head);
}

/* A page of a listing on its way into the tables that have a cursor. */
struct load {
    MDB_txn *txn;
    MDB_cursor *kv, *workers;
};

static int load_one(struct store *s, const struct load *l, const struct etcd_kv *kv)
{
    MDB_txn *txn = l->txn;
    struct store_key to;
    if (!store_route(s, kv->key, &to))
        return MDB_BAD_VALSIZE;
    switch (to.place) {
    case STORE_COMMIT:
    case STORE_FLOOR:
        return load_meta(s, txn, &to, kv);
    case STORE_KV:
        return store_put_kv(s, l->kv, to.rest, kv);
    case STORE_WORKER:
        return store_put_kv(s, l->workers, to.rest, kv);
    case STORE_HISTORY: {
        MDB_val key = store_val(to.rest), value = store_val(kv->value);
        return mdb_put(txn, s->history, &key, &value, 0);
    }
    case STORE_CHUNK:
        return dedup_chunk_valid(kv->value)
                   ? store_put_chunk(s, txn, to.n, kv->mod_revision, kv->value)
                   : MDB_BAD_VALSIZE;
    case STORE_FOREIGN:
        return 0;
    }
    return 0;
}

struct err store_load_put(struct store *s, const struct etcd_kv *kvs, size_t count)
{
    struct load l = {0};
    size_t i = 0;
    int rc = begin(s, &l.txn);
    if (rc == 0)
        rc = mdb_cursor_open(l.txn, s->kv, &l.kv);
    if (rc == 0)
        rc = mdb_cursor_open(l.txn, s->workers, &l.workers);
    for (; i < count && rc == 0; i++)
        rc = load_one(s, &l, &kvs[i]);
    if (l.kv)
        mdb_cursor_close(l.kv);
    if (l.workers)
        mdb_cursor_close(l.workers);
    rc = finish(l.txn, rc);
    if (rc == MDB_BAD_VALSIZE && i > 0)
        return err_make(ERR_PROTOCOL, "key %.*s: its value makes no sense",
                        kvs[i - 1].key.len < 120 ? (int)kvs[i - 1].key.len : 120,
                        (const char *)kvs[i - 1].key.data);
    return store_err(s, rc, "load the state");
}

struct err store_load_end(struct store *s, int64_t revision)
{
    MDB_txn *txn;
    struct store_head head;
    int rc = begin(s, &txn);
    if (rc == 0)
        rc = store_get_head(s, txn, &head);
    head.revision = revision;
    return store_err(s, finish(txn, rc ? rc : store_put_head(s, txn, &head)), "end the load");
}
