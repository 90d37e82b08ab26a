/* Calls to a real etcd. It ignores fields that it does not know, so what counts here is the effect.
 */
#include "tests/lib/etcd_process.h"
#include "common/io/etcd.h"
#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/base/queue.h"
#include <signal.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdlib.h>
#include <cmocka.h>

static struct etcd_process *server;
static enum etcd_transport transport; /* everything is tried both ways */

static struct etcd_client *client_of(const char *endpoints)
{
    struct etcd_client *c;
    struct etcd_config cfg = {.access = {.endpoints = endpoints, .transport = transport},
                              .name = "etcd-test"};
    struct err e = etcd_client_new(&c, &cfg);
    assert_string_equal(e.message, "");
    return c;
}

static struct err ask(struct etcd_client *c, const char *path, struct buf *body,
                      struct etcd_reply *out)
{
    struct err e = etcd_call_wait(c, path, buf_view(body), ETCD_ANY, 5000, out);
    buf_close(body);
    return e;
}

static struct err ask_txn(struct etcd_client *c, const struct etcd_txn *txn,
                          struct etcd_txn_result *out)
{
    struct buf body = {0};
    struct etcd_reply reply;
    etcd_encode_txn(&body, txn);
    struct err e = ask(c, ETCD_PATH_TXN, &body, &reply);
    *out = (struct etcd_txn_result){0};
    if (!err_is(&e))
        e = etcd_decode_txn(reply.body, out);
    etcd_reply_close(&reply);
    return e;
}

static void txn_ok(struct etcd_client *c, const struct etcd_txn *txn, struct etcd_txn_result *out)
{
    struct err e = ask_txn(c, txn, out);
    assert_string_equal(e.message, "");
}

/* The revision of the put. */
static int64_t put(struct etcd_client *c, const char *key, const char *value, int64_t lease)
{
    struct etcd_op op = {
        .kind = ETCD_OP_PUT, .key = bytes_str(key), .value = bytes_str(value), .lease = lease};
    struct etcd_txn txn = {.success = &op, .success_count = 1};
    struct etcd_txn_result r;
    txn_ok(c, &txn, &r);
    assert_true(r.succeeded);
    int64_t revision = r.header.revision;
    etcd_txn_result_close(&r);
    return revision;
}

static struct err range(struct etcd_client *c, const struct etcd_op *op, int endpoint,
                        struct etcd_range_result *out, struct etcd_reply *reply)
{
    struct buf body = {0};
    etcd_encode_range(&body, op);
    struct err e = etcd_call_wait(c, ETCD_PATH_RANGE, buf_view(&body), endpoint, 5000, reply);
    buf_close(&body);
    *out = (struct etcd_range_result){0};
    return err_is(&e) ? e : etcd_decode_range(reply->body, out);
}

static struct etcd_range_result range_ok(struct etcd_client *c, struct etcd_op op)
{
    struct etcd_range_result out;
    struct etcd_reply reply;
    op.kind = ETCD_OP_RANGE;
    struct err e = range(c, &op, ETCD_ANY, &out, &reply);
    assert_string_equal(e.message, "");
    etcd_reply_close(&reply);
    return out;
}

static bool holds(struct etcd_client *c, struct etcd_compare compare)
{
    struct etcd_op op = {.kind = ETCD_OP_RANGE, .key = compare.key};
    struct etcd_txn txn = {
        .compares = &compare, .compare_count = 1, .success = &op, .success_count = 1};
    struct etcd_txn_result r;
    txn_ok(c, &txn, &r);
    bool yes = r.succeeded;
    assert_int_equal(r.result_count, yes ? 1 : 0);
    etcd_txn_result_close(&r);
    return yes;
}

