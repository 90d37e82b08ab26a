/* Requests about workers: registrations, incarnations, slots and grants, ends, and request ids. */
#include "meta/core/worker.h"
#include "tests/lib/plan_fixture.h"
#include <stdio.h>

/* ---- a world with workers in it ---- */

static bool view_worker(void *ctx, struct bytes key, struct etcd_kv *out)
{
    const struct state_table *t = ctx;
    struct buf full = {0};
    buf_str(&full, STATE_PREFIX "workers/");
    buf_bytes(&full, key);
    const struct etcd_kv *kv = table_find(t, buf_view(&full));
    buf_close(&full);
    if (kv)
        *out = *kv;
    return kv != NULL;
}

struct cluster_world {
    struct world *w;
    struct workers *workers;
};

static int begin_world(void **state)
{
    struct cluster_world *c = mem_alloc(sizeof *c);
    void *inner = NULL;
    set_up(&inner);
    c->w = inner;
    c->workers = workers_new();
    c->w->limits.max_workers = 100;
    c->w->view.worker = view_worker;
    c->w->view.workers = c->workers;
    *state = c;
    return 0;
}

static int end_world(void **state)
{
    struct cluster_world *c = *state;
    void *inner = c->w;
    workers_free(c->workers);
    tear_down(&inner);
    free(c);
    return 0;
}

static void commit_all(struct cluster_world *c)
{
    commit(c->w);
    plan_workers_committed(&c->w->batch, c->workers, c->w->now_ms);
}

static struct plan_request request(enum request_method method, struct request_worker q)
{
    struct plan_request req = {.method = method, .id_revision = -1};
    struct request_worker *copy = arena_alloc(&req.memory, sizeof *copy);
    *copy = q;
    req.worker = copy;
    return req;
}

static struct plan_request registration(const char *addr, bool slot)
{
    return request(REQUEST_ADD_WORKER, (struct request_worker){.type = bytes_str("compute"),
                                                               .addr = bytes_str(addr),
                                                               .slot = slot,
                                                               .ttl_ms = 15000});
}

static struct plan_request about(enum request_method method, uint64_t id, uint64_t incarnation)
{
    return request(method, (struct request_worker){.id = id, .incarnation = incarnation});
}

/* In a commit of its own; what it answers lives until the next. */
static const struct plan_answer *run_one(struct cluster_world *c, struct plan_request req)
{
    struct plan_answer *answer;
    begin(c->w);
    assert_int_equal(add(c->w, &req, &answer), PLAN_TAKEN);
    commit_all(c);
    request_close(&req);
    return answer;
}

static struct worker shown(struct cluster_world *c, const struct plan_answer *answer)
{
    struct worker w;
    assert_int_equal(answer->code, ERR_OK);
    struct err e = worker_decode(answer->results[0].kvs[0].value, &c->w->batch.memory, &w);
    assert_false(err_is(&e));
    return w;
}

/* ---- registrations ---- */

static void an_address_keeps_its_id(void **state)
{
    struct cluster_world *c = *state;
    struct worker first = shown(c, run_one(c, registration("h:1", true)));
    assert_int_equal(first.id, 1);
    assert_true(first.has_slot && first.slot == 0 && !first.running);
    assert_int_equal(shown(c, run_one(c, registration("h:2", true))).slot, 1);
    assert_true(shown(c, run_one(c, about(REQUEST_ACTIVATE_WORKER, 1, 1))).running);
    struct worker again = shown(c, run_one(c, registration("h:1", false)));
    assert_int_equal(again.id, 1);
    assert_int_equal(again.incarnation, 3);
    assert_true(again.has_slot && again.slot == 0 && !again.running);
    assert_int_equal(again.grant, 3);
    assert_int_equal(workers_count(c->workers), 2);
}

