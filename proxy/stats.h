/* What a worker counts: plain numbers that only its thread writes and the HTTP thread reads. */
#pragma once
#include "proxy/core/method_table.h"
#include "proxy/core/relay_decide.h"
#include <stdint.h>

#define STATS_STATUSES 18 /* gRPC status codes; the last: none */
#define STATS_BUCKETS_MAX 17

/* Upper ends in seconds, ended by a 0; the bounds of the metrics of these names. */
extern const double stats_parked_bounds[], stats_call_bounds[], stats_added_bounds[];

struct stats_histogram {
    uint64_t buckets[STATS_BUCKETS_MAX]; /* one for each bound, and one for the rest */
    uint64_t sum_ns;
};

struct stats {
    uint64_t rpcs[METHOD_CLASSES][STATS_STATUSES];
    uint64_t cancelled;
    uint64_t attempts, replays;
    uint64_t retries[RELAY_EVENTS]; /* calls to be sent again, by what happened to the attempt */
    uint64_t parked;
    struct stats_histogram parked_times, call_times[METHOD_CLASSES], added_times;
    uint64_t connects, connect_failures, connections_lost;
    uint64_t request_bytes, answer_bytes;
    uint64_t limit_park, limit_headers, limit_relay, limit_replay, limit_reset, limit_frames,
        limit_idle;
    uint64_t clients_accepted, leader_changes;
    /* as they are now */
    uint64_t clients, calls, parked_now, relay_bytes, replay_bytes, epoch, leader_known, ever_known;
};

static inline void stat_add(uint64_t *counter, uint64_t n)
{
    __atomic_store_n(counter, *counter + n, __ATOMIC_RELAXED);
}
static inline void stat_set(uint64_t *gauge, uint64_t value)
{
    __atomic_store_n(gauge, value, __ATOMIC_RELAXED);
}
static inline uint64_t stat_get(const uint64_t *number)
{
    return __atomic_load_n(number, __ATOMIC_RELAXED);
}
static inline void stat_observe(struct stats_histogram *h, const double *bounds, int64_t ns)
{
    double seconds = (double)ns * 1e-9;
    size_t i = 0;
    while (bounds[i] != 0 && seconds > bounds[i])
        i++;
    stat_add(&h->buckets[i], 1);
    stat_add(&h->sum_ns, (uint64_t)ns);
}
