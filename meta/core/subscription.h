/* What a subscriber of notifications wants to hear of, as plain values. */
#pragma once
#include "common/base/arena.h"
#include "common/base/err.h"
#include "meta/core/prefixes.h"

enum {
    SUBSCRIPTION_KIND_MAX = 64,      /* characters */
    SUBSCRIPTION_PREFIXES_MAX = 100, /* and worker types */
};

/* The bits of `topics` are those of the contract's numbers. */
enum subscription_topic {
    TOPIC_MEMBERS = 1u << 1,
    TOPIC_LEADER = 1u << 2,
    TOPIC_WORKERS = 1u << 3,
    TOPIC_KEYS = 1u << 4,
    TOPICS_ALL = TOPIC_MEMBERS | TOPIC_LEADER | TOPIC_WORKERS | TOPIC_KEYS,
};

/* What it shows is not its own. */
struct subscription {
    struct bytes kind;
    unsigned topics;
    struct bytes *prefixes; /* of KEYS; none: every key */
    size_t prefix_count;
    struct bytes *types; /* of WORKERS; none: all */
    size_t type_count;
    struct bytes token; /* empty: a snapshot */
};

/* BAD_REQUEST names the field; OK: the prefixes are tidied for the functions below. */
struct err subscription_check(struct subscription *s);
bool subscription_wants_key(const struct subscription *s, struct bytes key);
bool subscription_wants_worker(const struct subscription *s, struct bytes type);

/* What is wanted, without by whom and since when: the same bytes for the same wishes, of a
 * subscription that was checked. */
void subscription_encode(const struct subscription *s, struct buf *out);
/* What it shows lives in the arena. */
void subscription_decode(struct bytes wishes, struct arena *memory, struct subscription *out);
