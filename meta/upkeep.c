#include "meta/upkeep.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/base/queue.h"
#include "common/base/thread.h"
#include "common/io/etcd.h"
#include "meta/board.h"
#include "meta/core/compact.h"
#include "meta/core/space.h"
#include "meta/fanout.h"
#include "meta/metrics.h"
#include "meta/replica.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    TICK_MS = 250,
    LOOK_MS = 5000,      /* from one look at etcd's size to the next … */
    LOOK_FULL_MS = 1000, /* … while puts are refused */
    QUOTA_MS = 60000,    /* from asking for the quota to asking again */
    CALL_TIMEOUT_MS = 2000,
    COMPACT_TIMEOUT_MS = 10000,
    COMPACT_PAUSE_MS = 30000, /* after one that did not work */
};

struct upkeep {
    struct upkeep_config cfg;
    struct etcd_client *etcd;
    pthread_t thread;
    struct queue *wakes; /* the items mean nothing */
    _Atomic bool stopping, look;
    /* of the thread */
    struct space space;
    struct compact compact;
    bool led;
    int64_t look_ms, quota_ms; /* when next */
    int64_t quotas[ETCD_MAX_ENDPOINTS];
    struct log_limit full_limit, trouble_limit, foreign_limit;
};

static int a_wake;

void upkeep_look(struct upkeep *u)
{
    if (u && !atomic_exchange(&u->look, true))
        queue_push_always(u->wakes, &a_wake);
}

/* ---- how full etcd is ---- */

static void learn_quotas(struct upkeep *u, int64_t now_ms)
{
    if (now_ms < u->quota_ms)
        return;
    u->quota_ms = now_ms + QUOTA_MS;
    for (int i = 0; i < etcd_endpoint_count(u->etcd); i++) {
        if (u->cfg.quota_bytes) {
            u->quotas[i] = u->cfg.quota_bytes;
            continue;
        }
        int64_t quota;
        struct err e = etcd_learn_quota(u->etcd, i, CALL_TIMEOUT_MS, &quota);
        if (!err_is(&e))
            u->quotas[i] = quota;
        else
            log_limited(&u->trouble_limit, LOG_WARN,
                        "etcd at %s does not tell its quota (--etcd-quota-bytes): %s",
                        etcd_endpoint_url(u->etcd, i), e.message);
    }
}

static bool take_sample(struct upkeep *u, int endpoint, struct space_sample *out)
{
    struct etcd_reply reply;
    struct etcd_status status;
    struct buf body = {0};
    etcd_encode_status(&body);
    struct err e = etcd_call_wait(u->etcd, ETCD_PATH_STATUS, buf_view(&body), endpoint,
                                  CALL_TIMEOUT_MS, &reply);
    if (!err_is(&e))
        e = etcd_decode_status(reply.body, &status);
    if (!err_is(&e))
        *out = (struct space_sample){.quota_bytes = u->quotas[endpoint],
                                     .file_bytes = status.db_bytes,
                                     .used_bytes = status.db_in_use_bytes};
    etcd_reply_close(&reply);
    buf_close(&body);
    return !err_is(&e);
}

static const char *mib(char room[32], int64_t bytes)
{
    snprintf(room, 32, "%.1f", (double)bytes / (1 << 20));
    return room;
}

static struct err why_full(const struct space *s)
{
    char used[32], file[32], quota[32];
    return err_make(ERR_NO_SPACE,
                    "etcd is nearly full: %s MiB in use, a file of %s MiB, a quota of %s MiB. "
                    "Deletes go on; delete, compact and defragment etcd, or raise its "
                    "--quota-backend-bytes",
                    mib(used, s->worst.used_bytes), mib(file, s->worst.file_bytes),
                    mib(quota, s->worst.quota_bytes));
}

static void tell_space(struct upkeep *u, bool was_full, uint64_t written)
{
    struct err e = u->space.full ? why_full(&u->space) : OK_ERR;
    int64_t room = space_room_bytes(&u->space);
    replica_set_space(u->cfg.replica, &e,
                      room == INT64_MAX ? UINT64_MAX : written + (uint64_t)room);
    meta_note_space(u->space.worst.file_bytes, u->space.worst.used_bytes,
                    u->space.worst.quota_bytes, u->space.full);
    if (u->space.full)
        log_limited(&u->full_limit, LOG_ERROR, "puts are refused: %s", e.message);
    else if (was_full)
        log_info("etcd has room again: puts are accepted");
}

/* What was written before the look is in the sample; what comes after it counts against the room.
 */
static void look_at_space(struct upkeep *u, int64_t now_ms)
{
    struct space_sample samples[ETCD_MAX_ENDPOINTS];
    int count = 0;
    bool was_full = u->space.full;
    atomic_store(&u->look, false);
    learn_quotas(u, now_ms);
    uint64_t written = replica_written(u->cfg.replica);
    for (int i = 0; i < etcd_endpoint_count(u->etcd); i++)
        count += take_sample(u, i, &samples[count]);
    space_on_samples(&u->space, samples, count);
    tell_space(u, was_full, written);
    u->look_ms = clock_boot_ms() + (u->space.full ? LOOK_FULL_MS : LOOK_MS);
}

/* ---- compaction ---- */

