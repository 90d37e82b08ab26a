#include "common/base/rng.h"
#include "meta/store.h"
#include "meta/store_boot.h"
#include "tests/lib/state_fixture.h"
#include "tests/lib/temp_dir.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <cmocka.h>

/* Small address spaces, because sanitizers and several tests share the machine. */
enum { MAP_BYTES = 64 << 20 };

struct fixture {
    char *dir;
    struct store *store;
};

static struct err open_as(struct fixture *f, const char *boot_id, size_t map_bytes)
{
    return store_open(&f->store, &(struct store_config){.dir = f->dir,
                                                        .state_prefix = STATE_PREFIX,
                                                        .map_bytes = map_bytes,
                                                        .boot_id = boot_id});
}

static void open_ok(struct fixture *f, const char *boot_id)
{
    struct err e = open_as(f, boot_id, MAP_BYTES);
    if (err_is(&e))
        print_error("%s\n", e.message);
    assert_false(err_is(&e));
}

static void fixture_init(struct fixture *f)
{
    f->dir = temp_dir_new();
    open_ok(f, "boot-1");
}

static void fixture_close(struct fixture *f)
{
    store_close(f->store);
    temp_dir_free(f->dir);
}

static int set_up(void **state)
{
    struct fixture *f = mem_alloc(sizeof *f);
    fixture_init(f);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture_close(*state);
    free(*state);
    return 0;
}

#define assert_ok(e)                                                                               \
    do {                                                                                           \
        struct err e_ = (e);                                                                       \
        if (err_is(&e_))                                                                           \
            print_error("%s\n", e_.message);                                                       \
        assert_false(err_is(&e_));                                                                 \
    } while (0)

static struct etcd_op put(const char *key, const char *value)
{
    return (struct etcd_op){.kind = ETCD_OP_PUT, .key = bytes_str(key), .value = bytes_str(value)};
}

static void put_key(struct fixture *f, int64_t revision, const char *user_key, const char *value)
{
    char key[64];
    snprintf(key, sizeof key, STATE_PREFIX "kv/%s", user_key);
    struct etcd_op op = put(key, value);
    assert_ok(store_apply_ops(f->store, revision, &op, 1, bytes_str("record")));
}

static bool has(struct fixture *f, const char *key, struct etcd_kv *kv)
{
    struct store_snapshot *snap = store_snapshot_open(f->store);
    bool found = store_get(snap, bytes_str(key), kv);
    store_snapshot_close(snap);
    return found;
}

static int64_t revision_of(struct fixture *f)
{
    struct store_snapshot *snap = store_snapshot_open(f->store);
    int64_t revision = store_revision(snap);
    store_snapshot_close(snap);
    return revision;
}

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

/* ---- the same history by every way ---- */

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

/* ---- stops ---- */

/* What a process leaves behind that was killed: a child dies without closing. */
static void commit_and_die(struct fixture *f, const char *boot_id, int64_t revision)
{
    store_close(f->store);
    f->store = NULL;
    pid_t child = fork();
    if (child == 0) {
        struct err e = open_as(f, boot_id, MAP_BYTES);
        struct etcd_op op = put(STATE_PREFIX "kv/a", "1");
        if (!err_is(&e))
            e = store_apply_ops(f->store, revision, &op, 1, bytes_str("r"));
        _exit(err_is(&e) ? 1 : 0);
    }
    int status = 0;
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    assert_int_equal(status, 0);
}

static void a_killed_process_loses_nothing(void **state)
{
    struct fixture *f = *state;
    commit_and_die(f, "boot-1", 7);
    open_ok(f, "boot-1");
    assert_int_equal(revision_of(f), 7);
}

static void a_stopped_machine_loses_the_cache(void **state)
{
    struct fixture *f = *state;
    commit_and_die(f, "boot-1", 7);
    open_ok(f, "boot-2");
    assert_int_equal(revision_of(f), 0);
}

static void a_clean_close_outlives_the_machine(void **state)
{
    struct fixture *f = *state;
    put_key(f, 7, "a", "1");
    store_close(f->store);
    open_ok(f, "boot-2");
    assert_int_equal(revision_of(f), 7);
}

static void without_a_boot_id_only_a_clean_close_counts(void **state)
{
    struct fixture *f = *state;
    commit_and_die(f, "", 7);
    open_ok(f, "");
    assert_int_equal(revision_of(f), 0);
    put_key(f, 8, "a", "1");
    store_close(f->store);
    open_ok(f, "");
    assert_int_equal(revision_of(f), 8);
}

