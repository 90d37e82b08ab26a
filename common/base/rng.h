/* Random numbers from a seed that is part of the state (xoshiro256** by Blackman and Vigna, seeded
 * by splitmix64): simulations repeat. Not for secrets; identifiers come from rng_hex over an OS
 * seed. */
#pragma once
#include <stddef.h>
#include <stdint.h>

struct rng {
    uint64_t s[4];
};

void rng_seed(struct rng *r, uint64_t seed);
void rng_seed_os(struct rng *r); /* 256 bits from the kernel */
uint64_t rng_next(struct rng *r);
uint64_t rng_below(struct rng *r, uint64_t n);         /* 0 .. n-1; 0 for n = 0 */
void rng_hex(struct rng *r, char *out, size_t digits); /* digits characters and a 0 */
