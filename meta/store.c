#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "meta/store_boot.h"
#include "meta/store_parts.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define MAP_BYTES_DEFAULT (64ull << 30)

/* ---- errors ---- */

static struct err damaged(const struct store *s, const char *why)
{
    const char *remedy = s->durable
                             ? "it is the only copy: put one in its place that was saved, or "
                               "start with an empty directory and `batonctl import`"
                             : "it is only a copy of what etcd holds: remove it and start "
                               "again";
    return err_make(ERR_CORRUPT, "%s: %s; %s", s->cache_dir, why, remedy);
}

enum { SPARE_BYTES = 1024 * 1024 }; /* less than that is full */

/* Files may grow no more: the limit of this process (ulimit -f), which counts like a full disk. */
static bool file_is_full(const struct store *s)
{
    struct rlimit most;
    struct stat file;
    mdb_filehandle_t fd;
    return getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur != RLIM_INFINITY &&
           mdb_env_get_fd(s->env, &fd) == 0 && fstat(fd, &file) == 0 &&
           (uint64_t)file.st_size + SPARE_BYTES > most.rlim_cur;
}

/* LMDB calls a write that was cut short EIO, and on a full disk that is what the first one is. */
static bool disk_is_full(const struct store *s)
{
    struct statvfs fs;
    return (statvfs(s->cache_dir, &fs) == 0 && (uint64_t)fs.f_bavail * fs.f_frsize < SPARE_BYTES) ||
           (s->env && file_is_full(s));
}

struct err store_err(const struct store *s, int rc, const char *what)
{
    if ((rc == EIO || rc == EFBIG) && disk_is_full(s))
        rc = ENOSPC;
    switch (rc) {
    case 0:
        return OK_ERR;
    case MDB_MAP_FULL:
        return err_make(ERR_NO_SPACE, "%s: cannot %s: the state fills --map-bytes; make it larger",
                        s->cache_dir, what);
    case ENOSPC:
    case EDQUOT:
        return err_make(ERR_NO_SPACE, "%s: cannot %s: the disk is full", s->cache_dir, what);
    case MDB_INVALID:
    case MDB_CORRUPTED:
    case MDB_PAGE_NOTFOUND:
    case MDB_PANIC:
        return damaged(s, "the state is damaged");
    case MDB_VERSION_MISMATCH:
    case MDB_INCOMPATIBLE:
        return damaged(s, "the state was written by another version");
    default:
        return err_make(rc == EACCES || rc == EROFS ? ERR_DENIED : ERR_IO, "%s: cannot %s: %s",
                        s->cache_dir, what, mdb_strerror(rc));
    }
}

void store_die(const struct store *s, int rc)
{
    if (!s->durable)
        store_boot_distrust(s->dir);
    log_error("%s cannot be read (%s)%s", s->cache_dir, mdb_strerror(rc),
              s->durable ? "" : ": it is thrown away at the next start");
    abort();
}

MDB_val store_name(const char *name)
{
    return store_val(bytes_str(name));
}

/* ---- opening ---- */

static void remove_cache(const struct store *s)
{
    static const char *const files[] = {"data.mdb", "lock.mdb"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char *path = mem_printf("%s/%s", s->cache_dir, files[i]);
        if (unlink(path) == 0 && i == 0)
            log_warn("%s: the machine stopped without closing it: thrown away, and loaded anew",
                     s->cache_dir);
        free(path);
    }
}

/* A file that ends before its last page would kill the reader with SIGBUS. */
static struct err check_length(struct store *s)
{
    MDB_envinfo info;
    MDB_stat stat_of;
    struct stat file;
    mdb_filehandle_t fd;
    int rc = mdb_env_info(s->env, &info);
    if (rc == 0)
        rc = mdb_env_stat(s->env, &stat_of);
    if (rc == 0)
        rc = mdb_env_get_fd(s->env, &fd);
    if (rc == 0 && fstat(fd, &file) != 0)
        rc = errno;
    if (rc)
        return store_err(s, rc, "look at it");
    /* An environment that was never written has its meta pages only, or nothing yet. */
    if (info.me_last_pgno > 1 &&
        (uint64_t)file.st_size < (info.me_last_pgno + 1) * stat_of.ms_psize)
        return damaged(s, "the state is cut short");
    return OK_ERR;
}

