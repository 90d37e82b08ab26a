/* A leader, a follower and a listing come to the same state, byte for byte. */
#include "tests/lib/store_fixture.h"
#include "common/base/rng.h"

static void random_key(struct rng *rng, char out[16])
{
    snprintf(out, 16, "%c%llu", 'a' + (int)rng_below(rng, 4),
             (unsigned long long)rng_below(rng, 12));
}

static struct request_op random_op(struct rng *rng, struct arena *memory, bool in_txn)
{
    char key[16], end[16], value[16];
    random_key(rng, key);
    random_key(rng, end);
    rng_hex(rng, value, 1 + rng_below(rng, 12));
    struct request_op op = {.kind = rng_below(rng, 3) ? REQUEST_OP_PUT : REQUEST_OP_DELETE,
                            .key = arena_copy(memory, bytes_str(key)),
                            .value = arena_copy(memory, bytes_str(value)),
                            .prev_kv = rng_below(rng, 2)};
    if (in_txn && rng_below(rng, 4) == 0)
        op.kind = REQUEST_OP_GET;
    if (op.kind != REQUEST_OP_PUT)
        op.value = BYTES_NONE;
    if (op.kind == REQUEST_OP_DELETE && rng_below(rng, 8) == 0) {
        op.ranged = true;
        op.end = rng_below(rng, 3) ? arena_copy(memory, bytes_str(end)) : BYTES_NONE;
    }
    return op;
}

static struct plan_request random_request(struct rng *rng, int number)
{
    struct plan_request req = {.id_revision = -1};
    struct request_op ops[4];
    size_t count = 1 + rng_below(rng, 3);
    bool txn = rng_below(rng, 3) == 0;
    for (size_t i = 0; i < count; i++)
        ops[i] = random_op(rng, &req.memory, txn);
    if (txn) {
        request_then(&req, ops, count);
        request_else(&req, ops, 1);
        request_when(&req,
                     (struct request_compare){.target = ETCD_VERSION,
                                              .relation = ETCD_LESS,
                                              .key = ops[0].key.len ? ops[0].key : bytes_str("a"),
                                              .number = 3});
    } else {
        req.method = ops[0].kind == REQUEST_OP_PUT ? REQUEST_PUT : REQUEST_DELETE;
        req.then_ops = ops_in(&req, ops, 1);
        req.then_count = 1;
    }
    if (rng_below(rng, 3)) {
        char id[40];
        snprintf(id, sizeof id, "request-id-%08d@1", number);
        assert_ok(request_set_id(&req, bytes_str(id)));
    }
    return req;
}

static bool dump_kv(void *arg, const struct etcd_kv *kv)
{
    buf_printf(arg, "%.*s=%.*s %lld %lld %lld\n", (int)kv->key.len, kv->key.data,
               (int)kv->value.len, kv->value.data, (long long)kv->create_revision,
               (long long)kv->mod_revision, (long long)kv->version);
    return true;
}

static void count_ids(void *arg, const struct dedup_slot *slot)
{
    *(uint64_t *)arg += slot->ids;
}

/* The index knows the ids of the chunks that are there, and no others. */
static void assert_index_is_exact(struct store *s)
{
    struct store_size size;
    uint64_t ids = 0;
    struct store_snapshot *snap = store_snapshot_open(s);
    store_chunks(snap, count_ids, &ids);
    store_snapshot_close(snap);
    store_size(s, &size);
    assert_int_equal(size.ids, ids);
}

static void dump_chunk(void *arg, const struct dedup_slot *slot)
{
    buf_printf(arg, "chunk %llu at %lld: %u ids, %u bytes\n", (unsigned long long)slot->n,
               (long long)slot->revision, slot->ids, slot->bytes);
}

static void dump_ids(struct store_snapshot *snap, int count, struct buf *out)
{
    for (int i = 0; i < count; i++) {
        char id[40];
        struct dedup_hit hit;
        snprintf(id, sizeof id, "request-id-%08d@1", i);
        if (store_dedup(snap, bytes_str(id), &hit)) {
            buf_printf(out, "%s at %lld %u ", id, (long long)hit.revision, hit.entry.method);
            buf_bytes(out, hit.entry.answer);
        }
    }
}

/* Everything that can be seen of a store, as bytes. */
static struct buf dump(struct store *s, int ids)
{
    struct buf out = {0};
    struct store_snapshot *snap = store_snapshot_open(s);
    struct bytes record = store_record(snap);
    buf_printf(&out, "%lld %lld %.*s\n", (long long)store_revision(snap),
               (long long)store_floor(snap), (int)record.len, record.data);
    store_range(snap, BYTES_NONE, BYTES_NONE, dump_kv, &out);
    store_chunks(snap, dump_chunk, &out);
    dump_ids(snap, ids, &out);
    store_snapshot_close(snap);
    return out;
}

static void assert_same(struct store *a, struct store *b, int ids)
{
    struct buf left = dump(a, ids), right = dump(b, ids);
    assert_index_is_exact(a);
    assert_index_is_exact(b);
    assert_int_equal(left.len, right.len);
    assert_memory_equal(left.data, right.data, left.len);
    buf_close(&left);
    buf_close(&right);
}

