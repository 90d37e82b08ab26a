/* A simulation that finds nothing may be blind. Each deliberate bug must be found by chance within so many
 * seeds, and none must be found without one. `sim_test_bugs [SEEDS]`; `sim_test_bugs --trace BUG SEED`. */
#include "tests/sim/bugs.h"
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

int main(int argc, char **argv)
{
    struct seed_result r;
    if (argc == 4 && strcmp(argv[1], "--trace") == 0) {
        bug_only((enum bug)atoi(argv[2]));
        seed_run(strtoull(argv[3], NULL, 10), true, &r);
        return 0;
    }
    uint64_t seeds = argc > 1 ? strtoull(argv[1], NULL, 10) : 2000;
    int missed = 0, first = argc > 2 ? atoi(argv[2]) : 0;
    for (int bug = first; bug < BUGS; bug++) {
        uint64_t seed = hunt((enum bug)bug, seeds, &r);
        missed += seed == 0;
        printf("%2d %-60s %s %" PRIu64 "\n     %s\n", bug, bug_str((enum bug)bug),
               seed ? "found by seed" : "NOT FOUND in seeds up to", seed ? seed : seeds,
               seed ? r.violation : "");
        fflush(stdout);
    }
    return missed != 0;
}