/* Each of the 20 compares once where it holds and once where it does not. */
static void every_compare_decides(void **state)
{
    struct etcd_client *c = client_of(etcd_process_url(server));
    struct buf body = {0};
    struct etcd_reply reply;
    etcd_encode_lease_grant(&body, 5005, 60);
    assert_int_equal(ask(c, ETCD_PATH_LEASE_GRANT, &body, &reply).code, ERR_OK);
    etcd_reply_close(&reply);
    int64_t created = put(c, "cmp", "m", 0);
    int64_t modified = put(c, "cmp", "m", 5005);
    const int64_t numbers[] = {
        [ETCD_VERSION] = 2, [ETCD_CREATE] = created, [ETCD_MOD] = modified, [ETCD_LEASE] = 5005};
    for (int target = ETCD_VERSION; target <= ETCD_LEASE; target++) {
        for (int side = -1; side <= 1; side++) { /* the operand is below, equal or above */
            struct etcd_compare cmp = {.target = (enum etcd_target)target,
                                       .key = bytes_str("cmp"),
                                       .number = numbers[target] + side,
                                       .value = bytes_str(side < 0 ? "l"
                                                          : side   ? "n"
                                                                   : "m")};
            cmp.relation = ETCD_EQUAL;
            assert_int_equal(holds(c, cmp), side == 0);
            cmp.relation = ETCD_NOT_EQUAL;
            assert_int_equal(holds(c, cmp), side != 0);
            cmp.relation = ETCD_LESS;
            assert_int_equal(holds(c, cmp), side > 0);
            cmp.relation = ETCD_GREATER;
            assert_int_equal(holds(c, cmp), side < 0);
        }
    }
    /* Over a range: no key of it exists; one does. A value compare on an absent key is false. */
    struct etcd_compare none = {
        .target = ETCD_CREATE, .key = bytes_str("cmp0"), .range_end = bytes_str("cmp9")};
    assert_true(holds(c, none));
    none.key = bytes_str("cm");
    assert_false(holds(c, none));
    struct etcd_compare absent = {
        .target = ETCD_VALUE, .relation = ETCD_EQUAL, .key = bytes_str("cmp-absent")};
    assert_false(holds(c, absent));
    etcd_client_free(c);
}

static void ranges_pick_what_was_asked(void **state)
{
    struct etcd_client *c = client_of(etcd_process_url(server));
    int64_t first = put(c, "op/b", "1", 0);
    put(c, "op/a", "2", 0);
    int64_t third = put(c, "op/b", "3", 0);
    struct etcd_op all = {.key = bytes_str("op/"), .range_end = bytes_str("op0")};

    struct etcd_range_result r = range_ok(c, all);
    assert_int_equal(r.count, 2);
    assert_true(bytes_equal(r.kvs[0].key, bytes_str("op/a")));
    assert_true(bytes_equal(r.kvs[1].value, bytes_str("3")));
    assert_int_equal(r.kvs[1].create_revision, first);
    assert_int_equal(r.kvs[1].mod_revision, third);
    assert_int_equal(r.kvs[1].version, 2);
    etcd_range_result_close(&r);

    struct etcd_op by_create = all;
    by_create.by_create = true;
    by_create.limit = 1;
    by_create.keys_only = true;
    r = range_ok(c, by_create);
    assert_int_equal(r.count, 1);
    assert_int_equal(r.total, 2);
    assert_true(r.more);
    assert_true(bytes_equal(r.kvs[0].key, bytes_str("op/b")));
    assert_int_equal(r.kvs[0].value.len, 0);
    etcd_range_result_close(&r);

    struct etcd_op old = all;
    old.revision = first;
    r = range_ok(c, old);
    assert_int_equal(r.count, 1);
    assert_true(bytes_equal(r.kvs[0].value, bytes_str("1")));
    etcd_range_result_close(&r);
    etcd_client_free(c);
}

static void both_branches_act(void **state)
{
    struct etcd_client *c = client_of(etcd_process_url(server));
    put(c, "op/a", "2", 0);
    put(c, "op/b", "3", 0);
    struct etcd_op all = {
        .kind = ETCD_OP_RANGE, .key = bytes_str("op/"), .range_end = bytes_str("op0")};
    struct etcd_op ops[] = {
        {.kind = ETCD_OP_DELETE, .key = bytes_str("op/"), .range_end = bytes_str("op0")},
        {.kind = ETCD_OP_DELETE, .key = bytes_str("op-none")}};
    struct etcd_compare never = {
        .target = ETCD_CREATE, .relation = ETCD_LESS, .key = bytes_str("op/a")};
    struct etcd_op otherwise[] = {all, {.kind = ETCD_OP_PUT, .key = bytes_str("op-else")}};
    struct etcd_txn txn = {.compares = &never,
                           .compare_count = 1,
                           .success = ops,
                           .success_count = 2,
                           .failure = otherwise,
                           .failure_count = 2};
    struct etcd_txn_result result;
    txn_ok(c, &txn, &result);
    assert_false(result.succeeded);
    assert_int_equal(result.result_count, 2);
    assert_int_equal(result.results[0].count, 2);
    assert_true(bytes_equal(result.results[0].kvs[0].key, bytes_str("op/a")));
    assert_int_equal(result.results[1].kind, ETCD_OP_PUT);
    etcd_txn_result_close(&result);
    txn.compare_count = 0;
    txn_ok(c, &txn, &result);
    assert_true(result.succeeded);
    assert_int_equal(result.results[0].deleted, 2);
    assert_int_equal(result.results[1].deleted, 0);
    etcd_txn_result_close(&result);
    etcd_client_free(c);
}

