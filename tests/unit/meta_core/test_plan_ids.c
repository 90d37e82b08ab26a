/* Planning under request ids: one effect for each, whatever is repeated. */
#include "tests/lib/plan_fixture.h"
#include <stdio.h>

#define ID "request-id-000001"

static void a_repeated_id_gets_the_first_answer(void **state)
{
    struct world *w = *state;
    struct request_op op = put_op("a", "2");
    op.prev_kv = true;
    run(w, put_request("a", "1"));
    run(w, with_id(single(REQUEST_PUT, op), ID));
    run(w, put_request("a", "3"));
    struct plan_request req = with_id(single(REQUEST_PUT, op), ID);
    struct plan_answer *answer;
    begin(w);
    assert_int_equal(add(w, &req, &answer), PLAN_ANSWERED);
    assert_true(answer->replayed);
    assert_int_equal(answer->revision, 2);
    assert_true(bytes_equal(answer->results[0].kvs[0].value, bytes_str("1")));
    plan_end(&w->batch);
    assert_int_equal(w->batch.op_count, 0);
    request_close(&req);
}

static void failed_conditions_are_recorded(void **state)
{
    struct world *w = *state;
    struct plan_request req = {0};
    request_then(&req, (struct request_op[]){put_op("a", "1")}, 1);
    request_when(
        &req, (struct request_compare){.target = ETCD_VERSION, .key = bytes_str("b"), .number = 1});
    req = with_id(req, ID);
    struct request_op must = delete_op("a");
    must.must_exist = true;
    run(w, with_id(single(REQUEST_DELETE, must), ID "-delete"));
    struct plan_answer *answer;
    begin(w);
    assert_int_equal(add(w, &req, &answer), PLAN_TAKEN);
    commit(w);
    assert_false(answer->succeeded);
    /* The condition holds now, but the first answer stands. */
    run(w, put_request("b", "1"));
    run(w, put_request("a", "1"));
    begin(w);
    assert_int_equal(add(w, &req, &answer), PLAN_ANSWERED);
    assert_false(answer->succeeded);
    request_close(&req);
    req = with_id(single(REQUEST_DELETE, must), ID "-delete");
    assert_int_equal(add(w, &req, &answer), PLAN_ANSWERED);
    assert_int_equal(answer->code, ERR_KEY_NOT_FOUND);
    request_close(&req);
}

static void an_id_is_for_one_effect(void **state)
{
    struct world *w = *state;
    run(w, with_id(put_request("a", "1"), ID));
    assert_int_equal(refused(w, with_id(put_request("a", "2"), ID)), ERR_BAD_REQUEST_ID);
    struct plan_request other = with_id(put_request("a", "1"), ID);
    other.method = REQUEST_TXN;
    assert_int_equal(refused(w, other), ERR_BAD_REQUEST_ID);
}

static void twice_in_one_batch_waits_and_is_replayed(void **state)
{
    struct world *w = *state;
    struct plan_answer *answer;
    struct plan_request req = with_id(put_request("a", "1"), ID);
    begin(w);
    assert_int_equal(add(w, &req, &answer), PLAN_TAKEN);
    assert_int_equal(add(w, &req, &answer), PLAN_WAIT_NEXT);
    commit(w);
    begin(w);
    assert_int_equal(add(w, &req, &answer), PLAN_ANSWERED);
    request_close(&req);
}

static void an_answer_too_large_to_keep_is_refused(void **state)
{
    struct world *w = *state;
    char *big = mem_alloc(ANSWER_RECORDED_MAX + 1);
    memset(big, 'x', ANSWER_RECORDED_MAX);
    run(w, put_request("a", big));
    struct request_op op = put_op("a", "2");
    op.prev_kv = true;
    assert_int_equal(refused(w, with_id(single(REQUEST_PUT, op), ID)), ERR_TOO_LARGE);
    assert_int_equal(run(w, single(REQUEST_PUT, op))->results[0].kv_count, 1);
    free(big);
}

