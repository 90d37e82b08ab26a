/* When etcd's history is compacted, and up to where. Old revisions of the keys are of no use to
 * Baton but for members whose watch was away for a while: what is younger than keep_ms is kept for
 * them, as long as it is not more than half of growth_bytes. What watches may still ask for is kept
 * as well until growth_bytes were written, so that a member which was away for longer has its
 * watches go on. Compacting takes no key that lives.
 * Pure; one thread. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct compact_limits {
    int64_t growth_bytes; /* compact after so much was written … */
    int64_t every_ms;     /* … or so much later */
    int64_t keep_ms;
};

enum { COMPACT_MARKS = 64 };

struct compact {
    struct compact_limits limits;
    struct compact_mark {
        int64_t at_ms, revision;
        uint64_t written;
    } marks[COMPACT_MARKS]; /* oldest first */
    size_t mark_count;
    int64_t last_ms, last_revision;
    uint64_t last_written;
    int64_t not_before_ms; /* after a failure */
};

void compact_init(struct compact *c, const struct compact_limits *limits, int64_t now_ms);
/* Now and then: where the state stands, and how many bytes this process has written in all. */
void compact_note(struct compact *c, int64_t now_ms, int64_t revision, uint64_t written);
/* The revision to compact to; 0: nothing is due. Watches may ask for the changes from `oldest` on.
 */
int64_t compact_due(const struct compact *c, int64_t now_ms, uint64_t written, int64_t oldest);
void compact_done(struct compact *c, int64_t now_ms, int64_t revision, uint64_t written);
/* It did not work: not again before pause_ms have passed. */
void compact_failed(struct compact *c, int64_t now_ms, int64_t pause_ms);