static struct err lease_call(struct etcd_client *c, const char *path, int64_t id,
                             struct etcd_lease_result *out)
{
    struct buf body = {0};
    struct etcd_reply reply;
    if (strcmp(path, ETCD_PATH_LEASE_GRANT) == 0)
        etcd_encode_lease_grant(&body, id, 60);
    else
        etcd_encode_lease(&body, id);
    struct err e = ask(c, path, &body, &reply);
    if (!err_is(&e) && strcmp(path, ETCD_PATH_LEASE_REVOKE) != 0)
        e = etcd_decode_lease(reply.body, out);
    etcd_reply_close(&reply);
    return e;
}

static void leases_live_and_die(void **state)
{
    struct etcd_client *c = client_of(etcd_process_url(server));
    struct etcd_lease_result r = {0};
    assert_int_equal(lease_call(c, ETCD_PATH_LEASE_GRANT, 777, &r).code, ERR_OK);
    assert_int_equal(r.id, 777);
    assert_int_equal(r.ttl_s, 60);
    assert_int_equal(lease_call(c, ETCD_PATH_LEASE_GRANT, 777, &r).code, ERR_IN_USE);
    assert_int_equal(lease_call(c, ETCD_PATH_LEASE_KEEPALIVE, 777, &r).code, ERR_OK);
    assert_int_equal(r.ttl_s, 60);
    put(c, "leased", "x", 777);
    struct etcd_range_result kept = range_ok(c, (struct etcd_op){.key = bytes_str("leased")});
    assert_int_equal(kept.kvs[0].lease, 777);
    etcd_range_result_close(&kept);
    assert_int_equal(lease_call(c, ETCD_PATH_LEASE_REVOKE, 777, &r).code, ERR_OK);
    kept = range_ok(c, (struct etcd_op){.key = bytes_str("leased")});
    assert_int_equal(kept.count, 0);
    etcd_range_result_close(&kept);
    assert_int_equal(lease_call(c, ETCD_PATH_LEASE_KEEPALIVE, 777, &r).code, ERR_OK);
    assert_int_equal(r.ttl_s, 0);
    assert_int_equal(lease_call(c, ETCD_PATH_LEASE_REVOKE, 777, &r).code, ERR_KEY_NOT_FOUND);
    struct etcd_op op = {.kind = ETCD_OP_PUT, .key = bytes_str("leased"), .lease = 777};
    struct etcd_txn txn = {.success = &op, .success_count = 1};
    struct etcd_txn_result none;
    assert_int_equal(ask_txn(c, &txn, &none).code, ERR_KEY_NOT_FOUND);
    etcd_client_free(c);
}

static void refusals_have_codes(void **state)
{
    struct etcd_client *c = client_of(etcd_process_url(server));
    struct buf body = {0};
    struct etcd_reply reply;
    struct etcd_range_result none;
    int64_t old = put(c, "refused", "1", 0);
    int64_t now = put(c, "refused", "2", 0);
    etcd_encode_compact(&body, now);
    assert_int_equal(ask(c, ETCD_PATH_COMPACT, &body, &reply).code, ERR_OK);
    etcd_reply_close(&reply);
    struct etcd_op op = {.kind = ETCD_OP_RANGE, .key = bytes_str("refused"), .revision = old};
    assert_int_equal(range(c, &op, ETCD_ANY, &none, &reply).code, ERR_COMPACTED);
    assert_int_equal(reply.grpc_code, 11);
    etcd_reply_close(&reply);

    struct etcd_op ops[129];
    for (size_t i = 0; i < 129; i++)
        ops[i] = op;
    struct etcd_txn txn = {.success = ops, .success_count = 129};
    struct etcd_txn_result r;
    assert_int_equal(ask_txn(c, &txn, &r).code, ERR_TOO_LARGE);
    for (int i = 0; i < 2; i++)
        ops[i] = (struct etcd_op){.kind = ETCD_OP_PUT, .key = bytes_str("twice")};
    txn.success_count = 2;
    assert_int_equal(ask_txn(c, &txn, &r).code, ERR_BAD_REQUEST);
    uint8_t *large = mem_alloc(3u << 20);
    ops[0].value = bytes_of(large, 1800000);
    txn.success_count = 1;
    assert_int_equal(ask_txn(c, &txn, &r).code, ERR_TOO_LARGE);
    ops[0].value = bytes_of(large, 3u << 20);
    assert_int_equal(ask_txn(c, &txn, &r).code, ERR_TOO_LARGE);
    free(large);
    assert_int_equal(etcd_call_wait(c, "/v3/none", BYTES_NONE, 0, 5000, &reply).code, ERR_PROTOCOL);
    etcd_reply_close(&reply);
    assert_int_equal(etcd_call_wait(c, ETCD_PATH_TXN, bytes_str("{"), 0, 5000, &reply).code,
                     ERR_BAD_REQUEST);
    etcd_reply_close(&reply);
    etcd_client_free(c);
}

