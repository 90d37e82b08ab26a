/* An address that is dialled: a seed, a member, the leader. Owns its connections; resolves its name
 * anew after every failed dial. */
#pragma once
#include "common/base/backoff.h"
#include "proxy/question.h"
#include <netdb.h>

#define TARGET_LINKS_MAX 16
#define TARGET_ADDRESSES_MAX 16
#define TARGET_DIAL_TIMEOUT_MS 2000

struct follow;

struct target {
    struct follow *follow;
    struct target *next;
    char name[256]; /* host:port, as it was told */
    char host[250], port[6];
    int seed; /* slot in the view, -1: none */
    bool is_seed, listed;
    struct target *parent; /* the seed whose name has this address; NULL: none */
    struct uplink *links[TARGET_LINKS_MAX];
    size_t link_count;
    bool resolving;
    uv_getaddrinfo_t resolve;
    struct sockaddr_storage addresses[TARGET_ADDRESSES_MAX];
    size_t address_count, address_next;
    unsigned foreign; /* reports in a row that named another cluster */
    bool stale;       /* resolve before the next dial */
    int64_t dial_not_before_ms;
    struct backoff backoff;
    struct question watch, list;
    bool removed; /* freed as soon as nothing refers to it */
};

/* NULL: the name is no address. */
struct target *target_new(struct follow *f, const char *name);
/* Sees to it that there is at least one connection, made or in the making. */
void target_dial(struct target *t);
void target_hurry(struct target *t); /* forgets the pause after failures */
/* A connection with a free stream, or NULL; then another one is dialled when more are allowed. */
struct uplink *target_pick(struct target *t);
void target_on_ready(struct target *t, struct uplink *l);
void target_on_lost(struct target *t, struct uplink *l, const char *why);
void target_on_retired(struct target *t, const struct uplink *l);
void target_tick(struct target *t, int64_t now_ms);
bool target_is_ready(const struct target *t);
/* Ends its connections; the memory goes when the last is closed. */
void target_remove(struct target *t);