static struct err open_env(struct store *s, size_t map_bytes)
{
    if (mkdir(s->cache_dir, 0700) != 0 && errno != EEXIST)
        return store_err(s, errno, "make it");
    int rc = mdb_env_create(&s->env);
    if (rc == 0)
        rc = mdb_env_set_mapsize(s->env, map_bytes ? map_bytes : MAP_BYTES_DEFAULT);
    if (rc == 0)
        rc = mdb_env_set_maxdbs(s->env, 5);
    if (rc == 0)
        rc = mdb_env_set_maxreaders(s->env, STORE_READERS_MAX);
    /* No MDB_WRITEMAP: a full disk would come as SIGBUS instead of an error, and the file would be
     * as long as the map. NOTLS lets a snapshot move between threads. */
    if (rc == 0)
        rc = mdb_env_open(s->env, s->cache_dir, MDB_NOTLS | (s->durable ? 0 : MDB_NOSYNC), 0600);
    return rc ? store_err(s, rc, "open it") : check_length(s);
}

static int open_tables(struct store *s, MDB_txn *txn)
{
    int rc = mdb_dbi_open(txn, "kv", MDB_CREATE, &s->kv);
    if (rc == 0)
        rc = mdb_dbi_open(txn, "workers", MDB_CREATE, &s->workers);
    if (rc == 0)
        rc = mdb_dbi_open(txn, "chunks", MDB_CREATE | MDB_INTEGERKEY, &s->chunks);
    if (rc == 0)
        rc = mdb_dbi_open(txn, "history", MDB_CREATE, &s->history);
    if (rc == 0)
        rc = mdb_dbi_open(txn, "meta", MDB_CREATE, &s->meta);
    return rc;
}

/* An empty directory takes our format; another's is left alone. */
static struct err check_format(struct store *s, MDB_txn *txn)
{
    MDB_val key = store_name("format"), value = store_name(STORE_FORMAT), found;
    int rc = mdb_get(txn, s->meta, &key, &found);
    if (rc == MDB_NOTFOUND)
        return store_err(s, mdb_put(txn, s->meta, &key, &value, 0), "start it");
    if (rc)
        return store_err(s, rc, "read its format");
    if (bytes_equal(store_bytes(found), store_bytes(value)))
        return OK_ERR;
    char why[120];
    snprintf(why, sizeof why, "the state has format %.*s, this version has " STORE_FORMAT,
             found.mv_size < 16 ? (int)found.mv_size : 16, (const char *)found.mv_data);
    return damaged(s, why);
}

static struct err open_data(struct store *s)
{
    MDB_txn *txn;
    int rc = mdb_txn_begin(s->env, NULL, 0, &txn);
    if (rc)
        return store_err(s, rc, "begin");
    rc = open_tables(s, txn);
    struct err e = rc ? store_err(s, rc, "open its tables") : check_format(s, txn);
    if (err_is(&e)) {
        mdb_txn_abort(txn);
        return e;
    }
    rc = mdb_txn_commit(txn);
    return rc ? store_err(s, rc, "start it") : store_reindex(s);
}

/* A file is there after a stop of the machine only once its folder is synced, too, and so on up.
 * What is above the data directory may be closed to us; then others made it, before. */
static struct err sync_folders(const struct store *s)
{
    char *parent = mem_printf("%s/..", s->dir);
    const char *const folders[] = {s->cache_dir, s->dir, parent};
    int rc = 0;
    for (size_t i = 0; i < 3 && !rc; i++) {
        rc = file_sync_folder(folders[i]) ? 0 : errno;
        if (folders[i] == parent && rc == EACCES)
            rc = 0;
    }
    free(parent);
    return store_err(s, rc, "sync its folder");
}

