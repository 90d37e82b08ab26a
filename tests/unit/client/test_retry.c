#include "client/core/retry.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static const struct {
    const char *what;
    enum err_code code;
    bool not_executed, idempotent, has_id;
    enum retry_verdict verdict;
} table[] = {
    {"an answer is an answer", ERR_OK, false, true, true, RETRY_FINAL},
    {"refused by role", ERR_NOT_LEADER, true, false, false, RETRY_AGAIN},
    {"leader is busy taking over", ERR_ACTIVATING, true, false, false, RETRY_AGAIN},
    {"nobody leads", ERR_NO_LEADER, true, false, false, RETRY_AGAIN},
    {"shuts down", ERR_DRAINING, true, false, false, RETRY_AGAIN},
    {"the state is being loaded", ERR_NOT_READY, true, true, false, RETRY_AGAIN},
    {"another leader knows better", ERR_STALE_EPOCH, false, true, false, RETRY_AGAIN},
    {"another leader, and nothing protects it", ERR_STALE_EPOCH, false, false, false, RETRY_FINAL},
    {"deposed, nothing happened", ERR_FENCED, true, false, false, RETRY_AGAIN},
    {"deposed, perhaps happened", ERR_FENCED, false, false, false, RETRY_FINAL},
    {"deposed, perhaps happened, with an id", ERR_FENCED, false, false, true, RETRY_AGAIN},
    {"cannot connect", ERR_UNREACHABLE, true, false, false, RETRY_AGAIN},
    {"lost, and nothing protects it", ERR_LOST, false, false, false, RETRY_FINAL},
    {"lost, harmless method", ERR_LOST, false, true, false, RETRY_AGAIN},
    {"lost, with an id", ERR_LOST, false, false, true, RETRY_AGAIN},
    {"open, with an id", ERR_OUTCOME_UNKNOWN, false, false, true, RETRY_AGAIN},
    {"open, without", ERR_OUTCOME_UNKNOWN, false, false, false, RETRY_FINAL},
    {"the deadline is over", ERR_TIMEOUT, false, true, true, RETRY_FINAL},
    {"a limit is final, though nothing happened", ERR_OVERLOADED, true, true, true, RETRY_FINAL},
    {"no space", ERR_NO_SPACE, true, true, true, RETRY_FINAL},
    {"a bad request stays bad", ERR_BAD_REQUEST, true, true, true, RETRY_FINAL},
    {"its id is forgotten", ERR_REQUEST_ID_EXPIRED, false, true, true, RETRY_FINAL},
    {"a broken peer", ERR_INTERNAL, false, true, true, RETRY_FINAL},
    {"a state from the past", ERR_EPOCH_REGRESSION, true, true, true, RETRY_FINAL},
};

static void the_rule(void **state)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct retry_call call = {.idempotent = table[i].idempotent,
                                  .has_request_id = table[i].has_id};
        struct retry_outcome last = {
            .code = table[i].code, .not_executed = table[i].not_executed, .attempts = 1};
        if (retry_decide(&call, &last) != table[i].verdict)
            fail_msg("%s", table[i].what);
    }
}

static void attempts_are_counted(void **state)
{
    struct retry_call call = {.idempotent = true, .attempts_max = 3};
    struct retry_outcome last = {.code = ERR_LOST, .attempts = 2};
    assert_int_equal(retry_decide(&call, &last), RETRY_AGAIN);
    last.attempts = 3;
    assert_int_equal(retry_decide(&call, &last), RETRY_FINAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rule),
        cmocka_unit_test(attempts_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