static void the_older_of_two_claimants_is_refused_for_ever(void **state)
{
    struct cluster_world *c = *state;
    run_one(c, registration("h:1", true));
    run_one(c, registration("h:1", true));
    static const enum request_method methods[] = {REQUEST_ACTIVATE_WORKER, REQUEST_UPDATE_WORKER,
                                                  REQUEST_DELETE_WORKER, REQUEST_EXPIRE_WORKER};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(run_one(c, about(methods[i], 1, 1))->code, ERR_STALE_INCARNATION);
        assert_int_equal(c->w->batch.op_count, 0);
        assert_int_equal(run_one(c, about(methods[i], 1, 3))->code, ERR_UNKNOWN_WORKER);
        assert_int_equal(run_one(c, about(methods[i], 2, 1))->code, ERR_UNKNOWN_WORKER);
    }
    assert_int_equal(workers_find(c->workers, 1)->incarnation, 2);
}

static void types_of_an_address_do_not_change(void **state)
{
    struct cluster_world *c = *state;
    run_one(c, registration("h:1", false));
    struct request_worker q = {
        .type = bytes_str("storage"), .addr = bytes_str("h:1"), .ttl_ms = 15000};
    assert_int_equal(run_one(c, request(REQUEST_ADD_WORKER, q))->code, ERR_BAD_WORKER);
}

static void many_register_in_one_commit(void **state)
{
    enum { MANY = 100 };
    struct cluster_world *c = *state;
    struct plan_request requests[MANY];
    struct plan_answer *answers[MANY];
    char addr[MANY][16];
    begin(c->w);
    for (int i = 0; i < MANY; i++) {
        snprintf(addr[i], sizeof addr[i], "h:%d", i + 1);
        requests[i] = registration(addr[i], true);
        assert_int_equal(add(c->w, &requests[i], &answers[i]), PLAN_TAKEN);
    }
    commit_all(c);
    assert_int_equal(c->w->batch.op_count, MANY + 1);
    for (int i = 0; i < MANY; i++) {
        struct worker w = shown(c, answers[i]);
        assert_int_equal(w.id, i + 1);
        assert_int_equal(w.slot, i);
        assert_int_equal(w.grant, i + 1);
        request_close(&requests[i]);
    }
    /* no more of them, but whoever is there may register again */
    assert_int_equal(run_one(c, registration("h:999", false))->code, ERR_TOO_MANY_WORKERS);
    assert_int_equal(run_one(c, registration("h:5", false))->code, ERR_OK);
}

static void changes_do_not_count_as_registrations(void **state)
{
    struct cluster_world *c = *state;
    struct plan_answer *answer;
    c->w->limits.max_workers = 2;
    run_one(c, registration("h:1", false));
    struct plan_request change = about(REQUEST_ACTIVATE_WORKER, 1, 1);
    struct plan_request more = registration("h:2", false);
    begin(c->w);
    assert_int_equal(add(c->w, &change, &answer), PLAN_TAKEN);
    assert_int_equal(add(c->w, &more, &answer), PLAN_TAKEN);
    assert_int_equal(answer->code, ERR_OK);
    commit_all(c);
    request_close(&change);
    request_close(&more);
}

static void two_requests_about_one_worker_wait_for_each_other(void **state)
{
    struct cluster_world *c = *state;
    struct plan_answer *answer;
    run_one(c, registration("h:1", false));
    struct plan_request again = registration("h:1", false);
    struct plan_request end = about(REQUEST_EXPIRE_WORKER, 1, 1);
    begin(c->w);
    assert_int_equal(add(c->w, &again, &answer), PLAN_TAKEN);
    assert_int_equal(add(c->w, &end, &answer), PLAN_WAIT_NEXT);
    commit_all(c);
    request_close(&again);
    assert_int_equal(run_one(c, end)->code, ERR_STALE_INCARNATION);
    assert_int_equal(workers_count(c->workers), 1);
}

/* ---- ends ---- */