static void a_distrusted_cache_is_thrown_away(void **state)
{
    struct fixture *f = *state;
    put_key(f, 7, "a", "1");
    store_close(f->store);
    store_boot_distrust(f->dir);
    open_ok(f, "boot-1");
    assert_int_equal(revision_of(f), 0);
}

/* ---- damage and limits ---- */

static char *data_file(const struct fixture *f)
{
    return mem_printf("%s/cache/data.mdb", f->dir);
}

static void overwrite(const char *path, off_t at, const char *text)
{
    int fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, text, strlen(text), at), strlen(text));
    close(fd);
}

static void refuses_to_open(struct fixture *f, const char *hint)
{
    f->store = NULL;
    struct err e = open_as(f, "boot-1", MAP_BYTES);
    assert_int_equal(e.code, ERR_CORRUPT);
    assert_null(f->store);
    assert_non_null(strstr(e.message, f->dir));
    assert_non_null(strstr(e.message, hint));
}

static void a_file_that_is_no_state_is_refused(void **state)
{
    struct fixture *f = *state;
    char *path = data_file(f);
    store_close(f->store);
    int fd = open(path, O_WRONLY | O_TRUNC);
    char page[8192] = "certainly no state";
    assert_int_equal(write(fd, page, sizeof page), sizeof page);
    close(fd);
    refuses_to_open(f, "remove it");
    free(path);
}

static void a_file_cut_short_is_refused(void **state)
{
    struct fixture *f = *state;
    char *path = data_file(f);
    for (int i = 0; i < 20; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%d", i);
        put_key(f, i + 1, key, "some value");
    }
    store_close(f->store);
    assert_int_equal(truncate(path, 3 * 4096), 0);
    refuses_to_open(f, "cut short");
    free(path);
}

/* The format word is found in the file and changed. */
static void another_format_is_refused(void **state)
{
    struct fixture *f = *state;
    char *path = data_file(f);
    store_close(f->store);
    FILE *file = fopen(path, "r");
    static char all[1 << 20];
    size_t len = fread(all, 1, sizeof all, file);
    fclose(file);
    int found = 0;
    for (size_t i = 0; i + 7 < len; i++)
        if (memcmp(all + i, "format1", 7) == 0) {
            overwrite(path, (off_t)i + 6, "7");
            found++;
        }
    assert_true(found > 0);
    refuses_to_open(f, "format 7");
    free(path);
}

static void a_full_map_is_a_clear_error(void **state)
{
    struct fixture *f = *state;
    store_close(f->store);
    assert_ok(open_as(f, "boot-1", 1 << 20));
    char *value = mem_alloc(100001);
    memset(value, 'x', 100000);
    struct err e = OK_ERR;
    int64_t revision = 1;
    for (; revision < 30 && !err_is(&e); revision++) {
        char key[64];
        snprintf(key, sizeof key, STATE_PREFIX "kv/%lld", (long long)revision);
        struct etcd_op op = put(key, value);
        e = store_apply_ops(f->store, revision, &op, 1, bytes_str("r"));
    }
    assert_int_equal(e.code, ERR_NO_SPACE);
    assert_non_null(strstr(e.message, "--map-bytes"));
    assert_int_equal(revision_of(f), revision - 2); /* as before the commit that failed */
    store_close(f->store);
    open_ok(f, "boot-1");
    put_key(f, revision, "a", value);
    free(value);
}

static void the_default_map_opens(void **state)
{
    struct fixture *f = *state;
    struct store_size size;
    store_close(f->store);
    assert_ok(open_as(f, "boot-1", 0));
    put_key(f, 1, "a", "1");
    store_size(f->store, &size);
    assert_true(size.map_bytes == 64ull << 30);
    assert_int_equal(size.keys, 1);
    struct stat st;
    char *path = data_file(f);
    assert_int_equal(stat(path, &st), 0);
    assert_true(st.st_size < 1 << 20); /* no file as long as the map */
    free(path);
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
        TEST(leader_follower_and_listing_agree),
        TEST(a_load_that_broke_off_starts_over),
        TEST(a_killed_process_loses_nothing),
        TEST(a_stopped_machine_loses_the_cache),
        TEST(a_clean_close_outlives_the_machine),
        TEST(without_a_boot_id_only_a_clean_close_counts),
        TEST(a_distrusted_cache_is_thrown_away),
        TEST(a_file_that_is_no_state_is_refused),
        TEST(a_file_cut_short_is_refused),
        TEST(another_format_is_refused),
        TEST(a_full_map_is_a_clear_error),
        TEST(the_default_map_opens),
        TEST(readers_see_whole_commits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
