#include "tests/lib/store_fixture.h"
#include <pthread.h>
#include <stdatomic.h>

/* ---- commits and snapshots ---- */

static void an_empty_store_says_so(void **state)
{
    struct fixture *f = *state;
    struct store_snapshot *snap = store_snapshot_open(f->store);
    struct etcd_kv kv;
    char word[8];
    assert_int_equal(store_revision(snap), 0);
    assert_int_equal(store_floor(snap), 0);
    assert_int_equal(store_record(snap).len, 0);
    assert_int_equal(store_count(snap, BYTES_NONE, BYTES_NONE), 0);
    assert_false(store_get(snap, bytes_str("a"), &kv));
    assert_false(store_word(snap, "cluster_id", word, sizeof word));
    store_snapshot_close(snap);
}

static void a_snapshot_stays_as_it_was(void **state)
{
    struct fixture *f = *state;
    struct etcd_kv kv;
    put_key(f, 5, "a", "1");
    struct store_snapshot *old = store_snapshot_open(f->store);
    put_key(f, 9, "a", "2");
    struct store_snapshot *fresh = store_snapshot_open(f->store);
    assert_true(store_get(old, bytes_str("a"), &kv));
    assert_true(bytes_equal(kv.value, bytes_str("1")));
    assert_int_equal(store_revision(old), 5);
    assert_true(store_get(fresh, bytes_str("a"), &kv));
    assert_true(bytes_equal(kv.value, bytes_str("2")));
    assert_int_equal(kv.create_revision, 5);
    assert_int_equal(kv.mod_revision, 9);
    assert_int_equal(kv.version, 2);
    assert_true(bytes_equal(store_record(fresh), bytes_str("record")));
    store_snapshot_close(old);
    store_snapshot_close(fresh);
    old = store_snapshot_open(f->store); /* renewed: sees what is new */
    assert_int_equal(store_revision(old), 9);
    store_snapshot_close(old);
}

struct visited {
    char keys[256];
    int left;
};

static bool visit(void *arg, const struct etcd_kv *kv)
{
    struct visited *v = arg;
    strncat(v->keys, (const char *)kv->key.data, kv->key.len);
    return --v->left != 0;
}

static const char *keys_in(struct store_snapshot *snap, const char *from, const char *end,
                           int limit)
{
    static struct visited v;
    v = (struct visited){.left = limit};
    store_range(snap, bytes_str(from), bytes_str(end), visit, &v);
    return v.keys;
}

static void ranges_are_in_order_and_bounded(void **state)
{
    struct fixture *f = *state;
    const char *keys[] = {"d", "a", "c", "b", "bb"};
    for (int i = 0; i < 5; i++)
        put_key(f, i + 1, keys[i], "v");
    for (int round = 0; round < 2; round++) { /* the second time with a renewed cursor */
        struct store_snapshot *snap = store_snapshot_open(f->store);
        assert_string_equal(keys_in(snap, "", "", 0), "abbbcd");
        assert_string_equal(keys_in(snap, "b", "c", 0), "bbb");
        assert_string_equal(keys_in(snap, "ba", "", 0), "bbcd");
        assert_string_equal(keys_in(snap, "", "", 2), "ab");
        assert_string_equal(keys_in(snap, "x", "", 0), "");
        assert_int_equal(store_count(snap, BYTES_NONE, BYTES_NONE), 5);
        assert_int_equal(store_count(snap, bytes_str("b"), bytes_str("c")), 2);
        assert_int_equal(store_count(snap, bytes_str("c"), BYTES_NONE), 2);
        store_snapshot_close(snap);
    }
}

static void a_commit_is_applied_whole_or_not_at_all(void **state)
{
    struct fixture *f = *state;
    struct etcd_kv kv;
    struct buf chunk = {0};
    dedup_chunk_begin(&chunk);
    dedup_chunk_add(&chunk, &(struct dedup_entry){.id = bytes_str("request-id-000001")});
    struct etcd_op ops[] = {put(STATE_PREFIX "kv/a", "1"),
                            put(STATE_PREFIX "dedup/00000000000000000001", ""),
                            put(STATE_PREFIX "dedup/00000000000000000002", "nonsense")};
    ops[1].value = buf_view(&chunk);
    struct err e = store_apply_ops(f->store, 3, ops, 3, bytes_str("r"));
    assert_int_equal(e.code, ERR_PROTOCOL);
    assert_int_equal(revision_of(f), 0);
    assert_false(has(f, "a", &kv));
    struct store_snapshot *snap = store_snapshot_open(f->store);
    struct dedup_hit hit;
    assert_false(store_dedup(snap, bytes_str("request-id-000001"), &hit));
    store_snapshot_close(snap);
    assert_ok(store_apply_ops(f->store, 3, ops, 2, bytes_str("r")));
    snap = store_snapshot_open(f->store);
    assert_true(store_dedup(snap, bytes_str("request-id-000001"), &hit));
    assert_int_equal(hit.revision, 3);
    assert_false(store_dedup(snap, bytes_str("request-id-000002"), &hit));
    store_snapshot_close(snap);
    e = store_apply_ops(f->store, 3, ops, 1, bytes_str("r"));
    assert_int_equal(e.code, ERR_PROTOCOL); /* not newer */
    ops[0].key = bytes_str("/elsewhere/kv/a");
    e = store_apply_ops(f->store, 4, ops, 1, bytes_str("r"));
    assert_int_equal(e.code, ERR_PROTOCOL);
    buf_close(&chunk);
}

