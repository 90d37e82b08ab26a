#include "meta/core/fence.h"
#include "common/base/check.h"
#include "common/base/mem.h"
#include "meta/core/bug.h"
#include <stdlib.h>

/* ---- owning a txn: one block for its arrays and all bytes they show ---- */

static size_t compare_bytes(const struct etcd_compare *c)
{
    return c->key.len + c->range_end.len + c->value.len;
}

static size_t ops_bytes(const struct etcd_op *ops, size_t count)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++)
        n += ops[i].key.len + ops[i].range_end.len + ops[i].value.len;
    return n;
}

static struct bytes take(uint8_t **at, struct bytes s)
{
    if (!s.len)
        return BYTES_NONE;
    memcpy(*at, s.data, s.len);
    struct bytes copy = bytes_of(*at, s.len);
    *at += s.len;
    return copy;
}

static void take_ops(uint8_t **at, struct etcd_op *to, const struct etcd_op *from, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        to[i] = from[i];
        to[i].key = take(at, from[i].key);
        to[i].range_end = take(at, from[i].range_end);
        to[i].value = take(at, from[i].value);
    }
}

void fence_txn_own(struct fence_txn *out, const struct etcd_txn *t)
{
    size_t size = t->compare_count * sizeof *t->compares +
                  (t->success_count + t->failure_count) * sizeof *t->success +
                  ops_bytes(t->success, t->success_count) + ops_bytes(t->failure, t->failure_count);
    for (size_t i = 0; i < t->compare_count; i++)
        size += compare_bytes(&t->compares[i]);
    out->block = mem_alloc(size);
    struct etcd_compare *compares = out->block;
    struct etcd_op *success = (struct etcd_op *)(compares + t->compare_count);
    struct etcd_op *failure = success + t->success_count;
    uint8_t *at = (uint8_t *)(failure + t->failure_count);
    for (size_t i = 0; i < t->compare_count; i++) {
        compares[i] = t->compares[i];
        compares[i].key = take(&at, t->compares[i].key);
        compares[i].range_end = take(&at, t->compares[i].range_end);
        compares[i].value = take(&at, t->compares[i].value);
    }
    take_ops(&at, success, t->success, t->success_count);
    take_ops(&at, failure, t->failure, t->failure_count);
    out->txn = *t;
    out->txn.compares = compares;
    out->txn.success = success;
    out->txn.failure = failure;
}

void fence_txn_close(struct fence_txn *t)
{
    free(t->block);
    *t = (struct fence_txn){0};
}

/* ---- making ---- */

static struct etcd_compare is_created_at(struct bytes key, int64_t revision)
{
    return (struct etcd_compare){
        .target = ETCD_CREATE, .relation = ETCD_EQUAL, .key = key, .number = revision};
}

static struct etcd_compare has_value(struct bytes key, struct bytes value)
{
    return (struct etcd_compare){
        .target = ETCD_VALUE, .relation = ETCD_EQUAL, .key = key, .value = value};
}

static struct etcd_op put(struct bytes key, struct bytes value)
{
    return (struct etcd_op){.kind = ETCD_OP_PUT, .key = key, .value = value};
}

static struct etcd_op removal(struct bytes key)
{
    return (struct etcd_op){.kind = ETCD_OP_DELETE, .key = key};
}

static struct etcd_op range(struct bytes key)
{
    return (struct etcd_op){.kind = ETCD_OP_RANGE, .key = key};
}

/* The guard of a leadership around any ops, with the reads that tell what became of it when it
 * fails. */
static void make_guarded(struct fence_txn *out, const struct leadership *l, struct bytes last,
                         const struct etcd_op *ops, size_t count)
{
    char own_room[KEY_MAX], commit_room[KEY_MAX], history_room[KEY_MAX];
    const char *prefix = l->seat.prefix;
    struct bytes own_key = keys_election(own_room, prefix, l->seat.lease);
    struct bytes commit = keys_commit(commit_room, prefix);
    struct bytes history = keys_history(history_room, prefix, l->epoch + 1);
    PRE(l->seat.create_revision > 0 && last.len);
    struct etcd_compare guard[] = {is_created_at(own_key, l->seat.create_revision),
                                   has_value(commit, last)};
    struct etcd_op reads[] = {range(own_key), range(commit), range(history)};
    fence_txn_own(out, &(struct etcd_txn){.compares = guard,
                                          .compare_count = BUG(BUG_NO_COMPARE) ? 1 : 2,
                                          .success = ops,
                                          .success_count = count,
                                          .failure = reads,
                                          .failure_count = 3});
}

