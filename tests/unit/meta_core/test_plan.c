#include "tests/lib/plan_fixture.h"
#include <stdio.h>

/* ---- put, delete ---- */

static void a_put_gets_etcds_revisions(void **state)
{
    struct world *w = *state;
    struct etcd_kv kv;
    assert_int_equal(run(w, put_request("a", "1"))->revision, 1);
    run(w, put_request("b", "1"));
    assert_int_equal(run(w, put_request("a", "2"))->revision, 3);
    assert_true(w->view.get(w->view.ctx, bytes_str("a"), &kv));
    assert_int_equal(kv.create_revision, 1);
    assert_int_equal(kv.mod_revision, 3);
    assert_int_equal(kv.version, 2);
}

static void prev_kv_shows_what_was_there(void **state)
{
    struct world *w = *state;
    struct request_op op = put_op("a", "1");
    op.prev_kv = true;
    const struct plan_answer *answer = run(w, single(REQUEST_PUT, op));
    assert_int_equal(answer->results[0].kv_count, 0);
    op.value = bytes_str("2");
    answer = run(w, single(REQUEST_PUT, op));
    assert_int_equal(answer->results[0].kv_count, 1);
    assert_true(bytes_equal(answer->results[0].kvs[0].value, bytes_str("1")));
    assert_int_equal(answer->results[0].kvs[0].mod_revision, 1);
    op = delete_op("a");
    op.prev_kv = true;
    answer = run(w, single(REQUEST_DELETE, op));
    assert_int_equal(answer->results[0].deleted, 1);
    assert_int_equal(answer->results[0].kvs[0].version, 2);
}

static void a_delete_of_nothing_writes_nothing(void **state)
{
    struct world *w = *state;
    const struct plan_answer *answer = run(w, delete_request("a"));
    assert_int_equal(answer->results[0].deleted, 0);
    assert_int_equal(answer->code, ERR_OK);
    assert_int_equal(w->batch.op_count, 0);
    struct request_op op = delete_op("a");
    op.must_exist = true;
    assert_int_equal(run(w, single(REQUEST_DELETE, op))->code, ERR_KEY_NOT_FOUND);
}

static void fill(struct world *w, int count)
{
    char key[16];
    for (int i = 0; i < count; i++) {
        snprintf(key, sizeof key, "k%05d", i);
        run(w, put_request(key, "v"));
    }
}

static void a_range_is_deleted_by_one_operation(void **state)
{
    struct world *w = *state;
    fill(w, 40);
    run(w, put_request("l", "v"));
    struct request_op op = delete_range_op("k00010", "k00030");
    op.prev_kv = true;
    const struct plan_answer *answer = run(w, single(REQUEST_DELETE, op));
    assert_int_equal(answer->results[0].deleted, 20);
    assert_int_equal(answer->results[0].kv_count, 20);
    assert_true(bytes_equal(answer->results[0].kvs[19].key, bytes_str("k00029")));
    assert_int_equal(w->batch.op_count, 1);
    assert_int_equal(w->batch.user_events, 20);
    assert_int_equal(run(w, single(REQUEST_DELETE, delete_range_op("", "")))->results[0].deleted,
                     21);
    assert_int_equal(w->table.count, 0);
}

static void an_open_range_ends_with_the_users_keys(void **state)
{
    struct world *w = *state;
    run(w, put_request("\xff\xff", "v"));
    table_put(&w->table, bytes_str(STATE_PREFIX "other"), bytes_str("x"));
    assert_int_equal(run(w, single(REQUEST_DELETE, delete_range_op("a", "")))->results[0].deleted,
                     1);
    assert_int_equal(w->table.count, 1);
}

static void too_many_deletions_are_refused(void **state)
{
    struct world *w = *state;
    char key[64];
    for (int i = 0; i <= PLAN_DELETE_MAX; i++) {
        snprintf(key, sizeof key, STATE_PREFIX "kv/%06d", i);
        table_put(&w->table, bytes_str(key), bytes_str("v"));
    }
    assert_int_equal(refused(w, single(REQUEST_DELETE, delete_range_op("", ""))), ERR_TOO_LARGE);
}

/* ---- Txn ---- */

static bool holds(struct world *w, struct request_compare c)
{
    struct plan_request req = {0};
    struct plan_answer *answer;
    request_then(&req, NULL, 0);
    request_when(&req, c);
    begin(w);
    assert_int_equal(add(w, &req, &answer), PLAN_TAKEN);
    request_close(&req);
    return answer->succeeded;
}

