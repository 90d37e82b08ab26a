/* The epoch guard: the highest epoch seen of a cluster, by which what a deposed leader sends late
 * is told from what counts. */
#pragma once
#include "common/base/buf.h"
#include "common/base/err.h"

#define GUARD_CLUSTER_MAX 64

/* All zero has seen nothing. */
struct guard {
    char cluster[GUARD_CLUSTER_MAX];
    uint64_t epoch;
};

enum guard_verdict {
    GUARD_SAME,   /* admitted; nothing is new */
    GUARD_HIGHER, /* to be admitted once it is kept */
    GUARD_STALE,
    GUARD_OTHER_CLUSTER,
};

/* Changes nothing. */
enum guard_verdict guard_judge(const struct guard *g, const char *cluster, uint64_t epoch);
/* After GUARD_HIGHER. */
void guard_raise(struct guard *g, const char *cluster, uint64_t epoch);

/* As a file, one line of text with a sum over it. Replaces what out held. */
void guard_encode(const struct guard *g, struct buf *out);
/* CORRUPT when it is not what guard_encode wrote. */
struct err guard_decode(struct bytes file, struct guard *out);
