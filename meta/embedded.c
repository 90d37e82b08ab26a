#include "meta/embedded.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "meta/core/alone.h"
#include "meta/core/keys.h"
#include "meta/store.h"
#include <stdio.h>
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

struct err embedded_take_over(struct store *store, const char *prefix,
                              const struct member_info *self, const struct cluster *cluster,
                              const char *reason, struct leadership *out)
{
    struct alone_takeover takeover;
    struct record last;
    struct rng rng;
    struct buf entry = {0};
    char entry_key[KEY_MAX], oldest_key[KEY_MAX];
    int64_t revision;
    struct err e = read_last(store, &last, &revision);
    if (err_is(&e))
        return e;
    rng_seed_os(&rng);
    alone_take_over(&takeover, cluster, &last, revision, self, reason, &rng);
    takeover.history.started_unix_ms = clock_unix_ms();
    history_encode(&takeover.history, &entry);
    uint64_t epoch = takeover.next.epoch;
    const struct etcd_op ops[] = {
        {.kind = ETCD_OP_PUT,
         .key = keys_history(entry_key, prefix, epoch),
         .value = buf_view(&entry)},
        {.kind = ETCD_OP_DELETE,
         .key = keys_history(oldest_key, prefix, epoch > HISTORY_KEPT ? epoch - HISTORY_KEPT : 0)}};
    hand_over(out, prefix, &takeover.next, revision + 1);
    e = store_apply_ops(store, revision + 1, ops, 2, record_view(&out->takeover));
    buf_close(&entry);
    return e;
}