static void comparisons_are_etcds(void **state)
{
    struct world *w = *state;
    run(w, put_request("other", "1"));
    run(w, put_request("a", "m"));
    run(w, put_request("a", "m"));
    struct bytes a = bytes_str("a"), absent = bytes_str("absent");
#define VALUE_OF(k, r, v)                                                                          \
    ((struct request_compare){.target = ETCD_VALUE, .relation = r, .key = k, .value = bytes_str(v)})
#define NUMBER_OF(k, t, r, n)                                                                      \
    ((struct request_compare){.target = t, .relation = r, .key = k, .number = n})
    assert_true(holds(w, VALUE_OF(a, ETCD_EQUAL, "m")));
    assert_false(holds(w, VALUE_OF(a, ETCD_NOT_EQUAL, "m")));
    assert_true(holds(w, VALUE_OF(a, ETCD_LESS, "ma")));
    assert_true(holds(w, VALUE_OF(a, ETCD_GREATER, "l")));
    assert_true(holds(w, NUMBER_OF(a, ETCD_VERSION, ETCD_EQUAL, 2)));
    assert_true(holds(w, NUMBER_OF(a, ETCD_CREATE, ETCD_EQUAL, 2)));
    assert_true(holds(w, NUMBER_OF(a, ETCD_MOD, ETCD_EQUAL, 3)));
    assert_true(holds(w, NUMBER_OF(a, ETCD_MOD, ETCD_GREATER, 2)));
    assert_false(holds(w, NUMBER_OF(a, ETCD_MOD, ETCD_LESS, 3)));
    /* An absent key: no value, and all numbers 0. */
    assert_false(holds(w, VALUE_OF(absent, ETCD_EQUAL, "")));
    assert_false(holds(w, VALUE_OF(absent, ETCD_NOT_EQUAL, "x")));
    assert_true(holds(w, NUMBER_OF(absent, ETCD_VERSION, ETCD_EQUAL, 0)));
    assert_true(holds(w, NUMBER_OF(absent, ETCD_CREATE, ETCD_EQUAL, 0)));
    assert_true(holds(w, NUMBER_OF(absent, ETCD_MOD, ETCD_EQUAL, 0)));
}

static void a_txn_takes_one_branch_whole(void **state)
{
    struct world *w = *state;
    struct plan_request req = {0};
    request_then(&req, (struct request_op[]){put_op("a", "1"), put_op("b", "1")}, 2);
    request_else(&req, (struct request_op[]){get_op("a"), delete_op("b")}, 2);
    request_when(&req, (struct request_compare){.target = ETCD_VERSION, .key = bytes_str("a")});
    struct plan_answer *answer;
    begin(w);
    assert_int_equal(add(w, &req, &answer), PLAN_TAKEN);
    commit(w);
    assert_true(answer->succeeded);
    assert_int_equal(answer->revision, 1);
    begin(w);
    assert_int_equal(add(w, &req, &answer), PLAN_TAKEN);
    commit(w);
    assert_false(answer->succeeded);
    assert_true(bytes_equal(answer->results[0].kvs[0].value, bytes_str("1")));
    assert_int_equal(answer->results[1].deleted, 1);
    request_close(&req);
}

static void a_get_sees_what_its_txn_wrote_before(void **state)
{
    struct world *w = *state;
    run(w, put_request("old", "1"));
    run(w, put_request("gone", "1"));
    struct request_op ops[] = {get_op("old"),  put_op("old", "2"), get_op("old"), delete_op("gone"),
                               get_op("gone"), put_op("new", "n"), get_op("new")};
    struct plan_request req = {0};
    request_then(&req, ops, 7);
    const struct plan_answer *answer = run(w, req);
    const struct answer_result *r = answer->results;
    assert_int_equal(r[0].kvs[0].mod_revision, 1);
    assert_true(bytes_equal(r[2].kvs[0].value, bytes_str("2")));
    assert_int_equal(r[2].kvs[0].create_revision, 1);
    assert_int_equal(r[2].kvs[0].mod_revision, 3);
    assert_int_equal(r[2].kvs[0].version, 2);
    assert_int_equal(r[4].kv_count, 0);
    assert_int_equal(r[6].kvs[0].create_revision, 3);
    assert_int_equal(r[6].kvs[0].version, 1);
}

