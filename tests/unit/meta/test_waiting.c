/* Reads that wait: each is resumed exactly once, with the right reason. The replica is played by
 * this test. */
#include "common/base/clock.h"
#include "common/base/mem.h"
#include "meta/board.h"
#include "meta/replica.h"
#include "meta/waiting.h"
#include "tests/lib/wait_for.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

static _Atomic uint64_t asked;
static _Atomic int64_t applied;

uint64_t replica_ask(struct replica *r)
{
    return atomic_fetch_add(&asked, 1) + 1;
}

int64_t replica_applied(struct replica *r)
{
    return atomic_load(&applied);
}

struct kit {
    struct board *board;
    struct waiting *waiting;
};

/* One that waits, seen from outside. */
struct read {
    struct waiter waiter;
    _Atomic int resumed;
    enum err_code code;
    uint64_t epoch;
};

static void on_resume(struct waiter *w, const struct err *err, uint64_t epoch)
{
    struct read *r = (struct read *)w;
    r->code = err->code;
    r->epoch = epoch;
    atomic_fetch_add(&r->resumed, 1);
}

static struct read *add(struct kit *k, struct waiter what)
{
    struct read *r = mem_alloc(sizeof *r);
    r->waiter = what;
    r->waiter.resume = on_resume;
    if (!r->waiter.deadline_ms)
        r->waiter.deadline_ms = INT64_MAX;
    struct err e = waiting_add(k->waiting, &r->waiter);
    assert_false(err_is(&e));
    return r;
}

static void assert_resumed(struct read *r, enum err_code code, uint64_t epoch)
{
    WAIT_FOR(atomic_load(&r->resumed) == 1);
    assert_int_equal(r->code, code);
    assert_int_equal(r->epoch, epoch);
    free(r);
}

static int set_up(void **state)
{
    struct kit *k = mem_alloc(sizeof *k);
    atomic_store(&asked, 0);
    atomic_store(&applied, 10);
    k->board = board_new("m", "h:1");
    board_set_role(k->board, ROLE_LEADER, 3);
    k->waiting = waiting_start(k->board, NULL);
    *state = k;
    return 0;
}

static int tear_down(void **state)
{
    struct kit *k = *state;
    waiting_stop(k->waiting);
    board_free(k->board);
    free(k);
    return 0;
}

static void a_confirmation_resumes_those_that_asked_before_it(void **state)
{
    struct kit *k = *state;
    struct read *first = add(k, (struct waiter){.needs_leader = true});
    struct read *second = add(k, (struct waiter){.needs_leader = true});
    struct read *third = add(k, (struct waiter){.needs_leader = true});
    WAIT_FOR(atomic_load(&asked) == 3);
    waiting_on_confirmed(k->waiting, 3, 2);
    assert_resumed(first, ERR_OK, 3);
    assert_resumed(second, ERR_OK, 3);
    assert_int_equal(atomic_load(&third->resumed), 0);
    waiting_on_confirmed(k->waiting, 3, 3);
    assert_resumed(third, ERR_OK, 3);
}

static void the_end_of_the_leadership_ends_what_needs_it(void **state)
{
    struct kit *k = *state;
    struct read *confirmed = add(k, (struct waiter){.needs_leader = true});
    struct read *current = add(k, (struct waiter){.needs_leader = true, .revision = 20});
    struct read *stale = add(k, (struct waiter){.revision = 20});
    WAIT_FOR(atomic_load(&asked) == 1);
    board_set_role(k->board, ROLE_STEPPING_DOWN, 3);
    waiting_on_role(k->waiting);
    assert_resumed(confirmed, ERR_NOT_LEADER, 0);
    assert_resumed(current, ERR_NOT_LEADER, 0);
    struct read *late = add(k, (struct waiter){.needs_leader = true});
    assert_resumed(late, ERR_NOT_LEADER, 0);
    assert_int_equal(atomic_load(&stale->resumed), 0);
    atomic_store(&applied, 20);
    waiting_on_applied(k->waiting, 20);
    assert_resumed(stale, ERR_OK, 0);
}

