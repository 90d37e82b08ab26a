/* The epoch guard with its lock and, if asked, its file. Any thread. */
#pragma once
#include "client/core/guard.h"

struct baton_guard;

/* As of baton_guard_open. */
struct err guard_open(struct baton_guard **out, const char *path);
void guard_close(struct baton_guard *g); /* NULL is allowed */
/* OK: the epoch is not below the highest seen, and kept. STALE_EPOCH, OTHER_CLUSTER; IO, CORRUPT.
 */
struct err guard_admit(struct baton_guard *g, const char *cluster, uint64_t epoch);
struct guard guard_seen(struct baton_guard *g);
