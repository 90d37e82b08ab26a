/* Each hole of election.md, tried on purpose. `sim_test_holes --trace NAME` tells one step by step.
 */
#include "common/base/mem.h"
#include "tests/sim/holes.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

static const struct {
    const struct hole *holes;
    const size_t *count;
} groups[] = {
    {holes_of_reads, &holes_of_reads_count},
    {holes_of_writes, &holes_of_writes_count},
    {holes_of_roles, &holes_of_roles_count},
    {holes_of_operators, &holes_of_operators_count},
};

static void play(void **state)
{
    char violation[400];
    if (!hole_play(*state, false, violation))
        fail_msg("%s", violation);
}

static int trace(const char *name)
{
    char violation[400];
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
        for (size_t i = 0; i < *groups[g].count; i++) {
            if (strcmp(groups[g].holes[i].name, name) == 0)
                return !hole_play(&groups[g].holes[i], true, violation);
        }
    }
    printf("there is no schedule %s\n", name);
    return 2;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--trace") == 0)
        return trace(argv[2]);
    struct CMUnitTest tests[64];
    size_t count = 0;
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
        for (size_t i = 0; i < *groups[g].count; i++)
            tests[count++] = (struct CMUnitTest){.name = groups[g].holes[i].name,
                                                 .test_func = play,
                                                 .initial_state = (void *)&groups[g].holes[i]};
    }
    return _cmocka_run_group_tests("holes", tests, count, NULL, NULL);
}
