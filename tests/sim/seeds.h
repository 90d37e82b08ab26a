/* One seed: a world, a while of chaos, a while of peace, and what must hold at the end. */
#pragma once
#include "tests/sim/world.h"

struct seed_result {
    char violation[400]; /* "": none */
    uint64_t faults[FAULTS];
    uint64_t takeovers, commits, operations, reads, quorum_reads, refused, unknown, steps;
    int64_t recovered_ms; /* of virtual time until everybody had an answer */
};

void seed_run(uint64_t seed, bool traced, struct seed_result *out);
