/* What a worker counts: plain numbers that only its thread writes and the HTTP thread reads. */
#pragma once
#include "proxy/core/method_table.h"
#include <stdint.h>

#define STATS_STATUSES 18 /* gRPC status codes; the last: none */
#define STATS_PARK_BUCKETS 10

/* Upper ends in milliseconds; a last bucket takes the rest. */
extern const int64_t stats_park_bounds_ms[STATS_PARK_BUCKETS];

struct stats {
    uint64_t rpcs[METHOD_CLASSES][STATS_STATUSES];
    uint64_t cancelled;
    uint64_t attempts, replays;
    uint64_t parked;
    uint64_t park_buckets[STATS_PARK_BUCKETS + 1];
    uint64_t park_ms;
    uint64_t connects, connect_failures;
    uint64_t bytes_in, bytes_out; /* request and answer payload */
    uint64_t limit_park, limit_headers, limit_relay, limit_reset, limit_frames, limit_idle;
    uint64_t clients_accepted;
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