static void a_copy_that_went_astray_is_noticed(void **state)
{
    struct fixture *f = *state;
    put_key(f, 5, "a", "1");
    struct etcd_event event = {.kv = {.key = bytes_str(STATE_PREFIX "kv/a"),
                                      .value = bytes_str("2"),
                                      .create_revision = 5,
                                      .mod_revision = 8,
                                      .version = 3}};
    assert_int_equal(store_apply(f->store, 8, &event, 1).code, ERR_PROTOCOL);
    event.kv.version = 2;
    assert_ok(store_apply(f->store, 8, &event, 1));
}

static bool collect_history(void *arg, struct bytes name, struct bytes value)
{
    struct visited *v = arg;
    strncat(v->keys, (const char *)name.data, name.len);
    strncat(v->keys, (const char *)value.data, value.len);
    return --v->left != 0;
}

static void history_is_kept_newest_first(void **state)
{
    struct fixture *f = *state;
    struct etcd_op ops[] = {put(STATE_PREFIX "history/01", "x"),
                            put(STATE_PREFIX "history/02", "y"),
                            put(STATE_PREFIX "history/03", "z")};
    assert_ok(store_apply_ops(f->store, 1, ops, 3, bytes_str("r")));
    ops[0] = (struct etcd_op){.kind = ETCD_OP_DELETE, .key = bytes_str(STATE_PREFIX "history/01")};
    assert_ok(store_apply_ops(f->store, 2, ops, 1, bytes_str("r")));
    struct store_snapshot *snap = store_snapshot_open(f->store);
    struct visited v = {0};
    struct bytes value;
    store_history(snap, collect_history, &v);
    assert_string_equal(v.keys, "03z02y");
    v = (struct visited){.left = 1};
    store_history(snap, collect_history, &v);
    assert_string_equal(v.keys, "03z");
    assert_true(store_history_get(snap, bytes_str("02"), &value));
    assert_true(bytes_equal(value, bytes_str("y")));
    assert_false(store_history_get(snap, bytes_str("01"), &value));
    store_snapshot_close(snap);
}

/* ---- threads ---- */

struct reading {
    struct store *store;
    atomic_bool stop;
    atomic_int reads;
};

/* Both keys change in each commit, so a snapshot shows the same value twice. */
static void *read_on(void *arg)
{
    struct reading *r = arg;
    while (!atomic_load(&r->stop)) {
        struct etcd_kv a, b;
        struct store_snapshot *snap = store_snapshot_open(r->store);
        bool both = store_get(snap, bytes_str("a"), &a) && store_get(snap, bytes_str("b"), &b);
        assert_true(both && bytes_equal(a.value, b.value) &&
                    a.mod_revision == store_revision(snap));
        store_snapshot_close(snap);
        atomic_fetch_add(&r->reads, 1);
    }
    return NULL;
}

static void write_pair(struct fixture *f, int64_t revision)
{
    char value[16];
    snprintf(value, sizeof value, "%lld", (long long)revision);
    struct etcd_op ops[] = {put(STATE_PREFIX "kv/a", value), put(STATE_PREFIX "kv/b", value)};
    assert_ok(store_apply_ops(f->store, revision, ops, 2, bytes_str("r")));
}

static void readers_see_whole_commits(void **state)
{
    enum { READERS = 3 };
    struct fixture *f = *state;
    struct reading r = {.store = f->store};
    pthread_t threads[READERS];
    int64_t revision = 1;
    write_pair(f, revision);
    for (int i = 0; i < READERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_on, &r), 0);
    while (revision < 300 || atomic_load(&r.reads) < 300)
        write_pair(f, ++revision);
    atomic_store(&r.stop, true);
    for (int i = 0; i < READERS; i++)
        pthread_join(threads[i], NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_empty_store_says_so),
        TEST(a_snapshot_stays_as_it_was),
        TEST(ranges_are_in_order_and_bounded),
        TEST(a_commit_is_applied_whole_or_not_at_all),
        TEST(a_copy_that_went_astray_is_noticed),
        TEST(history_is_kept_newest_first),
        TEST(readers_see_whole_commits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