static void a_revision_resumes_those_that_wait_for_no_more(void **state)
{
    struct kit *k = *state;
    struct read *there = add(k, (struct waiter){.revision = 10});
    assert_resumed(there, ERR_OK, 0);
    struct read *near = add(k, (struct waiter){.revision = 12});
    struct read *far = add(k, (struct waiter){.revision = 100});
    for (int64_t revision = 11; revision <= 13; revision++) {
        atomic_store(&applied, revision);
        waiting_on_applied(k->waiting, revision);
    }
    assert_resumed(near, ERR_OK, 0);
    assert_int_equal(atomic_load(&far->resumed), 0);
    waiting_drain(k->waiting);
    assert_resumed(far, ERR_DRAINING, 0);
}

static void deadlines_end_the_waiting(void **state)
{
    struct kit *k = *state;
    int64_t now_ms = clock_boot_ms();
    struct read *past = add(k, (struct waiter){.revision = 20, .deadline_ms = now_ms - 5});
    struct read *soon = add(k, (struct waiter){.needs_leader = true, .deadline_ms = now_ms + 20});
    struct read *never = add(k, (struct waiter){.needs_leader = true});
    assert_resumed(past, ERR_TIMEOUT, 0);
    assert_resumed(soon, ERR_TIMEOUT, 0);
    waiting_on_confirmed(k->waiting, 3, 2);
    assert_resumed(never, ERR_OK, 3);
}

static bool was_gone(const struct waiter *w)
{
    return w->id == 9;
}

static void who_is_gone_waits_no_more(void **state)
{
    struct kit *k = *state;
    uint64_t id = waiting_new_id(k->waiting);
    assert_int_not_equal(id, waiting_new_id(k->waiting));
    struct read *one = add(k, (struct waiter){.revision = 20, .id = id, .is_gone = was_gone});
    struct read *other = add(k, (struct waiter){.needs_leader = true, .id = 7});
    struct read *early = add(k, (struct waiter){.revision = 20, .id = 9, .is_gone = was_gone});
    assert_resumed(early, ERR_CANCELLED, 0);
    waiting_cancel(k->waiting, 7);
    waiting_cancel(k->waiting, id);
    waiting_cancel(k->waiting, id); /* it is not there any more */
    assert_resumed(one, ERR_CANCELLED, 0);
    assert_resumed(other, ERR_CANCELLED, 0);
}

static void nobody_is_added_while_draining(void **state)
{
    struct kit *k = *state;
    struct waiter w = {.revision = 20, .deadline_ms = INT64_MAX, .resume = on_resume};
    waiting_drain(k->waiting);
    assert_int_equal(waiting_add(k->waiting, &w).code, ERR_DRAINING);
}

static void too_many_are_refused(void **state)
{
    struct kit *k = *state;
    struct read **all = mem_array(WAITING_MAX, sizeof *all);
    struct waiter more = {.revision = 20, .deadline_ms = INT64_MAX, .resume = on_resume};
    for (int i = 0; i < WAITING_MAX; i++)
        all[i] = add(k, (struct waiter){.revision = 20});
    assert_int_equal(waiting_add(k->waiting, &more).code, ERR_OVERLOADED);
    atomic_store(&applied, 20);
    waiting_on_applied(k->waiting, 20);
    for (int i = 0; i < WAITING_MAX; i++)
        assert_resumed(all[i], ERR_OK, 0);
    free(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_confirmation_resumes_those_that_asked_before_it, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_end_of_the_leadership_ends_what_needs_it, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_revision_resumes_those_that_wait_for_no_more, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(deadlines_end_the_waiting, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_is_gone_waits_no_more, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nobody_is_added_while_draining, set_up, tear_down),
        cmocka_unit_test_setup_teardown(too_many_are_refused, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
