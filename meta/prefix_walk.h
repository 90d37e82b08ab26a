/* The keys of a snapshot that have one of some prefixes (meta/core/prefixes.h), page by page. */
#pragma once
#include "common/base/buf.h"
#include "common/base/etcd_types.h"

struct store_snapshot;

/* From the key `from` on, in order, until visit answers false; *from is then where to go on: the
 * key that was not taken. Prefixes are tidy; none: every key. true: that was the last of them. */
bool prefix_walk(struct store_snapshot *snap, const struct bytes *prefixes, size_t count,
                 struct buf *from, bool (*visit)(void *arg, const struct etcd_kv *kv), void *arg);
