/* The value of the `cluster` key: what holds for the whole cluster and outlives leaderships.
 * Written when the cluster begins, then only by whoever compares the exact value that it replaces:
 * a leader that raises the format level, a recovery after a restore of etcd, an import. */
#pragma once
#include "meta/core/record.h"

enum {
    CLUSTER_REST_MAX = 256,                 /* bytes of fields of later versions */
    CLUSTER_FORMAT_FIRST = 1,               /* the level of a cluster that begins */
    CLUSTER_INCARNATION_FIRST = 1,          /* likewise */
    CLUSTER_ID_MAX = CLUSTER_ID_DIGITS + 7, /* characters of an id that is still understood */
};
#define CLUSTER_FLOOR_MAX (UINT64_MAX - 1000000) /* leaves epochs to come */

struct cluster {
    char id[CLUSTER_ID_MAX + 1];
    uint32_t format;      /* level in use: everybody who leads must speak it */
    uint64_t incarnation; /* grows with each recovery: what was handed out before it is void */
    uint64_t epoch_floor; /* the next takeover's epoch is above it, and above its predecessor's */
    char rest[CLUSTER_REST_MAX]; /* fields this version does not know, as they stand there */
};

/* Fields of later versions are kept: decoding and encoding gives them back. Values written before
 * there were incarnations are the first one, with no floor. */
void cluster_encode(const struct cluster *c, struct buf *out);
struct err cluster_decode(struct bytes value, struct cluster *out);
bool cluster_equal(const struct cluster *a, const struct cluster *b);
void cluster_begin(struct cluster *c, const char *id); /* as a new cluster starts */

/* The next takeover's epoch is above this one, in a new incarnation. false: the floor is as high
 * already, nothing changed. above is at most CLUSTER_FLOOR_MAX. */
bool cluster_raise(struct cluster *c, uint64_t above);

/* The epoch of the takeover that replaces `old` (epoch 0: there was none). */
uint64_t cluster_next_epoch(const struct cluster *c, uint64_t old);
