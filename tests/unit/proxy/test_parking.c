#include "proxy/relay.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

static void assert_line(const struct parking *p, const struct call *calls, const char *wanted)
{
    size_t n = 0;
    for (const struct call *c = p->first; c; c = c->park_next, n++)
        assert_int_equal(c - calls, wanted[n] - '0');
    assert_int_equal(wanted[n], 0);
    assert_int_equal(p->count, n);
}

static void first_come_first_out_whoever_leaves(void **state)
{
    static struct call calls[5];
    struct parking p;
    parking_init(&p);
    for (int i = 0; i < 4; i++)
        parking_add(&p, &calls[i]);
    assert_line(&p, calls, "0123");
    parking_remove(&p, &calls[1]);
    parking_remove(&p, &calls[1]);
    assert_line(&p, calls, "023");
    parking_remove(&p, &calls[3]);
    parking_add(&p, &calls[4]);
    parking_add(&p, &calls[1]);
    assert_line(&p, calls, "0241");
    parking_remove(&p, &calls[0]);
    assert_line(&p, calls, "241");
    for (int i = 0; i < 5; i++)
        parking_remove(&p, &calls[i]);
    assert_line(&p, calls, "");
    parking_add(&p, &calls[3]);
    assert_line(&p, calls, "3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_come_first_out_whoever_leaves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