static void learns_the_limit_and_writes_nothing(void **state)
{
    static const char *const flags[] = {"--max-txn-ops", "1000", NULL};
    struct etcd_process *roomy = etcd_process_start(flags);
    struct etcd_client *c = client_of(etcd_process_url(server)),
                       *d = client_of(etcd_process_url(roomy));
    struct etcd_op all = {.key = bytes_str("\x01"), .range_end = bytes_str("\xff")};
    struct etcd_range_result before = range_ok(c, all);
    int ops;
    assert_int_equal(etcd_learn_max_txn_ops(c, 0, bytes_str("a"), 10000, &ops).code, ERR_OK);
    assert_int_equal(ops, 128);
    struct etcd_range_result after = range_ok(c, all);
    assert_int_equal(before.header.revision, after.header.revision);
    assert_int_equal(before.count, after.count);
    assert_int_equal(etcd_learn_max_txn_ops(d, ETCD_ANY, bytes_str("a"), 10000, &ops).code, ERR_OK);
    assert_int_equal(ops, 512);
    etcd_process_kill(roomy, SIGKILL);
    assert_int_equal(etcd_learn_max_txn_ops(d, ETCD_ANY, bytes_str("a"), 10000, &ops).code,
                     ERR_UNREACHABLE);
    etcd_range_result_close(&before);
    etcd_range_result_close(&after);
    etcd_client_free(c);
    etcd_client_free(d);
    etcd_process_free(roomy);
}

static void learns_the_quota(void **state)
{
    static const char *const flags[] = {"--quota-backend-bytes", "16777216", NULL};
    struct etcd_process *small = etcd_process_start(flags);
    struct etcd_client *c = client_of(etcd_process_url(server)),
                       *d = client_of(etcd_process_url(small));
    int64_t bytes;
    assert_int_equal(etcd_learn_quota(c, 0, 10000, &bytes).code, ERR_OK);
    assert_int_equal(bytes, 2147483648); /* etcd's own */
    assert_int_equal(etcd_learn_quota(d, 0, 10000, &bytes).code, ERR_OK);
    assert_int_equal(bytes, 16777216);
    etcd_process_kill(small, SIGKILL);
    assert_int_equal(etcd_learn_quota(d, 0, 10000, &bytes).code, ERR_UNREACHABLE);
    assert_int_equal(bytes, 0);
    etcd_client_free(c);
    etcd_client_free(d);
    etcd_process_free(small);
}

static void tells_the_status(void **state)
{
    struct etcd_client *c = client_of(etcd_process_url(server));
    struct buf body = {0};
    struct etcd_reply reply;
    struct etcd_status s;
    etcd_encode_status(&body);
    assert_int_equal(ask(c, ETCD_PATH_STATUS, &body, &reply).code, ERR_OK);
    assert_int_equal(etcd_decode_status(reply.body, &s).code, ERR_OK);
    assert_true(s.version[0] == '3' && s.leader == s.header.member_id && s.db_bytes > 0);
    etcd_reply_close(&reply);
    etcd_client_free(c);
}

