/* What is alive in etcd: candidates in their order, members, the last released leadership. A table
 * in memory that the watch keeps; listed anew at each connect. */
#pragma once
#include "common/base/etcd_types.h"
#include "meta/core/record.h"

struct live;
struct board;
struct candidate;

struct live *live_new(const char *prefix, struct board *board);
void live_free(struct live *l);

/* ---- from the follow thread ---- */
void live_connect(struct live *l, struct candidate *candidate); /* whom live_tell tells */
/* A listing at this revision. */
void live_reset(struct live *l, const struct etcd_kv *kvs, size_t count, int64_t revision);
void live_event(struct live *l, const struct etcd_event *e);
/* Tells the election and the board what has become of the table since it was told last. */
void live_tell(struct live *l);

/* ---- any thread ---- */
/* Copies at most `max` members, sorted by id; returns how many there are. */
#define LIVE_MEMBERS_MAX 128
size_t live_members(struct live *l, struct member_info *out, size_t max);
/* What a member reported of itself, kept while it is alive. */
struct live_report {
    int64_t applied;
    uint64_t epoch;
    int64_t received_ms;
};
void live_report(struct live *l, const char *member_id, const struct live_report *report);
bool live_reported(struct live *l, const char *member_id, struct live_report *out);
