/* One simulated world: virtual time, an etcd, the members, their clients, and who watches over it
 * all. Everything in it follows from its seed and its plan. Time is real time in microseconds; each
 * member reads it off a clock of its own. */
#pragma once
#include "common/base/rng.h"
#include "tests/sim/event_heap.h"
#include "tests/sim/fake_etcd.h"

enum { MEMBERS = 3, ENDPOINTS = 3, NOBODY = -1 };
enum sim_thread {
    THREAD_ELECTION,
    THREAD_KEEPALIVE,
    THREAD_FOLLOW,
    THREAD_REPLICA,
    THREAD_READER,
    THREADS
};

#define FAULT_LIST(X)                                                                              \
    X(REQUEST_LOST, "request lost on its way to etcd")                                             \
    X(REPLY_LOST, "reply lost after etcd applied it")                                              \
    X(SLOW, "request or reply slowed down")                                                        \
    X(DUPLICATE, "request delivered twice")                                                        \
    X(REFUSED_ONCE, "one attempt refused (too large, denied, overloaded)")                         \
    X(NO_SPACE_ONCE, "one attempt refused for space")                                              \
    X(APPLIED_NO_SPACE, "applied, and answered with no space")                                     \
    X(EMPTY_ANSWER, "answer without anything in it")                                               \
    X(FOREIGN_ANSWER, "answer of another etcd cluster")                                            \
    X(CUT, "member cut off from an etcd endpoint")                                                 \
    X(ENDPOINT_DOWN, "etcd endpoint refuses connections")                                          \
    X(ENDPOINT_LAGS, "etcd endpoint lags behind")                                                  \
    X(ETCD_STALLED, "etcd without a leader")                                                       \
    X(ETCD_FULL, "etcd out of space")                                                              \
    X(PAUSE_MEMBER, "member stopped and continued")                                                \
    X(PAUSE_THREAD, "one thread stuck")                                                            \
    X(CRASH, "member killed")                                                                      \
    X(RESTART, "member started again")                                                             \
    X(GUARDIAN_LATE, "guardian released late")                                                     \
    X(GUARDIAN_LOST, "guardian died too")                                                          \
    X(LEASE_REVOKED, "lease revoked early")                                                        \
    X(LEASE_EXPIRED, "lease expired")                                                              \
    X(KEY_DELETED, "election key deleted by an operator")                                          \
    X(DRAINED, "member told to drain")                                                             \
    X(TRANSFER, "leadership handed over")                                                          \
    X(REMOVED, "member taken out by an operator")                                                  \
    X(UPGRADE, "member to come again as a later version")                                          \
    X(DOWNGRADE, "member to come again as an earlier version")                                     \
    X(ACTIVATION_FAILED, "activation failed")                                                      \
    X(WATCH_ENDED, "watch ended")                                                                  \
    X(WATCH_SILENT, "watch fell silent")                                                           \
    X(WATCH_GAP, "watch skipped a revision")                                                       \
    X(COMPACTED, "etcd compacted")                                                                 \
    X(PROXY_BROKEN, "connection between proxy and member broken")                                  \
    X(PROXY_DUPLICATE, "request sent twice by the proxy")

enum fault {
#define FAULT_ENUM(name, text) FAULT_##name,
    FAULT_LIST(FAULT_ENUM)
#undef FAULT_ENUM
        FAULTS
};

struct net;
struct member;
struct clients;
struct checker;

struct world {
    uint64_t seed;
    int64_t now_us;
    struct rng rng;
    struct event_heap heap;
    struct fake_etcd etcd;
    struct net *net;
    struct member *members; /* MEMBERS of them */
    struct clients *clients;
    struct checker *checker;
    uint64_t slow_readers;   /* millionths */
    int64_t reader_look_us;  /* between a reader's look at the gate and its snapshot */
    int64_t reader_pause_us; /* and from there to its answer; 0: by chance */
    uint64_t faults[FAULTS];
    uint64_t steps, steps_now; /* altogether, and without time going on */
    bool traced;               /* tell what happens on stdout */
    char violation[400];       /* the first one; empty: all is well */
};

/* Members have TTLs of ttl_ms[i] and clocks that run by rate[i]. */
struct world_options {
    uint64_t seed;
    bool traced;
    int64_t ttl_ms[MEMBERS];
    double rate[MEMBERS];
};

struct world *world_new(const struct world_options *options);
void world_free(struct world *w);

/* Runs what comes next; false: nothing is left, or a violation was found. */
bool world_step(struct world *w);
void world_run_until(struct world *w, int64_t us);
/* Until the condition holds; false when it does not within `ms`. */
bool world_wait(struct world *w, int64_t ms, bool (*condition)(struct world *w, void *arg),
                void *arg);

/* Runs `run` in the world after delay_us, or on a thread of a member as soon as that may run. */
void world_at(struct world *w, int64_t delay_us, void (*run)(struct world *, void *), void *arg);
void world_post(struct world *w, int64_t delay_us, int member, int thread,
                void (*run)(struct world *, void *), void (*drop)(void *), void *arg);

void world_trace(struct world *w, int member, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void world_violate(struct world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
const char *fault_str(enum fault fault);
static inline void world_fault(struct world *w, enum fault fault)
{
    w->faults[fault]++;
}
/* True so many times in 1000 000. */
static inline bool world_chance(struct world *w, uint64_t in_million)
{
    return in_million && rng_below(&w->rng, 1000000) < in_million;
}
