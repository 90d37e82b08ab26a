/* Whom a leader may hand over to, and whose places in line have to go for that. Pure. */
#pragma once
#include "meta/core/fence.h"

enum {
    HANDOVER_AHEAD_MAX = 64,       /* members that one txn sends back to the end of the line */
    HANDOVER_REPORT_AGE_MS = 3000, /* an older report says nothing about now */
    HANDOVER_LAG_MAX = 1000,       /* revisions: about a second of a leader under full load */
};

/* A listed member, as the leader sees it. */
struct handover_member {
    char id[ID_MAX + 1];
    int64_t lease; /* of its record in the list, and so of its key in line */
    int64_t place; /* create revision of that key; 0: it is not in line */
    bool reported;
    int64_t report_age_ms;
    int64_t lag; /* revisions that it lacked when it reported */
};

struct handover_view {
    const char *self_id;
    const struct handover_member *members;
    size_t count;
    int64_t foreign_place; /* the first key in line that is of no listed member; 0: there is none */
};

/* A plain value. */
struct handover {
    char target[ID_MAX + 1];
    size_t ahead_count;
    int64_t ahead[HANDOVER_AHEAD_MAX]; /* leases of listed members queued before the target */
};

/* target_id "": whoever is first in line and caught up. NO_TARGET says what is missing, and of
 * whom. The leader itself is no target: see handover_is_self. */
struct err handover_plan(const struct handover_view *view, const char *target_id,
                         struct handover *out);
/* Nothing has to be done then. */
bool handover_is_self(const struct handover_view *view, const char *target_id);

/* What ends the leadership: fence_make_release, which also sends those ahead to the end of the line
 * and reads who is first in it then. Only with the own key still there, so that a late copy
 * displaces nobody: it puts `released`, of a leadership long gone, and no more. */
void handover_make(struct fence_txn *out, const char *prefix, int64_t lease,
                   int64_t create_revision, const struct released *released,
                   const struct handover *to);
/* Whose lease is first in line, from the answer to a txn that succeeded; 0: it does not tell. */
int64_t handover_first(const char *prefix, const struct etcd_txn_result *r);