static void a_dead_endpoint_is_left(void **state)
{
    char *list = mem_printf("127.0.0.1:%d, %s/", free_port(), etcd_process_url(server));
    struct etcd_client *c = client_of(list);
    free(list);
    assert_int_equal(etcd_endpoint_count(c), 2);
    assert_string_equal(etcd_endpoint_url(c, 1), etcd_process_url(server));
    static const struct {
        int endpoint;
        enum err_code code;
        int asked;
    } steps[] = {{ETCD_ANY, ERR_UNREACHABLE, 0}, {ETCD_ANY, ERR_OK, 1}, {ETCD_ANY, ERR_OK, 1},
                 {0, ERR_UNREACHABLE, 0},        {ETCD_ANY, ERR_OK, 1}, {1, ERR_OK, 1}};
    struct etcd_op op = {.kind = ETCD_OP_RANGE, .key = bytes_str("x")};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        struct etcd_range_result r;
        struct etcd_reply reply;
        struct err e = range(c, &op, steps[i].endpoint, &r, &reply);
        assert_int_equal(e.code, steps[i].code);
        assert_int_equal(reply.attempt_endpoint, steps[i].asked);
        assert_true(reply.sent_ms > 0 && reply.received_ms >= reply.sent_ms);
        assert_true(err_is(&e) || reply.header.cluster_id != 0);
        etcd_reply_close(&reply);
        etcd_range_result_close(&r);
    }
    etcd_client_free(c);
}

static void a_stopped_server_leaves_it_open(void **state)
{
    struct etcd_client *c = client_of(etcd_process_url(server));
    struct etcd_op op = {.kind = ETCD_OP_PUT, .key = bytes_str("stopped")};
    struct etcd_txn txn = {.success = &op, .success_count = 1};
    struct buf body = {0};
    struct etcd_reply reply;
    etcd_encode_txn(&body, &txn);
    struct err e = etcd_call_wait(c, ETCD_PATH_TXN, buf_view(&body), ETCD_ANY, 5000, &reply);
    assert_int_equal(e.code, ERR_OK); /* it is connected now */
    etcd_reply_close(&reply);
    etcd_process_signal(server, SIGSTOP);
    int64_t start_ms = clock_boot_ms();
    e = etcd_call_wait(c, ETCD_PATH_TXN, buf_view(&body), ETCD_ANY, 200, &reply);
    assert_int_equal(e.code, ERR_LOST);
    assert_true(clock_boot_ms() - start_ms >= 200);
    assert_true(clock_boot_ms() - start_ms < 5000);
    etcd_reply_close(&reply);
    etcd_process_signal(server, SIGCONT);
    e = etcd_call_wait(c, ETCD_PATH_TXN, buf_view(&body), ETCD_ANY, 5000, &reply);
    assert_int_equal(e.code, ERR_OK);
    etcd_reply_close(&reply);
    buf_close(&body);
    etcd_client_free(c);
}

static void another_cluster_is_noticed(void **state)
{
    struct etcd_process *p = etcd_process_start(NULL);
    struct etcd_client *c = client_of(etcd_process_url(p));
    struct etcd_op op = {.kind = ETCD_OP_RANGE, .key = bytes_str("x")};
    struct etcd_range_result r;
    struct etcd_reply reply;
    assert_int_equal(range(c, &op, ETCD_ANY, &r, &reply).code, ERR_OK);
    etcd_reply_close(&reply);
    etcd_range_result_close(&r);
    etcd_process_kill(p, SIGKILL);
    etcd_process_restart(p);
    struct err e = range(c, &op, ETCD_ANY, &r, &reply);
    assert_true(e.code == ERR_OK ||
                e.code == ERR_LOST); /* the kept connection may be noticed late */
    etcd_reply_close(&reply);
    etcd_range_result_close(&r);
    etcd_process_kill(p, SIGKILL);
    etcd_process_wipe(p);
    etcd_process_restart(p);
    int64_t until_ms = clock_boot_ms() + 10000;
    do {
        e = range(c, &op, ETCD_ANY, &r, &reply);
        etcd_reply_close(&reply);
    } while (e.code == ERR_LOST && clock_boot_ms() < until_ms);
    assert_int_equal(e.code, ERR_PROTOCOL);
    assert_non_null(strstr(e.message, "cluster id changed"));
    etcd_client_free(c);
    etcd_process_free(p);
}

struct tally {
    struct etcd_client *c;
    struct queue *codes; /* of answers, as pointers */
    int again;           /* how many more to ask for from the callback */
};

static void count_answer(void *arg, struct etcd_reply *reply)
{
    struct tally *t = arg;
    if (t->again-- > 0)
        etcd_call(t->c, ETCD_PATH_STATUS, bytes_str("{}"), 0, 60000, count_answer, t);
    queue_push_always(t->codes, (void *)(intptr_t)(reply->err.code + 1));
}

static void callbacks_may_ask_again(void **state)
{
    struct tally t = {.c = client_of(etcd_process_url(server)), .codes = queue_new(1), .again = 3};
    etcd_call(t.c, ETCD_PATH_STATUS, bytes_str("{}"), 0, 5000, count_answer, &t);
    for (int i = 0; i < 4; i++)
        assert_int_equal((intptr_t)queue_pop(t.codes, 5000), ERR_OK + 1);
    etcd_client_free(t.c);
    queue_free(t.codes);
}