static enum err_code checked(struct plan_request *req)
{
    struct err e = request_check(req);
    request_close(req);
    return e.code;
}

static void a_branch_that_writes_a_key_twice_is_refused(void **state)
{
    const struct request_op twice[][2] = {
        {put_op("a", "1"), put_op("a", "2")},
        {put_op("a", "1"), delete_op("a")},
        {delete_range_op("a", "c"), put_op("b", "1")},
        {put_op("b", "1"), delete_range_op("a", "")},
        {delete_range_op("a", "c"), delete_range_op("b", "d")},
    };
    for (size_t i = 0; i < sizeof twice / sizeof *twice; i++) {
        struct plan_request req = {0}, other = {0};
        request_then(&req, twice[i], 2);
        assert_int_equal(checked(&req), ERR_BAD_REQUEST);
        request_then(&other, NULL, 0);
        request_else(&other, twice[i], 2);
        assert_int_equal(checked(&other), ERR_BAD_REQUEST);
    }
    struct plan_request fine = {0};
    request_then(
        &fine, (struct request_op[]){put_op("c", "1"), delete_range_op("a", "c"), get_op("c")}, 3);
    assert_int_equal(checked(&fine), ERR_OK);
}

static void limits_are_checked(void **state)
{
    char *big = mem_alloc(REQUEST_VALUE_MAX + 2);
    memset(big, 'x', REQUEST_VALUE_MAX + 1);
    struct plan_request req = put_request("", "v");
    assert_int_equal(checked(&req), ERR_BAD_KEY);
    struct request_op op = put_op("k", "v");
    op.key = bytes_of(big, REQUEST_KEY_MAX + 1);
    req = single(REQUEST_PUT, op);
    assert_int_equal(checked(&req), ERR_BAD_KEY);
    op.key.len = REQUEST_KEY_MAX;
    req = single(REQUEST_PUT, op);
    assert_int_equal(checked(&req), ERR_OK);
    req = put_request("k", big);
    assert_int_equal(checked(&req), ERR_TOO_LARGE);
    op = delete_op("k");
    op.must_exist = true;
    req = (struct plan_request){0};
    request_then(&req, &op, 1);
    assert_int_equal(checked(&req), ERR_BAD_REQUEST);
    struct request_op many[REQUEST_OPS_MAX + 1] = {0};
    for (int i = 0; i <= REQUEST_OPS_MAX; i++)
        many[i] = get_op("k");
    req = (struct plan_request){0};
    request_then(&req, many, REQUEST_OPS_MAX + 1);
    assert_int_equal(checked(&req), ERR_TOO_LARGE);
    free(big);
}

/* etcd is nearly full: what makes room is taken, and what was done is done. */
static void puts_are_refused_while_they_are(void **state)
{
    struct world *w = *state;
    struct plan_answer *answer;
    struct err full = err_make(ERR_NO_SPACE, "full"), refusal = OK_ERR;
    struct plan_request before = with_id(put_request("a", "1"), "an id that was used before"),
                        put = put_request("b", "1"), deletion = delete_request("a"), txn = {0};
    begin(w);
    assert_int_equal(add(w, &before, &answer), PLAN_TAKEN);
    commit(w);
    w->limits.no_puts = &full;
    begin(w);
    assert_int_equal(plan_add(&w->batch, &put, &answer, &refusal), PLAN_REFUSED);
    assert_int_equal(refusal.code, ERR_NO_SPACE);
    assert_int_equal(add(w, &before, &answer), PLAN_ANSWERED);
    assert_int_equal(add(w, &deletion, &answer), PLAN_TAKEN);
    request_then(&txn, (struct request_op[]){get_op("x"), put_op("y", "1")}, 2);
    assert_int_equal(add(w, &txn, &answer), PLAN_REFUSED);
    txn.then_count = 1;
    assert_int_equal(add(w, &txn, &answer), PLAN_TAKEN);
    commit(w);
    request_close(&before);
    request_close(&put);
    request_close(&deletion);
    request_close(&txn);
}

/* ---- batches ---- */

