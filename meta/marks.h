/* The furthest that this data directory has seen of its cluster, kept in its file `seen` across
 * restarts, and whether etcd's state is refused because it lies behind that. Another epoch or
 * incarnation is written and synced as soon as it is seen, on a thread of its own; how far that
 * epoch went within a few seconds, and when the member stops in peace. So of a state that went back
 * within one epoch, by less than those seconds, a member that was started anew knows nothing, but
 * for what its cache of the state tells it. Any thread. */
#pragma once
#include "meta/core/restore.h"

struct marks;

/* CORRUPT: the file makes no sense; DENIED, IO: it cannot be read. The messages say what to do.
 * What the directory's identity knows ("": nothing) stands in where there is no file yet. */
struct err marks_open(struct marks **out, const char *dir, const char *cluster_id,
                      const char *etcd_cluster_id);
void marks_close(struct marks *m);

/* Of a commit record in etcd, at a revision; ignored while the state is refused. */
void marks_see(struct marks *m, const struct record *record, int64_t revision);
void marks_get(struct marks *m, struct restore_mark *out);

/* Whether the state is refused, and since when. */
struct marks_status {
    struct err refused; /* OK: it is not */
    struct restore_mark mark;
    int64_t started_unix_ms; /* of this process */
    /* It took part in this very life before the state went back, so what it knows in memory is of
     * no use: it must be started anew before it can go on with an older state. */
    bool ran_before;
};
void marks_status(struct marks *m, struct marks_status *out);

/* ---- of whoever judges etcd's state (one thread) ---- */
void marks_accept(struct marks *m, const struct cluster *cluster,
                  uint64_t etcd);                                /* goes on from it */
void marks_begin(struct marks *m, const struct restore_view *v); /* forgets what was seen before */
void marks_refuse(struct marks *m, const struct err *why);
