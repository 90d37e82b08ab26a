/* Many seeds on the cores as they are: no violation. `sim_test_seeds [COUNT [FIRST]]`, or
 * BATON_SIM_SEEDS; `sim_test_seeds --trace SEED` tells one of them step by step. */
#include "tests/sim/seeds.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct total {
    struct seed_result sum;
    uint64_t seeds, failed;
    int64_t slowest_ms;
};

static void add(struct total *t, const struct seed_result *r)
{
    t->seeds++;
    for (int i = 0; i < FAULTS; i++)
        t->sum.faults[i] += r->faults[i];
    t->sum.takeovers += r->takeovers;
    t->sum.commits += r->commits;
    t->sum.operations += r->operations;
    t->sum.reads += r->reads;
    t->sum.quorum_reads += r->quorum_reads;
    t->sum.refused += r->refused;
    t->sum.unknown += r->unknown;
    t->sum.steps += r->steps;
    t->slowest_ms = r->recovered_ms > t->slowest_ms ? r->recovered_ms : t->slowest_ms;
}

static void print(const struct total *t)
{
    const struct seed_result *s = &t->sum;
    printf("%" PRIu64 " seeds, %" PRIu64 " failed\n", t->seeds, t->failed);
    printf("%12" PRIu64 "  takeovers\n%12" PRIu64 "  commits\n%12" PRIu64 "  of unknown outcome\n",
           s->takeovers, s->commits, s->unknown);
    printf("%12" PRIu64 "  operations\n%12" PRIu64 "  of them local reads\n%12" PRIu64
           "  of them confirmed reads\n%12" PRIu64 "  refused for good\n",
           s->operations, s->reads, s->quorum_reads, s->refused);
    printf("%12" PRIu64 "  steps\n%12" PRId64 "  ms, the slowest recovery\nfaults:\n", s->steps,
           t->slowest_ms);
    for (int i = 0; i < FAULTS; i++)
        printf("%12" PRIu64 "  %s\n", s->faults[i], fault_str((enum fault)i));
}

static int trace(const char *program, uint64_t seed)
{
    struct seed_result r;
    seed_run(seed, true, &r);
    printf("%s --trace %" PRIu64 ": %s\n", program, seed,
           r.violation[0] ? r.violation : "no violation");
    return r.violation[0] != 0;
}

int main(int argc, char **argv)
{
    const char *wanted = getenv("BATON_SIM_SEEDS");
    if (argc == 3 && strcmp(argv[1], "--trace") == 0)
        return trace(argv[0], strtoull(argv[2], NULL, 10));
    uint64_t count = strtoull(wanted ? wanted : argc > 1 ? argv[1] : "10000", NULL, 10);
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    struct total total = {0};
    for (uint64_t seed = first; seed < first + count && total.failed < 10; seed++) {
        struct seed_result r;
        seed_run(seed, false, &r);
        add(&total, &r);
        if (r.violation[0]) {
            total.failed++;
            printf("seed %" PRIu64 ": %s\n  tell it: %s --trace %" PRIu64 "\n", seed, r.violation,
                   argv[0], seed);
            fflush(stdout);
        }
    }
    print(&total);
    return total.failed != 0;
}