static void writers_of_one_key_take_turns(void **state)
{
    struct world *w = *state;
    struct plan_answer *answer;
    struct plan_request a = put_request("a", "1"), b = put_request("b", "1"),
                        again = put_request("a", "2"),
                        range = single(REQUEST_DELETE, delete_range_op("a", "z"));
    begin(w);
    assert_int_equal(add(w, &a, &answer), PLAN_TAKEN);
    assert_int_equal(add(w, &again, &answer), PLAN_WAIT_NEXT);
    assert_int_equal(add(w, &range, &answer), PLAN_WAIT_NEXT);
    assert_int_equal(add(w, &b, &answer), PLAN_TAKEN);
    commit(w);
    begin(w);
    assert_int_equal(add(w, &range, &answer), PLAN_TAKEN);
    assert_int_equal(add(w, &again, &answer), PLAN_WAIT_NEXT);
    commit(w);
    assert_int_equal(answer == NULL, 1);
    assert_int_equal(w->table.count, 0);
    request_close(&a);
    request_close(&b);
    request_close(&again);
    request_close(&range);
}

static void what_was_read_stays_until_the_commit(void **state)
{
    struct world *w = *state;
    struct plan_answer *answer;
    struct plan_request reads = {0}, reads_too = {0}, writes = put_request("guard", "2");
    struct request_compare c = {.target = ETCD_VERSION, .key = bytes_str("guard")};
    request_then(&reads, (struct request_op[]){put_op("x", "1")}, 1);
    request_when(&reads, c);
    request_then(&reads_too, (struct request_op[]){put_op("y", "1")}, 1);
    request_when(&reads_too, c);
    begin(w);
    assert_int_equal(add(w, &reads, &answer), PLAN_TAKEN);
    assert_int_equal(add(w, &writes, &answer), PLAN_WAIT_NEXT);
    assert_int_equal(add(w, &reads_too, &answer), PLAN_TAKEN);
    commit(w);
    begin(w);
    assert_int_equal(add(w, &writes, &answer), PLAN_TAKEN);
    assert_int_equal(add(w, &reads, &answer), PLAN_WAIT_NEXT);
    request_close(&reads);
    request_close(&reads_too);
    request_close(&writes);
}

static void a_full_batch_says_so(void **state)
{
    struct world *w = *state;
    struct plan_answer *answer;
    struct plan_request reqs[8];
    w->limits.max_ops = 5;
    begin(w);
    for (int i = 0; i < 8; i++) {
        char id[32], key[8];
        snprintf(id, sizeof id, "request-id-%05d", i);
        snprintf(key, sizeof key, "k%d", i);
        reqs[i] = with_id(put_request("x", "1"), id);
        ((struct request_op *)reqs[i].then_ops)->key = arena_copy(&reqs[i].memory, bytes_str(key));
        assert_int_equal(add(w, &reqs[i], &answer), i < 4 ? PLAN_TAKEN : PLAN_FULL);
    }
    commit(w);
    assert_int_equal(w->batch.op_count, 5); /* with the chunk */
    for (int i = 0; i < 8; i++)
        request_close(&reqs[i]);
}

static void a_batch_is_bounded_in_bytes(void **state)
{
    struct world *w = *state;
    struct plan_answer *answer;
    char big[700] = {0};
    memset(big, 'x', sizeof big - 1);
    w->limits.max_bytes = 2000;
    struct plan_request a = put_request("a", big), b = put_request("b", big),
                        c = put_request("c", big);
    begin(w);
    assert_int_equal(add(w, &a, &answer), PLAN_TAKEN);
    assert_int_equal(add(w, &b, &answer), PLAN_TAKEN);
    assert_int_equal(add(w, &c, &answer), PLAN_FULL);
    w->limits.max_bytes = 500;
    request_close(&b);
    request_close(&c);
    assert_int_equal(refused(w, a), ERR_TOO_LARGE);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_put_gets_etcds_revisions),
        TEST(prev_kv_shows_what_was_there),
        TEST(a_delete_of_nothing_writes_nothing),
        TEST(a_range_is_deleted_by_one_operation),
        TEST(an_open_range_ends_with_the_users_keys),
        TEST(too_many_deletions_are_refused),
        TEST(comparisons_are_etcds),
        TEST(a_txn_takes_one_branch_whole),
        TEST(a_get_sees_what_its_txn_wrote_before),
        TEST(a_branch_that_writes_a_key_twice_is_refused),
        TEST(limits_are_checked),
        TEST(puts_are_refused_while_they_are),
        TEST(writers_of_one_key_take_turns),
        TEST(what_was_read_stays_until_the_commit),
        TEST(a_full_batch_says_so),
        TEST(a_batch_is_bounded_in_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