static void ids_and_grants_are_not_used_twice(void **state)
{
    struct cluster_world *c = *state;
    run_one(c, registration("h:1", true));
    run_one(c, registration("h:2", true));
    struct worker gone = shown(c, run_one(c, about(REQUEST_EXPIRE_WORKER, 1, 1)));
    assert_int_equal(gone.slot, 0);
    assert_null(workers_find(c->workers, 1));
    const struct etcd_kv *kv =
        table_find(&c->w->table, bytes_str(STATE_PREFIX "workers/" WORKER_GONE_KEY));
    assert_non_null(kv);
    assert_int_equal(worker_decode(kv->value, &c->w->batch.memory, &gone).code, ERR_OK);
    assert_int_equal(gone.end, WORKER_EXPIRED);
    struct worker next = shown(c, run_one(c, registration("h:1", true)));
    assert_int_equal(next.id, 3);
    assert_int_equal(next.slot, 0);
    assert_int_equal(next.grant, 3);
    assert_int_equal(run_one(c, about(REQUEST_DELETE_WORKER, 1, 0))->code, ERR_UNKNOWN_WORKER);
}

static void a_slot_is_free_only_after_the_commit(void **state)
{
    struct cluster_world *c = *state;
    struct plan_answer *answer;
    run_one(c, registration("h:1", true));
    struct plan_request end = about(REQUEST_DELETE_WORKER, 1, 1);
    struct plan_request next = registration("h:2", true);
    begin(c->w);
    assert_int_equal(add(c->w, &end, &answer), PLAN_TAKEN);
    assert_int_equal(add(c->w, &next, &answer), PLAN_TAKEN);
    commit_all(c);
    assert_int_equal(shown(c, answer).slot, 1);
    request_close(&end);
    request_close(&next);
    assert_int_equal(shown(c, run_one(c, registration("h:3", true))).slot, 0);
}

/* ---- updates ---- */

static void an_update_changes_what_it_names(void **state)
{
    struct cluster_world *c = *state;
    const struct worker_label labels[] = {{bytes_str("b"), bytes_str("1")},
                                          {bytes_str("a"), bytes_str("2")}};
    const struct bytes removed[] = {bytes_str("b")};
    run_one(c, registration("h:1", false));
    struct request_worker q = {.id = 1, .labels = labels, .label_count = 2, .draining = REQUEST_ON};
    struct worker w = shown(c, run_one(c, request(REQUEST_UPDATE_WORKER, q)));
    assert_true(w.draining && w.cordoned);
    assert_int_equal(w.label_count, 2);
    assert_true(bytes_equal(w.labels[0].name, bytes_str("a")));
    q = (struct request_worker){
        .id = 1, .remove_labels = removed, .remove_label_count = 1, .cordoned = REQUEST_OFF};
    w = shown(c, run_one(c, request(REQUEST_UPDATE_WORKER, q)));
    assert_true(w.draining && !w.cordoned);
    assert_int_equal(w.label_count, 1);
    w = shown(c, run_one(c, registration("h:1", false)));
    assert_true(w.draining);
    assert_int_equal(w.label_count, 1);
}

/* ---- request ids ---- */

static void a_repeated_registration_happens_once(void **state)
{
    struct cluster_world *c = *state;
    struct plan_answer *answer;
    struct err refusal;
    run_one(c, with_id(registration("h:1", true), "0123456789abcdef"));
    struct plan_request again = with_id(registration("h:1", true), "0123456789abcdef");
    begin(c->w);
    assert_int_equal(plan_add(&c->w->batch, &again, &answer, &refusal), PLAN_ANSWERED);
    assert_true(answer->replayed);
    assert_int_equal(shown(c, answer).incarnation, 1);
    assert_int_equal(c->w->batch.op_count, 0);
    request_close(&again);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin_world, end_world)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_address_keeps_its_id),
        TEST(the_older_of_two_claimants_is_refused_for_ever),
        TEST(types_of_an_address_do_not_change),
        TEST(many_register_in_one_commit),
        TEST(changes_do_not_count_as_registrations),
        TEST(two_requests_about_one_worker_wait_for_each_other),
        TEST(ids_and_grants_are_not_used_twice),
        TEST(a_slot_is_free_only_after_the_commit),
        TEST(an_update_changes_what_it_names),
        TEST(a_repeated_registration_happens_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
