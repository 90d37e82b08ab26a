/* A closed loop of calls: so many in flight, a new one when one is answered. */
#pragma once
#include "client/core/latency.h"
#include "common/base/err.h"
#include <stddef.h>

enum bench_mix { BENCH_GET, BENCH_PUT, BENCH_MIXED };

struct bench_config {
    const char *addresses;
    enum bench_mix mix; /* MIXED: half puts, half gets */
    int concurrency;
    int channels; /* connections to an address */
    int64_t duration_ms, timeout_ms;
    int attempts_max; /* of one operation */
    size_t value_bytes;
    int64_t keys;
    bool request_ids;
    bool progress;             /* a line on stderr each second */
    const volatile bool *stop; /* set: end early */
};

#define BENCH_ERRORS_SHOWN 5

struct bench_result {
    uint64_t ops, errors, attempts;
    int64_t elapsed_us;
    struct latency latency; /* of operations that succeeded, with all their attempts */
    int64_t longest_gap_us; /* between successes, the start and the end included */
    char first_errors[BENCH_ERRORS_SHOWN][320];
    int shown;
};

/* Runs until the time is over and everything in flight is answered. USAGE for a bad address. */
struct err bench_run(const struct bench_config *cfg, struct bench_result *out);