static struct err has_keys(struct upkeep *u, struct bytes from, struct bytes to, bool *out)
{
    struct etcd_reply reply;
    struct etcd_range_result page = {0};
    struct buf body = {0};
    etcd_encode_range(
        &body,
        &(struct etcd_op){
            .kind = ETCD_OP_RANGE, .key = from, .range_end = to, .limit = 1, .keys_only = true});
    struct err e = etcd_call_wait(u->etcd, ETCD_PATH_RANGE, buf_view(&body), ETCD_ANY,
                                  CALL_TIMEOUT_MS, &reply);
    if (!err_is(&e))
        e = etcd_decode_range(reply.body, &page);
    *out = page.count > 0;
    if (*out)
        log_limited(&u->foreign_limit, LOG_WARN,
                    "etcd is not compacted: it holds keys that are not Baton's, as '%.*s', whose "
                    "history somebody may need; compact it yourself, or start with --compact on",
                    (int)page.kvs[0].key.len, (const char *)page.kvs[0].key.data);
    etcd_range_result_close(&page);
    etcd_reply_close(&reply);
    buf_close(&body);
    return e;
}

/* The history of others is theirs. */
static struct err may_compact(struct upkeep *u, bool *out)
{
    static const struct bytes first = {(const uint8_t *)"\0", 1}; /* as an end: the last key */
    bool before = false, behind = false;
    *out = u->cfg.compact == UPKEEP_COMPACT_ON;
    if (*out)
        return OK_ERR;
    struct err e = has_keys(u, first, bytes_str("/baton/"), &before);
    if (!err_is(&e) && !before)
        e = has_keys(u, bytes_str("/baton0"), first, &behind);
    *out = !err_is(&e) && !before && !behind;
    if (e.code == ERR_DENIED)
        e = err_wrap(e, "its user may not see whether it holds keys that are not Baton's (choose "
                        "--compact on or off)");
    return e;
}

static struct err compact_to(struct upkeep *u, int64_t revision)
{
    struct etcd_reply reply;
    struct buf body = {0};
    etcd_encode_compact(&body, revision);
    struct err e = etcd_call_wait(u->etcd, ETCD_PATH_COMPACT, buf_view(&body), ETCD_ANY,
                                  COMPACT_TIMEOUT_MS, &reply);
    etcd_reply_close(&reply);
    buf_close(&body);
    return e.code == ERR_COMPACTED ? OK_ERR : e; /* somebody else did it */
}

static void compact_if_due(struct upkeep *u, int64_t now_ms, uint64_t written)
{
    struct fanout_load load;
    bool may;
    fanout_load(u->cfg.fanout, &load);
    int64_t revision = compact_due(&u->compact, now_ms, written, load.oldest_revision);
    if (!revision)
        return;
    struct err e = may_compact(u, &may);
    if (!err_is(&e) && may)
        e = compact_to(u, revision);
    if (err_is(&e) || !may) {
        if (err_is(&e))
            log_limited(&u->trouble_limit, LOG_WARN, "cannot compact etcd: %s", e.message);
        compact_failed(&u->compact, clock_boot_ms(), COMPACT_PAUSE_MS);
        return;
    }
    compact_done(&u->compact, now_ms, revision, written);
    meta_note_compacted(revision);
    log_debug("compacted etcd up to revision %lld", (long long)revision);
    u->look_ms = clock_boot_ms(); /* there may be more room now */
}

/* ---- the thread ---- */

static void tend(struct upkeep *u)
{
    struct board_self self;
    int64_t now_ms = clock_boot_ms();
    uint64_t written = replica_written(u->cfg.replica);
    board_self(u->cfg.board, &self);
    bool leads = self.role == ROLE_LEADER;
    if (u->led && !leads)
        meta_note_space(0, 0, 0, false);
    if (self.applied)
        compact_note(&u->compact, now_ms, self.applied, written);
    if (leads && (!u->led || now_ms >= u->look_ms || atomic_load(&u->look)))
        look_at_space(u, now_ms);
    if (leads && u->cfg.compact != UPKEEP_COMPACT_OFF)
        compact_if_due(u, now_ms, written);
    u->led = leads;
}

static void *upkeep_run(void *arg)
{
    struct upkeep *u = arg;
    while (!atomic_load(&u->stopping)) {
        tend(u);
        queue_pop(u->wakes, TICK_MS);
    }
    return NULL;
}

struct err upkeep_start(struct upkeep **out, const struct upkeep_config *cfg)
{
    struct upkeep *u = mem_alloc(sizeof *u);
    u->cfg = *cfg;
    struct err e = etcd_client_new(
        &u->etcd, &(struct etcd_config){.access = *cfg->etcd, .name = "etcd-upkeep"});
    if (err_is(&e)) {
        free(u);
        return e;
    }
    u->wakes = queue_new(1);
    compact_init(&u->compact,
                 &(struct compact_limits){.growth_bytes = cfg->compact_growth_bytes,
                                          .every_ms = cfg->compact_every_ms,
                                          .keep_ms = cfg->compact_keep_ms},
                 clock_boot_ms());
    u->thread = thread_start("upkeep", upkeep_run, u);
    *out = u;
    return OK_ERR;
}

void upkeep_stop(struct upkeep *u)
{
    if (!u)
        return;
    atomic_store(&u->stopping, true);
    queue_push_always(u->wakes, &a_wake);
    pthread_join(u->thread, NULL);
    etcd_client_free(u->etcd);
    queue_free(u->wakes);
    free(u);
}
