#include "common/base/rpc_status.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static void every_error_survives_the_wire(void **state)
{
    for (int code = ERR_OK + 1; code < ERR_CODES; code++) {
        enum rpc_status status = rpc_status_of((enum err_code)code);
        assert_int_not_equal(status, RPC_OK);
        assert_int_equal(rpc_code_of(status, err_word((enum err_code)code)), code);
    }
}

static void roles_are_never_told_as_unimplemented(void **state)
{
    enum err_code roles[] = {ERR_NOT_LEADER, ERR_ACTIVATING, ERR_NO_LEADER, ERR_DRAINING,
                             ERR_FENCED};
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        assert_int_equal(rpc_status_of(roles[i]), RPC_UNAVAILABLE);
        assert_int_equal(rpc_effect_of(roles[i]), RPC_EFFECT_NONE);
    }
}

static void what_may_have_happened_is_never_called_undone(void **state)
{
    enum err_code open[] = {
        ERR_OUTCOME_UNKNOWN, ERR_REQUEST_ID_EXPIRED, ERR_TIMEOUT, ERR_CANCELLED, ERR_LOST,
        ERR_INTERNAL};
    for (size_t i = 0; i < sizeof open / sizeof *open; i++)
        assert_int_equal(rpc_effect_of(open[i]), RPC_EFFECT_UNKNOWN);
}

static void a_foreign_status_has_a_code(void **state)
{
    for (int status = RPC_CANCELLED; status <= RPC_UNAUTHENTICATED + 1; status++)
        assert_int_not_equal(rpc_code_of(status, NULL), ERR_OK);
    assert_int_equal(rpc_code_of(RPC_UNAVAILABLE, "SOMETHING_NEW"), ERR_LOST);
    assert_int_equal(rpc_code_of(RPC_OK, "NOT_LEADER"), ERR_OK);
    assert_string_equal(rpc_status_str(RPC_UNAVAILABLE), "UNAVAILABLE");
    assert_string_equal(rpc_status_str(99), "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_error_survives_the_wire),
        cmocka_unit_test(roles_are_never_told_as_unimplemented),
        cmocka_unit_test(what_may_have_happened_is_never_called_undone),
        cmocka_unit_test(a_foreign_status_has_a_code),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
