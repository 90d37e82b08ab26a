/* The format level in use: who does not speak it does not stand, and a leader raises it once all
 * listed members speak a higher one. */
#include "common/base/check.h"
#include "meta/core/election_parts.h"

bool level_is_spoken(const struct election *e)
{
    struct level_range own = {0};
    level_narrow(&own, &e->cfg.self);
    return !e->level || level_within(&own, e->level);
}

void level_see(struct election *e, uint32_t level)
{
    const struct member_info *self = &e->cfg.self;
    if (!level || level == e->level)
        return;
    e->level = level;
    if (!level_is_spoken(e))
        election_warn(e, err_make(ERR_USAGE,
                                  "the cluster uses format level %u, and this member (version %s) "
                                  "speaks %u to %u: it will not lead; run a version that speaks it",
                                  level, self->version, self->format_min, self->format_max));
}

/* ---- raising it ---- */

/* The highest that everybody speaks, or 0 when that is not above the one in use. */
static uint32_t next_level(const struct election *e)
{
    struct level_range all = e->spoken;
    level_narrow(&all, &e->cfg.self);
    bool higher = e->level && all.max >= all.min && all.max > e->level;
    return higher ? all.max : 0;
}

/* The guard says it all: this leadership's key, the level as it was, and no member record that is
 * newer than what was looked at. So neither a late copy nor a leader who is none any more can raise
 * it above what somebody speaks; and whoever registers later finds the new one, which the takeover
 * compares. */
static void ask_raise(struct election *e, uint32_t level)
{
    char own[KEY_MAX], cluster[KEY_MAX], members[KEY_MAX];
    struct buf value = {0}, end = {0};
    struct fence_txn txn = {0};
    struct cluster next = e->cluster;
    next.format = level;
    cluster_encode(&next, &value);
    struct etcd_compare guard[] = {
        {.target = ETCD_CREATE,
         .relation = ETCD_EQUAL,
         .key = keys_election(own, e->cfg.prefix, e->lease),
         .number = e->create_revision},
        {.target = ETCD_VALUE,
         .relation = ETCD_EQUAL,
         .key = keys_cluster(cluster, e->cfg.prefix),
         .value = record_view(&e->cluster_bytes)},
        {.target = ETCD_MOD,
         .relation = ETCD_LESS,
         .key = keys_members(members, e->cfg.prefix),
         .number = e->spoken_revision + 1},
    };
    bytes_prefix_end(guard[2].key, &end);
    guard[2].range_end = buf_view(&end);
    struct etcd_op put = {.kind = ETCD_OP_PUT, .key = guard[1].key, .value = buf_view(&value)};
    struct etcd_op read = {.kind = ETCD_OP_RANGE, .key = guard[1].key};
    fence_txn_own(&txn, &(struct etcd_txn){.compares = guard,
                                           .compare_count = 3,
                                           .success = &put,
                                           .success_count = 1,
                                           .failure = &read,
                                           .failure_count = 1});
    ask_start_txn(e, &txn);
    buf_close(&value);
    buf_close(&end);
}

/* Once for each view of the members: what a view has brought, a newer one may bring again. */
bool level_advance(struct election *e)
{
    uint32_t level = next_level(e);
    bool may = e->role.state == ROLE_LEADER && e->seat.state == SEAT_LEADING && !e->ask.active;
    if (!may || !level || !e->cluster_bytes.len || e->spoken_revision <= e->raised_revision)
        return false;
    e->raised_revision = e->spoken_revision;
    ask_raise(e, level);
    return true;
}

static bool take_value(struct election *e, struct bytes value)
{
    struct cluster now;
    struct err err = cluster_decode(value, &now);
    if (err_is(&err) || !record_bytes_set(&e->cluster_bytes, value))
        return false;
    e->cluster = now;
    level_see(e, now.format);
    return true;
}

static void take_raise(struct election *e)
{
    uint32_t before = e->level;
    const struct etcd_txn *txn = &e->ask.txn.txn;
    if (take_value(e, txn->success[0].value))
        election_warn(e, err_make(ERR_OK,
                                  "all members speak format level %u: it is in use now, "
                                  "before it was %u",
                                  e->level, before));
}

void level_on_answer(struct election *e, const struct election_event *event)
{
    if (err_is(&event->err)) {
        ask_failed(e, event);
        return;
    }
    PRE(event->result);
    const struct etcd_txn_result *r = event->result;
    if (r->succeeded)
        take_raise(e);
    else if (r->result_count == 1 && r->results[0].count)
        take_value(e, r->results[0].kvs[0].value);
    ask_drop(e);
}