static void old_ids_are_evicted_and_expire(void **state)
{
    struct world *w = *state;
    char id[40];
    for (int i = 0; i < 10; i++) {
        snprintf(id, sizeof id, "request-id-%06d@%d", i, i);
        run(w, with_id(put_request("a", "1"), id));
    }
    w->now_ms = 601000;
    begin(w);
    commit(w); /* a heartbeat evicts */
    assert_int_equal(w->batch.op_count, DEDUP_EVICT_MAX + 1);
    assert_int_equal(w->window.count, 6);
    assert_int_equal(w->window.floor, 4);
    struct etcd_kv *floor = table_find(&w->table, bytes_str(STATE_PREFIX "dedup/floor"));
    assert_true(bytes_equal(floor->value, bytes_str("4")));
    /* Made at a revision below the floor and not in the table: nobody knows. */
    assert_int_equal(refused(w, with_id(put_request("a", "1"), "request-id-000003@3")),
                     ERR_REQUEST_ID_EXPIRED);
    struct plan_answer *answer;
    struct plan_request kept = with_id(put_request("a", "1"), "request-id-000004@4"),
                        fresh = with_id(put_request("a", "1"), "request-id-fresh@4"),
                        unsaid = with_id(put_request("b", "1"), "request-id-unsaid");
    begin(w);
    assert_int_equal(add(w, &kept, &answer), PLAN_ANSWERED);
    assert_int_equal(add(w, &fresh, &answer), PLAN_TAKEN);
    assert_int_equal(add(w, &unsaid, &answer), PLAN_TAKEN);
    request_close(&kept);
    request_close(&fresh);
    request_close(&unsaid);
}

static void young_ids_that_fill_the_table_stop_writes(void **state)
{
    struct world *w = *state;
    w->window.limits.max_bytes = 300;
    char id[40];
    struct plan_answer *answer;
    int taken = 0;
    struct err refusal = OK_ERR;
    for (int i = 0; i < 20; i++) {
        snprintf(id, sizeof id, "request-id-%06d", i);
        struct plan_request req = with_id(put_request("a", "1"), id);
        begin(w);
        bool ok = plan_add(&w->batch, &req, &answer, &refusal) == PLAN_TAKEN;
        commit(w);
        taken += ok;
        request_close(&req);
    }
    assert_int_equal(refusal.code, ERR_OVERLOADED);
    assert_in_range(taken, 5, 10);
    run(w, put_request("a", "without an id"));
    w->now_ms = 120000;
    run(w, with_id(put_request("a", "1"), "request-id-later-on"));
}

static void ids_are_checked(void **state)
{
    struct plan_request req = {0};
    char text[80];
    memset(text, 'i', sizeof text);
    assert_int_equal(request_set_id(&req, bytes_of(text, 15)).code, ERR_BAD_REQUEST_ID);
    assert_int_equal(request_set_id(&req, bytes_of(text, 16)).code, ERR_OK);
    assert_int_equal(req.id_revision, -1);
    assert_int_equal(request_set_id(&req, bytes_of(text, 64)).code, ERR_OK);
    assert_int_equal(request_set_id(&req, bytes_of(text, 65)).code, ERR_BAD_REQUEST_ID);
    assert_int_equal(request_set_id(&req, bytes_str("request\tid-000001")).code,
                     ERR_BAD_REQUEST_ID);
    request_set_id(&req, bytes_str("request-id-1@4711"));
    assert_int_equal(req.id_revision, 4711);
    request_set_id(&req, bytes_str("request-id-1@47x1"));
    assert_int_equal(req.id_revision, -1);
    request_set_id(&req, bytes_str("request-id-1@99999999999999999999"));
    assert_int_equal(req.id_revision, -1);
    request_close(&req);
}

static void a_batch_that_failed_leaves_no_trace(void **state)
{
    struct world *w = *state;
    struct plan_answer *answer;
    struct plan_request req = with_id(put_request("a", "1"), ID);
    begin(w);
    assert_int_equal(add(w, &req, &answer), PLAN_TAKEN);
    plan_end(&w->batch);
    begin(w); /* etcd never applied it */
    assert_int_equal(add(w, &req, &answer), PLAN_TAKEN);
    commit(w);
    assert_int_equal(w->window.count, 1);
    assert_int_equal(w->window.next_n, 2);
    request_close(&req);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_repeated_id_gets_the_first_answer),
        TEST(failed_conditions_are_recorded),
        TEST(an_id_is_for_one_effect),
        TEST(twice_in_one_batch_waits_and_is_replayed),
        TEST(an_answer_too_large_to_keep_is_refused),
        TEST(old_ids_are_evicted_and_expire),
        TEST(young_ids_that_fill_the_table_stop_writes),
        TEST(ids_are_checked),
        TEST(a_batch_that_failed_leaves_no_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
