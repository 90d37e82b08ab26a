/* A planner on a state in memory, and commits in between: what tests of planning begin with. */
#pragma once
#include "tests/lib/state_fixture.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

/* A state, a planner on it, and the commits in between. */
struct world {
    struct state_table table;
    struct dedup_window window;
    struct plan_batch batch;
    struct plan_limits limits;
    struct plan_view view;
    int64_t now_ms;
};

static inline int set_up(void **state)
{
    struct world *w = mem_alloc(sizeof *w);
    w->limits = (struct plan_limits){.max_ops = 126, .max_bytes = REQUEST_BYTES_MAX};
    dedup_window_init(&w->window, &DEDUP_LIMITS_DEFAULT);
    w->view = table_view(&w->table);
    *state = w;
    return 0;
}

static inline int tear_down(void **state)
{
    struct world *w = *state;
    plan_close(&w->batch);
    dedup_window_close(&w->window);
    table_close(&w->table);
    free(w);
    return 0;
}

static inline void begin(struct world *w)
{
    plan_begin(&w->batch, bytes_str(STATE_PREFIX), &w->view, &w->window, &w->limits, w->now_ms);
}

static inline void commit(struct world *w)
{
    plan_end(&w->batch);
    table_commit(&w->table, w->batch.ops, w->batch.op_count, BYTES_NONE);
    assert_int_equal(w->batch.events, w->table.event_count);
    plan_committed(&w->batch, w->table.revision, w->now_ms);
}

static inline enum plan_verdict add(struct world *w, struct plan_request *req,
                                    struct plan_answer **answer)
{
    struct err refusal = OK_ERR, e = request_check(req);
    assert_false(err_is(&e));
    enum plan_verdict verdict = plan_add(&w->batch, req, answer, &refusal);
    assert_true((verdict == PLAN_REFUSED) == err_is(&refusal));
    return verdict;
}

/* One request in a commit of its own; the answer is valid until the next one. */
static inline const struct plan_answer *run(struct world *w, struct plan_request req)
{
    struct plan_answer *answer;
    begin(w);
    assert_int_equal(add(w, &req, &answer), PLAN_TAKEN);
    commit(w);
    request_close(&req);
    return answer;
}

static inline enum err_code refused(struct world *w, struct plan_request req)
{
    struct plan_answer *answer;
    struct err refusal = OK_ERR;
    begin(w);
    assert_int_equal(plan_add(&w->batch, &req, &answer, &refusal), PLAN_REFUSED);
    assert_null(answer);
    assert_int_equal(w->batch.op_count, 0);
    request_close(&req);
    return refusal.code;
}

static inline struct plan_request with_id(struct plan_request req, const char *id)
{
    struct err e = request_set_id(&req, bytes_str(id));
    assert_false(err_is(&e));
    req.body_hash = req.then_count ? request_hash(req.then_ops[0].value) : 0;
    return req;
}
