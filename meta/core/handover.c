#include "meta/core/handover.h"
#include "common/base/check.h"
#include <stdio.h>

/* Why this member cannot take over at once; OK when it can. */
static struct err why_not(const struct handover_view *view, const struct handover_member *m)
{
    if (!m->place)
        return err_make(ERR_NO_TARGET, "member %s is not in line for the leadership", m->id);
    if (!m->reported || m->report_age_ms > HANDOVER_REPORT_AGE_MS)
        return err_make(ERR_NO_TARGET,
                        "member %s has not reported lately how far its replica is: ask again in a "
                        "second",
                        m->id);
    if (m->lag > HANDOVER_LAG_MAX)
        return err_make(ERR_NO_TARGET, "member %s is not caught up: it lacks %lld revisions", m->id,
                        (long long)m->lag);
    if (view->foreign_place && view->foreign_place < m->place)
        return err_make(ERR_NO_TARGET,
                        "before member %s a candidate is in line that is no member of this cluster",
                        m->id);
    return OK_ERR;
}

static bool is_self(const struct handover_view *view, const struct handover_member *m)
{
    return strcmp(m->id, view->self_id) == 0;
}

static const struct handover_member *find(const struct handover_view *view, const char *id)
{
    for (size_t i = 0; i < view->count; i++)
        if (strcmp(view->members[i].id, id) == 0)
            return &view->members[i];
    return NULL;
}

/* The first in line of those that can; else NULL, with the reason of one that cannot. */
static const struct handover_member *find_first(const struct handover_view *view, struct err *why)
{
    const struct handover_member *first = NULL;
    *why = err_make(ERR_NO_TARGET, "no other member is listed: there is nobody to hand over to");
    for (size_t i = 0; i < view->count; i++) {
        const struct handover_member *m = &view->members[i];
        if (is_self(view, m))
            continue;
        struct err e = why_not(view, m);
        if (err_is(&e))
            *why = err_wrap(e, "there is nobody to hand over to");
        else if (!first || m->place < first->place)
            first = m;
    }
    return first;
}

static struct err list_ahead(const struct handover_view *view, const struct handover_member *target,
                             struct handover *out)
{
    snprintf(out->target, sizeof out->target, "%s", target->id);
    for (size_t i = 0; i < view->count; i++) {
        const struct handover_member *m = &view->members[i];
        if (m == target || is_self(view, m) || !m->place || m->place > target->place)
            continue;
        if (out->ahead_count == HANDOVER_AHEAD_MAX)
            return err_make(ERR_NO_TARGET,
                            "more than %d members are in line before member %s: choose another",
                            HANDOVER_AHEAD_MAX, target->id);
        out->ahead[out->ahead_count++] = m->lease;
    }
    return OK_ERR;
}

struct err handover_plan(const struct handover_view *view, const char *target_id,
                         struct handover *out)
{
    struct err e = OK_ERR;
    const struct handover_member *target;
    *out = (struct handover){0};
    if (target_id[0]) {
        target = find(view, target_id);
        e = target ? why_not(view, target)
                   : err_make(ERR_NO_TARGET, "no member %s is listed", target_id);
    } else {
        target = find_first(view, &e);
        if (target)
            e = OK_ERR;
    }
    return err_is(&e) ? e : list_ahead(view, target, out);
}

bool handover_is_self(const struct handover_view *view, const char *target_id)
{
    return strcmp(view->self_id, target_id) == 0;
}

/* ---- the txn ---- */

enum { OPS_MAX = HANDOVER_AHEAD_MAX + 3 }; /* `released`, the own key, the line */

void handover_make(struct fence_txn *out, const char *prefix, int64_t lease,
                   int64_t create_revision, const struct released *released,
                   const struct handover *to)
{
    char rooms[OPS_MAX][KEY_MAX];
    struct etcd_op ops[OPS_MAX];
    struct buf value = {0}, end = {0};
    size_t n = 0, failure = 0;
    PRE(create_revision > 0);
    struct bytes own = keys_election(rooms[0], prefix, lease);
    if (released->epoch) {
        released_encode(released, &value);
        ops[n++] = (struct etcd_op){
            .kind = ETCD_OP_PUT, .key = keys_released(rooms[1], prefix), .value = buf_view(&value)};
        failure = 1;
    }
    ops[n++] = (struct etcd_op){.kind = ETCD_OP_DELETE, .key = own};
    for (size_t i = 0; i < to->ahead_count; i++, n++)
        ops[n] = (struct etcd_op){.kind = ETCD_OP_DELETE,
                                  .key = keys_election(rooms[n], prefix, to->ahead[i])};
    struct bytes line = keys_elections(rooms[n], prefix);
    bytes_prefix_end(line, &end);
    ops[n++] = (struct etcd_op){.kind = ETCD_OP_RANGE,
                                .key = line,
                                .range_end = buf_view(&end),
                                .limit = 1,
                                .keys_only = true,
                                .by_create = true};
    struct etcd_compare same = {
        .target = ETCD_CREATE, .relation = ETCD_EQUAL, .key = own, .number = create_revision};
    fence_txn_own(out, &(struct etcd_txn){.compares = &same,
                                          .compare_count = 1,
                                          .success = ops,
                                          .success_count = n,
                                          .failure = ops,
                                          .failure_count = failure});
    buf_close(&value);
    buf_close(&end);
}

int64_t handover_first(const char *prefix, const struct etcd_txn_result *r)
{
    char room[KEY_MAX];
    int64_t lease = 0;
    if (!r->result_count)
        return 0;
    const struct etcd_op_result *line = &r->results[r->result_count - 1];
    bool told = line->kind == ETCD_OP_RANGE && line->count &&
                keys_rest_lease(line->kvs[0].key, keys_elections(room, prefix), &lease);
    return told ? lease : 0;
}