void fence_make_commit(struct fence_txn *out, const struct leadership *l, struct bytes last,
                       const struct record *next, const struct etcd_op *ops, size_t count)
{
    char commit_room[KEY_MAX];
    struct buf value = {0};
    struct etcd_op *all = mem_array(count + 1, sizeof *all);
    record_encode(next, &value);
    if (count)
        memcpy(all, ops, count * sizeof *all);
    all[count] = put(keys_commit(commit_room, l->seat.prefix), buf_view(&value));
    make_guarded(out, l, last, all, count + 1);
    free(all);
    buf_close(&value);
}

void fence_make_probe(struct fence_txn *out, const struct leadership *l, struct bytes last)
{
    char room[KEY_MAX];
    struct etcd_op nothing = removal(keys_probe(room, l->seat.prefix));
    make_guarded(out, l, last, &nothing, 1);
}

void fence_make_takeover(struct fence_txn *out, const struct fence_takeover *t)
{
    char own_room[KEY_MAX], commit_room[KEY_MAX], history_room[KEY_MAX], old_room[KEY_MAX],
        histories_room[KEY_MAX], state_room[KEY_MAX], cluster_room[KEY_MAX];
    const char *prefix = t->seat.prefix;
    struct bytes own_key = keys_election(own_room, prefix, t->seat.lease);
    struct bytes commit = keys_commit(commit_room, prefix);
    struct bytes state = keys_state(state_room, prefix);
    struct bytes cluster = keys_cluster(cluster_room, prefix);
    struct buf value = {0}, history = {0}, state_end = {0};
    PRE(t->seat.create_revision > 0);
    record_encode(&t->next, &value);
    history_encode(&t->history, &history);
    bytes_prefix_end(state, &state_end);
    struct etcd_compare guard[4] = {is_created_at(own_key, t->seat.create_revision),
                                    t->cluster.len ? has_value(cluster, record_view(&t->cluster))
                                                   : is_created_at(cluster, 0)};
    if (t->old.len) {
        guard[2] = has_value(commit, record_view(&t->old));
    } else {
        guard[2] = is_created_at(commit, 0);
        guard[3] = is_created_at(state, 0);
        guard[3].range_end = buf_view(&state_end);
    }
    struct etcd_op ops[3] = {
        put(commit, buf_view(&value)),
        put(keys_history(history_room, prefix, t->next.epoch), buf_view(&history))};
    bool full = t->next.epoch > HISTORY_KEPT;
    if (full) { /* a range: an epoch may have jumped over entries */
        ops[2] = removal(keys_histories(histories_room, prefix));
        ops[2].range_end = keys_history(old_room, prefix, t->next.epoch - HISTORY_KEPT + 1);
    }
    struct etcd_op reads[] = {range(own_key), range(commit), range(cluster)};
    size_t compares = BUG(BUG_NO_COMPARE) ? 2 : t->old.len ? 3 : 4;
    fence_txn_own(out, &(struct etcd_txn){.compares = guard,
                                          .compare_count = compares,
                                          .success = ops,
                                          .success_count = full ? 3 : 2,
                                          .failure = reads,
                                          .failure_count = 3});
    buf_close(&value);
    buf_close(&history);
    buf_close(&state_end);
}

void fence_make_release(struct fence_txn *out, const char *prefix, int64_t lease,
                        int64_t create_revision, const struct released *released)
{
    char own_room[KEY_MAX], released_room[KEY_MAX];
    struct buf value = {0};
    struct bytes own_key = keys_election(own_room, prefix, lease);
    struct etcd_compare same = is_created_at(own_key, create_revision);
    struct etcd_op ops[2] = {removal(own_key)};
    size_t count = 1;
    if (released && released->epoch) {
        released_encode(released, &value);
        ops[count++] = put(keys_released(released_room, prefix), buf_view(&value));
    }
    fence_txn_own(out, &(struct etcd_txn){.compares = &same,
                                          .compare_count = create_revision ? 1 : 0,
                                          .success = ops,
                                          .success_count = count,
                                          .failure = ops + 1,
                                          .failure_count = create_revision ? count - 1 : 0});
    buf_close(&value);
}