/* A listing at one revision, in pages and in any order. */
static void load(struct store *s, const struct state_table *t, struct rng *rng)
{
    assert_ok(store_load_begin(s));
    size_t at = 0;
    while (at < t->count) {
        size_t page = 1 + rng_below(rng, 20);
        page = page < t->count - at ? page : t->count - at;
        assert_ok(store_load_put(s, &t->kvs[at], page));
        at += page;
    }
    assert_ok(store_load_end(s, t->revision));
}

/* The planner's view of the store must be that of the table, or it would plan something else. */
static void plan_one(struct plan_batch *batch, struct store *leader, struct dedup_window *window,
                     struct rng *rng, int *number, int64_t now_ms, struct plan_request reqs[20])
{
    struct plan_limits limits = {.max_ops = 64, .max_bytes = REQUEST_BYTES_MAX};
    struct store_snapshot *snap = store_snapshot_open(leader);
    struct plan_view view = store_view(snap);
    plan_begin(batch, bytes_str(STATE_PREFIX), &view, window, &limits, now_ms);
    for (int i = 0; i < 20; i++) {
        struct plan_answer *answer;
        struct err refusal;
        reqs[i] = random_request(rng, (*number)++);
        struct err e = request_check(&reqs[i]);
        if (!err_is(&e))
            plan_add(batch, &reqs[i], &answer, &refusal);
    }
    plan_end(batch);
    store_snapshot_close(snap);
}

static void leader_follower_and_listing_agree(void **state)
{
    enum { COMMITS = 300 };
    struct fixture *leader = *state, follower, loaded;
    struct state_table table = {.revision = 100};
    struct dedup_window window;
    struct plan_batch batch = {0};
    struct rng rng;
    int number = 0;
    fixture_init(&follower);
    fixture_init(&loaded);
    rng_seed(&rng, 20);
    struct dedup_limits limits = DEDUP_LIMITS_DEFAULT;
    limits.max_ids = 500;
    dedup_window_init(&window, &limits);
    for (int c = 0; c < COMMITS; c++) {
        struct plan_request reqs[20];
        char record[32];
        int64_t now_ms = c * 10000;
        snprintf(record, sizeof record, "epoch=1 seq=%d", c);
        plan_one(&batch, leader->store, &window, &rng, &number, now_ms, reqs);
        table_commit(&table, batch.ops, batch.op_count, bytes_str(record));
        assert_int_equal(table.event_count, batch.events + 1);
        assert_ok(store_apply_ops(leader->store, table.revision, batch.ops, batch.op_count,
                                  bytes_str(record)));
        assert_ok(store_apply(follower.store, table.revision, table.events, table.event_count));
        plan_committed(&batch, table.revision, now_ms);
        for (int i = 0; i < 20; i++)
            request_close(&reqs[i]);
        if (c % 50 == 49 || c == 10) {
            load(loaded.store, &table, &rng);
            assert_same(leader->store, follower.store, number);
            assert_same(leader->store, loaded.store, number);
        }
    }
    assert_true(window.floor > 0);
    store_close(leader->store); /* the index is built anew */
    open_ok(leader, "boot-2");
    assert_same(leader->store, follower.store, number);
    plan_close(&batch);
    dedup_window_close(&window);
    table_close(&table);
    fixture_close(&follower);
    fixture_close(&loaded);
}

static void a_load_that_broke_off_starts_over(void **state)
{
    struct fixture *f = *state;
    struct etcd_kv kv = {.key = bytes_str(STATE_PREFIX "kv/a"),
                         .create_revision = 1,
                         .mod_revision = 1,
                         .version = 1},
                   got;
    put_key(f, 9, "old", "1");
    assert_ok(store_set_word(f->store, "cluster_id", "c1"));
    struct store_snapshot *before = store_snapshot_open(f->store);
    assert_ok(store_load_begin(f->store));
    assert_ok(store_load_put(f->store, &kv, 1));
    assert_true(store_get(before, bytes_str("old"), &got));
    store_snapshot_close(before);
    assert_int_equal(revision_of(f), 0);
    store_close(f->store);
    open_ok(f, "boot-1");
    assert_int_equal(revision_of(f), 0);
    assert_ok(store_load_begin(f->store));
    assert_false(has(f, "a", &got));
    assert_ok(store_load_put(f->store, &kv, 1));
    assert_ok(store_load_end(f->store, 30));
    assert_true(has(f, "a", &got));
    assert_int_equal(revision_of(f), 30);
    char word[8];
    struct store_snapshot *snap = store_snapshot_open(f->store);
    assert_true(store_word(snap, "cluster_id", word, sizeof word));
    assert_string_equal(word, "c1");
    store_snapshot_close(snap);
    kv.key = bytes_str(STATE_PREFIX "dedup/1");
    assert_int_equal(store_load_put(f->store, &kv, 1).code, ERR_PROTOCOL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(leader_follower_and_listing_agree),
        TEST(a_load_that_broke_off_starts_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
