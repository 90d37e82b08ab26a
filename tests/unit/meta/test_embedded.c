/* A replica that leads alone, on a disk that may fail. */
#include "meta/embedded.h"
#include "common/base/clock.h"
#include "meta/replica_parts.h"
#include "tests/lib/put_write.h"
#include "tests/lib/temp_dir.h"
#include "tests/lib/wait_for.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>

#include <cmocka.h>

#define PREFIX "/baton/t/"

/* ---- the disk: LMDB's own call comes here ---- */

static _Atomic bool disk_fails;

int fdatasync(int fd)
{
    if (atomic_load(&disk_fails)) {
        errno = EIO;
        return -1;
    }
    return (int)syscall(SYS_fdatasync, fd);
}

/* ---- the member ---- */

struct kit {
    char *dir;
    struct store *store;
    struct board *board;
    struct replica *replica;
    struct member_info self;
    struct cluster cluster;
    _Atomic int failures, done, raised;
    _Atomic int done_code, failed_code;
    _Atomic uint64_t done_epoch, read_epoch, floor; /* what could be read when the caller heard */
};

static void on_publish(void *ctx, enum role role, uint64_t epoch)
{
    struct kit *k = ctx;
    board_set_role(k->board, role, epoch);
}

static void on_failed(void *ctx, const struct err *e)
{
    struct kit *k = ctx;
    k->failed_code = e->code;
    atomic_fetch_add(&k->failures, 1);
}

static void start(struct kit *k)
{
    struct leadership lead;
    struct err e = store_open(&k->store, &(struct store_config){.dir = k->dir,
                                                                .state_prefix = PREFIX "state/",
                                                                .map_bytes = 64 << 20,
                                                                .durable = true});
    assert_false(err_is(&e));
    e = embedded_cluster(k->store, k->cluster.id, &k->cluster);
    assert_false(err_is(&e));
    e = embedded_take_over(k->store, PREFIX, &k->self, &k->cluster, "restarted", &lead);
    assert_false(err_is(&e));
    k->board = board_new("m1", "h:1");
    e = replica_start(
        &k->replica,
        &(struct replica_config){
            .board = k->board,
            .store = k->store,
            .alone = {.self = &k->self, .publish = on_publish, .failed = on_failed, .ctx = k},
            .prefix = PREFIX,
            .member_id = "m1",
            .max_pending = 100,
            .max_pending_bytes = 1 << 20,
            .dedup_bytes = 1 << 20,
            .max_txn_ops = EMBEDDED_TXN_OPS});
    assert_false(err_is(&e));
    replica_connect(k->replica, &(struct replica_links){0});
    replica_lead(k->replica, &lead);
    WAIT_FOR(board_read_epoch(k->board) == lead.epoch);
}

static void stop(struct kit *k)
{
    replica_stop(k->replica);
    replica_free(k->replica);
    board_free(k->board);
    store_close(k->store);
    k->store = NULL;
}

static int set_up(void **state)
{
    struct kit *k = mem_alloc(sizeof *k);
    k->dir = temp_dir_new();
    k->self = (struct member_info){.id = "m1", .addr = "h:1"};
    start(k);
    *state = k;
    return 0;
}

static int tear_down(void **state)
{
    struct kit *k = *state;
    stop(k);
    temp_dir_free(k->dir);
    free(k);
    return 0;
}

static void on_done(struct write *w, const struct err *err, const struct plan_answer *answer,
                    uint64_t epoch)
{
    struct kit *k = w->user;
    k->done_code = err->code;
    k->done_epoch = epoch;
    k->read_epoch = board_read_epoch(k->board);
    free(w);
    atomic_fetch_add(&k->done, 1);
}

static enum err_code put(struct kit *k, const char *key)
{
    struct write *w = put_write(key, key, on_done, k);
    int before = k->done;
    struct err e = replica_submit(k->replica, w);
    if (err_is(&e)) {
        free(w);
        return e.code;
    }
    WAIT_FOR(k->done == before + 1);
    return (enum err_code)k->done_code;
}

static int64_t revision_of(struct kit *k, const char *key)
{
    struct etcd_kv kv = {0};
    struct store_snapshot *snap = store_snapshot_open(k->store);
    store_get(snap, bytes_str(key), &kv);
    store_snapshot_close(snap);
    return kv.mod_revision;
}

/* ---- tests ---- */

