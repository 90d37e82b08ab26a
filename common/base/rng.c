#include "common/base/rng.h"
#include "common/base/check.h"
#include <sys/random.h>

static uint64_t splitmix(uint64_t *x)
{
    uint64_t z = (*x += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}

void rng_seed(struct rng *r, uint64_t seed)
{
    for (int i = 0; i < 4; i++)
        r->s[i] = splitmix(&seed);
}

void rng_seed_os(struct rng *r)
{
    ssize_t n = getrandom(r->s, sizeof r->s, 0);
    POST(n == (ssize_t)sizeof r->s);
}

static uint64_t rotate(uint64_t x, int k)
{
    return (x << k) | (x >> (64 - k));
}

uint64_t rng_next(struct rng *r)
{
    uint64_t *s = r->s;
    uint64_t result = rotate(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 45);
    return result;
}

uint64_t rng_below(struct rng *r, uint64_t n)
{
    return n ? (uint64_t)(((__uint128_t)rng_next(r) * n) >> 64) : 0;
}

void rng_hex(struct rng *r, char *out, size_t digits)
{
    for (size_t i = 0; i < digits; i++)
        out[i] = "0123456789abcdef"[rng_next(r) >> 60];
    out[digits] = 0;
}
