/* The local state of a member, as the planner sees it: etcd's own at the revision that the member
 * has applied, since what it applied is exactly what was there. */
#include "common/base/check.h"
#include "meta/core/bug.h"
#include "tests/sim/checker.h"
#include "tests/sim/member.h"
#include <stdio.h>
#include <stdlib.h>

static bool view_get(void *ctx, struct bytes key, struct etcd_kv *out)
{
    struct member *m = ctx;
    struct buf full = {0};
    buf_str(&full, SIM_PREFIX "state/kv/");
    buf_bytes(&full, key);
    const struct fake_version *v =
        fake_etcd_get(&m->replica.w->etcd, buf_view(&full), m->replica.applied);
    buf_close(&full);
    if (v == NULL)
        return false;
    *out = (struct etcd_kv){.key = key,
                            .value = v->value,
                            .create_revision = v->create_revision,
                            .mod_revision = v->revision,
                            .version = v->version};
    return true;
}

/* No client of the simulation deletes ranges. */
static void view_range(void *ctx, struct bytes key, struct bytes end,
                       bool (*visit)(void *arg, const struct etcd_kv *kv), void *arg)
{
    (void)ctx;
    (void)key;
    (void)end;
    (void)visit;
    (void)arg;
    UNREACHABLE_CASE();
}

static bool find_id(struct bytes chunk, struct bytes id, struct dedup_entry *out)
{
    struct dedup_reader reader;
    uint32_t offset;
    bool readable = dedup_reader_init(&reader, chunk);
    INVARIANT(readable);
    while (dedup_reader_next(&reader, out, &offset)) {
        if (bytes_equal(out->id, id))
            return true;
    }
    return false;
}

/* The checker knows in which commit an id stands; what it stands there with is read from the chunk.
 */
static bool view_dedup(void *ctx, struct bytes id, struct dedup_hit *out)
{
    struct member *m = ctx;
    struct world *w = m->replica.w;
    int64_t revision = checker_revision_of(w, id);
    if (BUG(BUG_NO_DEDUP) || revision == 0 || revision > m->replica.applied)
        return false;
    const struct fake_revision *r = fake_etcd_log(&w->etcd, revision);
    for (size_t i = 0; i < r->count; i++) {
        struct etcd_event e = fake_etcd_event(&w->etcd, r, i);
        struct bytes rest;
        uint64_t n;
        if (!e.deleted && keys_rest(e.kv.key, bytes_str(SIM_PREFIX "state/dedup/"), &rest) &&
            keys_rest_number(e.kv.key, bytes_str(SIM_PREFIX "state/dedup/"), &n) &&
            find_id(e.kv.value, id, &out->entry)) {
            out->revision = revision;
            return true;
        }
    }
    return false;
}

struct plan_view view_of(struct world *w, struct member *m)
{
    m->replica.w = w;
    return (struct plan_view){.ctx = m, .get = view_get, .range = view_range, .dedup = view_dedup};
}

/* A new leader takes over the chunks of its predecessors as fresh ones. */
void view_fill_window(struct world *w, struct member *m)
{
    struct replica *r = &m->replica;
    struct etcd_op op = {.kind = ETCD_OP_RANGE,
                         .key = bytes_str(SIM_PREFIX "state/dedup/"),
                         .range_end = bytes_str(SIM_PREFIX "state/dedup0"),
                         .revision = r->applied};
    struct etcd_op_result found;
    fake_etcd_range(&w->etcd, &op, &found);
    dedup_window_clear(&r->window, 0);
    for (size_t i = 0; i < found.count; i++) {
        struct dedup_slot slot = {.revision = found.kvs[i].mod_revision,
                                  .seen_ms = member_ms(w, m),
                                  .ids = dedup_chunk_count(found.kvs[i].value),
                                  .bytes = (uint32_t)found.kvs[i].value.len};
        if (keys_rest_number(found.kvs[i].key, op.key, &slot.n))
            dedup_window_add(&r->window, &slot);
    }
    fake_op_result_close(&found);
}
