/* What is alive in etcd: candidates in their order, members, the last released leadership. A table
 * in memory that the watch keeps; listed anew at each connect. */
#pragma once
#include "common/base/etcd_types.h"
#include "meta/core/handover.h"
#include "meta/core/removal.h"

struct live;
struct board;
struct candidate;

struct live *live_new(const char *prefix, struct board *board);
void live_free(struct live *l);

/* ---- from the follow thread ---- */
/* Whom live_tell tells, and the id of that member. */
void live_connect(struct live *l, const char *member_id, struct candidate *candidate);
/* Called when the members may have changed, by live_tell; must not block. Before anything is told.
 */
void live_listen(struct live *l, void (*changed)(void *arg), void *arg);
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
    int64_t lag; /* revisions that it lacked then */
};
void live_report(struct live *l, const char *member_id, const struct live_report *report);
bool live_reported(struct live *l, const char *member_id, struct live_report *out);

/* The line as a leader sees it that hands over, and one registered member. The members of the view
 * are the caller's to free. */
void live_line(struct live *l, const char *self_id, struct handover_view *out);
bool live_registration(struct live *l, const char *id, struct removal *out,
                       struct member_info *info);
bool live_id_of(struct live *l, int64_t lease, char id[ID_MAX + 1]);