static void each_start_is_an_epoch_and_revisions_go_on(void **state)
{
    struct kit *k = *state;
    assert_int_equal(put(k, "a"), ERR_OK);
    assert_int_equal(k->done_epoch, 1);
    assert_int_equal(revision_of(k, "a"), 2); /* behind the takeover */
    stop(k);
    start(k);
    assert_int_equal(put(k, "b"), ERR_OK);
    assert_int_equal(k->done_epoch, 2);
    assert_int_equal(revision_of(k, "a"), 2);
    assert_int_equal(revision_of(k, "b"), 4);
}

static void what_the_disk_does_not_take_is_not_acknowledged(void **state)
{
    struct kit *k = *state;
    assert_int_equal(put(k, "a"), ERR_OK);
    atomic_store(&disk_fails, true);
    assert_int_equal(put(k, "b"), ERR_OUTCOME_UNKNOWN);
    assert_int_equal(k->read_epoch, 0); /* closed before the caller heard */
    WAIT_FOR(k->failures == 1);
    assert_int_equal(k->failed_code, ERR_IO);
    assert_int_equal(put(k, "c"), ERR_NOT_LEADER);
    atomic_store(&disk_fails, false);
    stop(k);
    start(k);
    assert_int_equal(revision_of(k, "a"), 2);
    assert_int_equal(revision_of(k, "b"), 0);
    assert_int_equal(put(k, "b"), ERR_OK);
}

static void on_raised(void *arg, const struct err *err, const struct cluster *cluster)
{
    struct kit *k = arg;
    k->floor = err_is(err) ? 0 : cluster->epoch_floor;
    atomic_fetch_add(&k->raised, 1);
}

static void raise_above(struct kit *k, uint64_t above)
{
    int before = k->raised;
    struct err e = replica_raise(k->replica, above, on_raised, k);
    assert_false(err_is(&e));
    WAIT_FOR(k->raised == before + 1);
}

static void it_leads_anew_above_a_raised_floor(void **state)
{
    struct kit *k = *state;
    struct cluster now;
    assert_int_equal(put(k, "a"), ERR_OK);
    raise_above(k, 40);
    assert_int_equal(k->floor, 40);
    assert_int_equal(board_read_epoch(k->board), 41);
    board_cluster(k->board, &now);
    assert_int_equal(now.incarnation, 2);
    assert_int_equal(put(k, "b"), ERR_OK);
    assert_int_equal(k->done_epoch, 41);
    raise_above(k, 40); /* it is above that already */
    assert_int_equal(k->floor, 40);
    assert_int_equal(board_read_epoch(k->board), 41);
    stop(k);
    start(k);
    assert_int_equal(board_read_epoch(k->board), 42);
    assert_int_equal(k->cluster.incarnation, 2);
}

static bool note_epoch(void *arg, struct bytes name, struct bytes value)
{
    char *epochs = arg, *end = epochs + strlen(epochs);
    (void)value;
    snprintf(end, 200 - (size_t)(end - epochs), "%lu ", strtoul((const char *)name.data, NULL, 10));
    return true;
}

static void old_history_goes_however_far_the_epoch_jumps(void **state)
{
    struct kit *k = *state;
    char epochs[200] = "";
    raise_above(k, 40);
    raise_above(k, 1001); /* entry 1 is HISTORY_KEPT + 1 behind, entry 41 is not */
    struct store_snapshot *snap = store_snapshot_open(k->store);
    store_history(snap, note_epoch, epochs);
    assert_string_equal(epochs, "1002 41 ");
    epochs[0] = 0;
    store_snapshot_close(snap);
    raise_above(k, 9000);
    snap = store_snapshot_open(k->store);
    store_history(snap, note_epoch, epochs);
    store_snapshot_close(snap);
    assert_string_equal(epochs, "9001 ");
}

static void a_state_that_is_gone_is_not_begun_anew(void **state)
{
    struct kit *k = *state;
    struct store *empty;
    struct cluster cluster;
    char *dir = temp_dir_new();
    struct err e = store_open(&empty, &(struct store_config){.dir = dir,
                                                             .state_prefix = PREFIX "state/",
                                                             .map_bytes = 1 << 20,
                                                             .durable = true});
    assert_false(err_is(&e));
    e = embedded_cluster(empty, k->cluster.id, &cluster);
    assert_int_equal(e.code, ERR_CORRUPT);
    assert_non_null(strstr(e.message, k->cluster.id));
    store_close(empty);
    temp_dir_free(dir);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_start_is_an_epoch_and_revisions_go_on),
        TEST(what_the_disk_does_not_take_is_not_acknowledged),
        TEST(it_leads_anew_above_a_raised_floor),
        TEST(old_history_goes_however_far_the_epoch_jumps),
        TEST(a_state_that_is_gone_is_not_begun_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