/* A cache that may have lost something when the machine stopped is removed. */
static struct err begin_cache(const struct store *s)
{
    if (!store_boot_trusts(s->dir, s->boot_id))
        remove_cache(s);
    return store_boot_mark(s->dir, s->boot_id, false);
}

struct err store_open(struct store **out, const struct store_config *cfg)
{
    struct store *s = mem_alloc(sizeof *s);
    s->dir = mem_strdup(cfg->dir);
    s->durable = cfg->durable;
    s->cache_dir = mem_printf("%s/%s", cfg->dir, s->durable ? "state" : "cache");
    s->state_prefix = bytes_dup(bytes_str(cfg->state_prefix));
    if (cfg->boot_id)
        snprintf(s->boot_id, sizeof s->boot_id, "%s", cfg->boot_id);
    else
        store_boot_id(s->boot_id);
    struct err e = s->durable ? OK_ERR : begin_cache(s);
    if (!err_is(&e))
        e = open_env(s, cfg->map_bytes);
    if (!err_is(&e))
        e = open_data(s);
    if (!err_is(&e) && s->durable)
        e = sync_folders(s);
    if (err_is(&e)) {
        if (s->env)
            mdb_env_close(s->env);
        s->env = NULL;
        store_close(s);
        s = NULL;
    }
    *out = s;
    return e;
}

static void free_snapshots(struct store *s)
{
    for (size_t i = 0; i < STORE_IDLE_SNAPSHOTS; i++)
        store_snapshot_free(atomic_exchange(&s->idle[i], NULL));
}

void store_close(struct store *s)
{
    if (!s)
        return;
    free_snapshots(s);
    if (s->env) {
        bool synced = mdb_env_sync(s->env, 1) == 0;
        mdb_env_close(s->env);
        struct err e = synced && !s->durable ? store_boot_mark(s->dir, s->boot_id, true) : OK_ERR;
        if (err_is(&e))
            log_warn("%s", e.message);
    }
    dedup_index_close(&s->ids);
    ring_draft_close(&s->changes);
    free((void *)s->state_prefix.data);
    free(s->cache_dir);
    free(s->dir);
    free(s);
}

/* ---- words and sizes ---- */

struct err store_set_word(struct store *s, const char *name, const char *value)
{
    char full[48];
    snprintf(full, sizeof full, "word/%s", name);
    MDB_val key = store_name(full), data = store_name(value);
    MDB_txn *txn;
    int rc = mdb_txn_begin(s->env, NULL, 0, &txn);
    if (rc == 0) {
        rc = mdb_put(txn, s->meta, &key, &data, 0);
        if (rc)
            mdb_txn_abort(txn);
        else
            rc = mdb_txn_commit(txn);
    }
    return store_err(s, rc, "write");
}

static uint64_t entries(MDB_txn *txn, MDB_dbi dbi)
{
    MDB_stat st;
    return mdb_stat(txn, dbi, &st) == 0 ? st.ms_entries : 0;
}

void store_size(struct store *s, struct store_size *out)
{
    MDB_envinfo info;
    MDB_stat st;
    struct store_snapshot *snap = store_snapshot_open(s);
    *out = (struct store_size){.keys = entries(store_snapshot_txn(snap), s->kv),
                               .ids = s->id_count,
                               .chunks = entries(store_snapshot_txn(snap), s->chunks)};
    store_snapshot_close(snap);
    if (mdb_env_info(s->env, &info) == 0 && mdb_env_stat(s->env, &st) == 0) {
        out->used_bytes = (uint64_t)(info.me_last_pgno + 1) * st.ms_psize;
        out->map_bytes = info.me_mapsize;
    }
}
