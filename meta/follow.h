/* Follows etcd: one request with three watches, `state/` for the replica, `live/` for the live
 * table, and `cluster`. Before anything of it is believed, the
 * admission judges it. Lists what is live anew at each connect, lists the whole state where the
 * watch cannot go on, changes the endpoint when the watch falls silent. */
#pragma once
#include "common/base/err.h"
#include <stdbool.h>
#include <stdint.h>

struct follow;
struct etcd_access;
struct board;
struct live;
struct replica;
struct candidate;
struct cluster;
struct marks;

struct follow_config {
    const struct etcd_access *etcd;
    const char *prefix; /* "/baton/<cluster>/" */
    int64_t ttl_ms;
    struct board *board;
    struct live *live;
    struct replica *replica;
    struct candidate *candidate; /* told of each commit record as soon as it arrives */
    struct marks *marks;
    /* See admission.h. */
    struct err (*confirm)(void *ctx, const struct cluster *cluster);
    void (*decided)(void *ctx, const struct err *why, const struct cluster *cluster, uint64_t etcd);
    void *ctx;
};

struct err follow_start(struct follow **out, const struct follow_config *cfg);
/* Joins the thread; it may still be spoken to until follow_free. NULL is allowed. */
void follow_stop(struct follow *f);
void follow_free(struct follow *f);

/* Reopens the state watch at the replica's applied revision + 1, or with `reload` lists the state
 * anew. What the present watch still brings carries an older generation than the one returned. Any
 * thread. */
uint64_t follow_reopen(struct follow *f, bool reload);
/* Whether the watch is open and was heard of lately. */
bool follow_healthy(struct follow *f);
int64_t follow_silent_ms(struct follow *f); /* since the watch brought something */
