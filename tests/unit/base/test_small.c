/* The pieces of the shelf that are too small for a file of tests each. */
#include "common/base/backoff.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "common/base/sm.h"
#include <stdarg.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static void backoff_doubles_up_to_its_most(void **state)
{
    struct rng r;
    rng_seed(&r, 1);
    struct backoff b = {.min_ms = 100, .max_ms = 1000};
    static const int64_t wholes[] = {100, 200, 400, 800, 1000, 1000};
    for (size_t i = 0; i < sizeof wholes / sizeof *wholes; i++) {
        int64_t ms = backoff_next_ms(&b, &r);
        assert_in_range(ms, wholes[i] / 2, wholes[i]);
    }
    backoff_reset(&b);
    assert_in_range(backoff_next_ms(&b, &r), 50, 100);
}

static void rng_repeats_and_spreads(void **state)
{
    struct rng a, b;
    rng_seed(&a, 7);
    rng_seed(&b, 7);
    int seen[10] = {0};
    for (int i = 0; i < 10000; i++) {
        assert_int_equal(rng_next(&a), rng_next(&b));
        seen[rng_below(&a, 10)]++;
        rng_below(&b, 10);
    }
    for (int i = 0; i < 10; i++)
        assert_in_range(seen[i], 800, 1200);
    assert_int_equal(rng_below(&a, 0), 0);
    assert_int_equal(rng_below(&a, 1), 0);
}

static void ids_differ(void **state)
{
    struct rng a, b;
    char x[33], y[33];
    rng_seed_os(&a);
    rng_seed_os(&b);
    rng_hex(&a, x, 32);
    rng_hex(&b, y, 32);
    assert_int_equal(strlen(x), 32);
    assert_int_equal(strspn(x, "0123456789abcdef"), 32);
    assert_string_not_equal(x, y);
}

static void errors_wrap_outward(void **state)
{
    struct err e = err_make(ERR_IN_USE, "port %d is taken", 80);
    assert_true(err_is(&e));
    e = err_wrap(e, "member %s", "m1");
    assert_int_equal(e.code, ERR_IN_USE);
    assert_string_equal(e.message, "member m1: port 80 is taken");
    assert_string_equal(err_word(e.code), "IN_USE");
    assert_string_equal(err_word(ERR_OK), "OK");
    assert_string_equal(err_word((enum err_code)9999), "INTERNAL");
    struct err none = OK_ERR;
    assert_false(err_is(&none));
    char big[600];
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = 0;
    e = err_wrap(err_make(ERR_IO, "%s", big), "%s", big);
    assert_int_equal(strlen(e.message), sizeof e.message - 1);
}

enum door { DOOR_CLOSED, DOOR_OPEN, DOOR_LOCKED };
static const char *const door_names[] = {"closed", "open", "locked"};
static const uint32_t door_moves[] = {SM_TO(DOOR_OPEN) | SM_TO(DOOR_LOCKED), SM_TO(DOOR_CLOSED),
                                      SM_TO(DOOR_CLOSED)};
static const struct sm_decl door = {"door", 3, door_names, door_moves};

static void note_move(void *arg, const struct sm *sm, int from, const char *why, int64_t spent_ms)
{
    char *note = arg;
    snprintf(note, 64, "%s->%s %s %d", sm->decl->states[from], sm_str(sm), why, (int)spent_ms);
}

static void machines_move_as_declared(void **state)
{
    char note[64] = "";
    struct sm sm;
    sm_init(&sm, &door, DOOR_CLOSED, 100);
    sm_move(&sm, DOOR_OPEN, "nobody looks", 110);
    sm.moved = note_move;
    sm.arg = note;
    sm_move(&sm, DOOR_CLOSED, "wind", 150);
    assert_string_equal(note, "open->closed wind 40");
    assert_int_equal(sm.since_ms, 150);
}

/* A broken invariant must abort in release builds too; a child does it for us. */
static void undeclared_moves_abort(void **state)
{
    pid_t child = fork();
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        close(STDERR_FILENO);
        struct sm sm;
        sm_init(&sm, &door, DOOR_OPEN, 0);
        sm_move(&sm, DOOR_LOCKED, "not declared", 1);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
}

static void clocks_go_on(void **state)
{
    int64_t boot = clock_boot_ms(), mono = clock_mono_us();
    assert_true(clock_unix_ms() > 1600000000000);
    while (clock_mono_us() - mono < 2000)
        ;
    assert_true(clock_boot_ms() > boot);
}

static void memory_helpers(void **state)
{
    char *s = mem_printf("%s-%d", "a", 5);
    assert_string_equal(s, "a-5");
    char *t = mem_strndup(s, 1);
    assert_string_equal(t, "a");
    free(t);
    t = mem_dup(s, 4);
    assert_string_equal(t, s);
    free(t);
    free(s);
    unsigned char *zeros = mem_array(3, 5);
    for (int i = 0; i < 15; i++)
        assert_int_equal(zeros[i], 0);
    free(zeros);
}

static void log_levels_and_limits(void **state)
{
    enum log_level level;
    assert_true(log_level_parse("warn", &level));
    assert_int_equal(level, LOG_WARN);
    assert_false(log_level_parse("loud", &level));
    struct log_limit limit = {0};
    uint64_t swallowed = 9;
    assert_true(log_allowed(&limit, 60000, &swallowed));
    assert_int_equal(swallowed, 0);
    assert_false(log_allowed(&limit, 60000, &swallowed));
    assert_false(log_allowed(&limit, 60000, &swallowed));
    assert_true(log_allowed(&limit, 0, &swallowed));
    assert_int_equal(swallowed, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(backoff_doubles_up_to_its_most),
        cmocka_unit_test(rng_repeats_and_spreads),
        cmocka_unit_test(ids_differ),
        cmocka_unit_test(errors_wrap_outward),
        cmocka_unit_test(machines_move_as_declared),
        cmocka_unit_test(undeclared_moves_abort),
        cmocka_unit_test(clocks_go_on),
        cmocka_unit_test(memory_helpers),
        cmocka_unit_test(log_levels_and_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
