/* Resume tokens: how far the reader of a stream has come, and in the state of which cluster. Opaque
 * to readers; the same for every stream of a member. Pure. */
#pragma once
#include "common/base/err.h"
#include "meta/core/cluster.h"

struct resume {
    char cluster_id[CLUSTER_ID_MAX + 1];
    uint64_t incarnation;
    int64_t revision; /* everything up to it was told */
};

void resume_encode(const struct resume *r, struct buf *out);
/* BAD_REQUEST: nobody gave out such a token. */
struct err resume_decode(struct bytes token, struct resume *out);