static void freeing_answers_everybody(void **state)
{
    struct tally t = {.c = client_of(etcd_process_url(server)), .codes = queue_new(1), .again = 3};
    etcd_process_signal(server, SIGSTOP);
    for (int i = 0; i < 20; i++)
        etcd_call(t.c, ETCD_PATH_STATUS, bytes_str("{}"), 0, 60000, count_answer, &t);
    etcd_client_free(t.c);
    etcd_process_signal(server, SIGCONT);
    assert_int_equal(queue_length(t.codes), 23);
    for (int i = 0; i < 23; i++)
        assert_int_equal((intptr_t)queue_pop(t.codes, 0), ERR_CANCELLED + 1);
    queue_free(t.codes);
    etcd_client_free(NULL);
}

/* Far above its quota, as it is when the quota was lowered or the last writes passed it together.
 */
static struct etcd_process *start_full(void)
{
    static const char *flags[] = {"--quota-backend-bytes", NULL, NULL};
    flags[1] = "0";
    struct etcd_process *p = etcd_process_start(flags);
    struct etcd_client *c = client_of(etcd_process_url(p));
    char *value = mem_alloc(100001);
    memset(value, 'x', 100000);
    for (int i = 0; i < 20; i++)
        put(c, "k", value, 0);
    free(value);
    etcd_client_free(c);
    etcd_process_kill(p, SIGTERM);
    flags[1] = "1000000";
    etcd_process_restart(p);
    return p;
}

static void a_full_etcd_refuses_only_writes(void **state)
{
    struct etcd_process *full = start_full();
    struct etcd_client *c = client_of(etcd_process_url(full));
    struct etcd_op op = {.kind = ETCD_OP_PUT, .key = bytes_str("k")};
    struct etcd_txn txn = {.success = &op, .success_count = 1};
    struct etcd_txn_result r;
    assert_int_equal(ask_txn(c, &txn, &r).code, ERR_NO_SPACE);
    struct etcd_lease_result lease;
    assert_int_equal(lease_call(c, ETCD_PATH_LEASE_GRANT, 88, &lease).code, ERR_NO_SPACE);
    /* What writes nothing goes on: the probe of a leader, and letting go of a key. */
    struct etcd_compare there = {
        .target = ETCD_CREATE, .relation = ETCD_GREATER, .key = bytes_str("k")};
    struct etcd_op read = {.kind = ETCD_OP_RANGE, .key = bytes_str("k")};
    struct etcd_op none = {.kind = ETCD_OP_DELETE, .key = bytes_str("none")};
    txn = (struct etcd_txn){.compares = &there,
                            .compare_count = 1,
                            .success = &none,
                            .success_count = 1,
                            .failure = &read,
                            .failure_count = 1};
    txn_ok(c, &txn, &r);
    assert_true(r.succeeded);
    etcd_txn_result_close(&r);
    none.key = bytes_str("k");
    txn_ok(c, &txn, &r);
    assert_int_equal(r.results[0].deleted, 1);
    etcd_txn_result_close(&r);
    etcd_client_free(c);
    etcd_process_free(full);
}

static int start_server(void **state)
{
    server = etcd_process_start(NULL);
    return 0;
}

static int stop_server(void **state)
{
    etcd_process_free(server);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_compare_decides),
        cmocka_unit_test(ranges_pick_what_was_asked),
        cmocka_unit_test(both_branches_act),
        cmocka_unit_test(leases_live_and_die),
        cmocka_unit_test(refusals_have_codes),
        cmocka_unit_test(learns_the_limit_and_writes_nothing),
        cmocka_unit_test(learns_the_quota),
        cmocka_unit_test(tells_the_status),
        cmocka_unit_test(a_dead_endpoint_is_left),
        cmocka_unit_test(a_stopped_server_leaves_it_open),
        cmocka_unit_test(another_cluster_is_noticed),
        cmocka_unit_test(callbacks_may_ask_again),
        cmocka_unit_test(freeing_answers_everybody),
        cmocka_unit_test(a_full_etcd_refuses_only_writes),
    };
    int failed = cmocka_run_group_tests_name("JSON", tests, start_server, stop_server);
    transport = ETCD_GRPC;
    return failed + cmocka_run_group_tests_name("gRPC", tests, start_server, stop_server);
}
