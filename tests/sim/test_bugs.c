/* A simulation that finds nothing may be blind. Each deliberate bug must be found by chance within
 * so many seeds, and none must be found without one. `sim_test_bugs [SEEDS]`; `sim_test_bugs
 * --trace BUG SEED`. */
#include "tests/sim/bugs.h"
#include "tests/sim/holes.h"
#include "tests/sim/seeds.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first seed that finds it, or 0. */
static uint64_t hunt(enum bug bug, uint64_t seeds, struct seed_result *r)
{
    bug_only(bug);
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        seed_run(seed, false, r);
        if (r->violation[0])
            return seed;
    }
    return 0;
}

/* Directed schedules that find it, and one of those that do not though they should. */
static size_t directed(enum bug bug, const struct hole *holes, size_t count, const char **blind)
{
    size_t found = 0;
    char violation[400];
    bug_only(bug);
    for (size_t i = 0; i < count; i++) {
        if (holes[i].bug != (int)bug)
            continue;
        if (hole_play(&holes[i], false, violation))
            *blind = holes[i].name;
        else
            found++;
    }
    return found;
}

/* false: it was not found, or a schedule that is meant for it is blind. */
static bool try_bug(enum bug bug, uint64_t seeds)
{
    struct seed_result r;
    const char *blind = NULL;
    size_t found = directed(bug, holes_of_reads, holes_of_reads_count, &blind) +
                   directed(bug, holes_of_writes, holes_of_writes_count, &blind);
    uint64_t seed = hunt(bug, seeds, &r);
    printf("%2d %s: found by %zu directed schedules", bug, bug_str(bug), found);
    if (blind)
        printf(", but not by %s", blind);
    if (seed)
        printf(", and by chance with seed %" PRIu64 ": %s\n", seed, r.violation);
    else
        printf(", not by chance in %" PRIu64 " seeds\n", seeds);
    fflush(stdout);
    return blind == NULL && (found || seed);
}

int main(int argc, char **argv)
{
    struct seed_result r;
    if (argc == 4 && strcmp(argv[1], "--trace") == 0) {
        bug_only((enum bug)atoi(argv[2]));
        seed_run(strtoull(argv[3], NULL, 10), true, &r);
        return 0;
    }
    uint64_t seeds = argc > 1 ? strtoull(argv[1], NULL, 10) : 60;
    int missed = 0;
    for (int bug = 0; bug < BUGS; bug++)
        missed += !try_bug((enum bug)bug, seeds);
    bug_none();
    if (hole_play(&hole_beyond_the_margin, false, r.violation)) {
        printf("clocks that drift beyond the margin go unnoticed\n");
        missed++;
    }
    for (uint64_t seed = 1; seed <= seeds && !missed; seed++) {
        seed_run(seed, false, &r);
        if (r.violation[0])
            printf("without any bug, seed %" PRIu64 ": %s\n", seed, r.violation);
        missed += r.violation[0] != 0;
    }
    return missed != 0;
}
