#include "meta/embedded.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "meta/core/alone.h"
#include "meta/core/keys.h"
#include "meta/store.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLUSTER_WORD "cluster"

/* ---- the cluster ---- */

static struct err write_cluster(struct store *store, const struct cluster *cluster)
{
    struct buf text = {0};
    cluster_encode(cluster, &text);
    buf_byte(&text, 0);
    struct err e = store_set_word(store, CLUSTER_WORD, (const char *)text.data);
    buf_close(&text);
    return e;
}

static struct err begin_cluster(struct store *store, struct cluster *out)
{
    struct rng rng;
    char id[CLUSTER_ID_DIGITS + 1];
    rng_seed_os(&rng);
    rng_hex(&rng, id, CLUSTER_ID_DIGITS);
    cluster_begin(out, id);
    return write_cluster(store, out);
}

struct err embedded_cluster(struct store *store, const char *known_id, struct cluster *out)
{
    char text[STORE_WORD_MAX + 1];
    struct store_snapshot *snap = store_snapshot_open(store);
    bool there = store_word(snap, CLUSTER_WORD, text, sizeof text);
    store_snapshot_close(snap);
    if (there)
        return cluster_decode(bytes_str(text), out);
    if (known_id[0])
        return err_make(ERR_CORRUPT,
                        "the state of cluster %s is gone from its directory: put back what was "
                        "saved, or start with an empty directory and `batonctl import`",
                        known_id);
    return begin_cluster(store, out);
}

struct err embedded_raise(struct store *store, uint64_t above, struct cluster *out)
{
    struct err e = embedded_cluster(store, "", out);
    if (!err_is(&e) && cluster_raise(out, above))
        e = write_cluster(store, out);
    return e;
}

/* ---- leading ---- */

static struct err read_last(struct store *store, struct record *last, int64_t *revision)
{
    struct store_snapshot *snap = store_snapshot_open(store);
    struct bytes bytes = store_record(snap);
    *last = (struct record){0};
    *revision = store_revision(snap);
    struct err e = bytes.len ? record_decode(bytes, last) : OK_ERR;
    store_snapshot_close(snap);
    return e;
}

static void hand_over(struct leadership *out, const char *prefix, const struct record *record,
                      int64_t revision)
{
    *out = (struct leadership){.epoch = record->epoch,
                               .takeover_revision = revision,
                               .ttl_ms = EMBEDDED_TTL_MS,
                               .first_attempt_ms = clock_boot_ms()};
    snprintf(out->seat.prefix, sizeof out->seat.prefix, "%s", prefix);
    memcpy(out->nonce, record->nonce, sizeof out->nonce);
    memcpy(out->leader, record->leader, sizeof out->leader);
    record_bytes_encode(&out->takeover, record);
}

/* What a takeover changes: its own entry of the history, and those that are no longer kept. There
 * are many of them when the epoch lies far above the one before it. */
struct changes {
    const char *prefix;
    uint64_t epoch;
    struct etcd_op *ops; /* each owns its key */
    size_t count;
};

static void change_history(struct changes *c, enum etcd_op_kind kind, uint64_t epoch,
                           struct bytes value)
{
    char room[KEY_MAX];
    struct bytes key = keys_history(room, c->prefix, epoch);
    c->ops = mem_resize(c->ops, (c->count + 1) * sizeof *c->ops);
    key.data = mem_dup(key.data, key.len);
    c->ops[c->count++] = (struct etcd_op){.kind = kind, .key = key, .value = value};
}

static bool drop_outdated(void *arg, struct bytes name, struct bytes value)
{
    struct changes *c = arg;
    uint64_t epoch;
    (void)value;
    if (keys_rest_number(name, BYTES_NONE, &epoch) && epoch + HISTORY_KEPT <= c->epoch)
        change_history(c, ETCD_OP_DELETE, epoch, BYTES_NONE);
    return true;
}

static struct err apply_takeover(struct store *store, const char *prefix, int64_t revision,
                                 const struct alone_takeover *takeover, struct bytes record)
{
    struct changes c = {.prefix = prefix, .epoch = takeover->next.epoch};
    struct buf entry = {0};
    history_encode(&takeover->history, &entry);
    change_history(&c, ETCD_OP_PUT, c.epoch, buf_view(&entry));
    struct store_snapshot *snap = store_snapshot_open(store);
    store_history(snap, drop_outdated, &c);
    store_snapshot_close(snap);
    struct err e = store_apply_ops(store, revision, c.ops, c.count, record);
    for (size_t i = 0; i < c.count; i++)
        free((void *)c.ops[i].key.data);
    free(c.ops);
    buf_close(&entry);
    return e;
}

struct err embedded_take_over(struct store *store, const char *prefix,
                              const struct member_info *self, const struct cluster *cluster,
                              const char *reason, struct leadership *out)
{
    struct alone_takeover takeover;
    struct record last;
    struct rng rng;
    int64_t revision;
    struct err e = read_last(store, &last, &revision);
    if (err_is(&e))
        return e;
    rng_seed_os(&rng);
    alone_take_over(&takeover, cluster, &last, revision, self, reason, &rng);
    takeover.history.started_unix_ms = clock_unix_ms();
    hand_over(out, prefix, &takeover.next, revision + 1);
    return apply_takeover(store, prefix, revision + 1, &takeover, record_view(&out->takeover));
}
