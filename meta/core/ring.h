/* The recent commits, as they are told to whoever follows the state: each kept once, however many
 * read it. A reader knows where it stands by a place, a number that grows by one with each commit
 * kept, so that it holds no memory. Pure; the ring is its owner's, a commit may be held and read on
 * any thread. */
#pragma once
#include "common/base/etcd_types.h"

/* What one commit changed. Keys are relative to the state's prefix, as "kv/<user's key>"; each is
 * there once. */
struct ring_commit {
    int64_t revision;
    uint64_t epoch; /* of the leadership that made it */
    size_t bytes;   /* in memory, all in all */
    size_t count;
    struct etcd_event *events; /* with their revisions; of a deletion the key and mod_revision */
    int refs;                  /* atomic */
};

/* Collects the changes of a commit whose outcome is not known yet. All zero is empty. */
struct ring_draft {
    struct buf text;
    struct ring_change *changes;
    size_t count, cap;
};
/* `kv` NULL: deleted. The key is folder + name; what is shown is copied. */
void ring_draft_add(struct ring_draft *d, const char *folder, struct bytes name,
                    const struct etcd_kv *kv);
void ring_draft_clear(struct ring_draft *d);
/* The commit, with one reference, and the draft is empty again; NULL: nothing was changed. */
struct ring_commit *ring_draft_take(struct ring_draft *d, int64_t revision, uint64_t epoch);
void ring_draft_close(struct ring_draft *d);

struct ring_commit *ring_commit_hold(struct ring_commit *c);
void ring_commit_drop(struct ring_commit *c); /* NULL is allowed */

struct ring {
    size_t max_bytes;
    struct ring_commit **commits; /* the commit of place p: commits[p & (cap - 1)] */
    size_t cap;
    uint64_t first, end; /* places kept: first <= p < end */
    size_t bytes;
    int64_t floor; /* every commit above this revision is kept */
    int64_t last;  /* the newest revision, whether it changed anything or not */
};

/* Nothing is kept of what is at `revision` and below; the places go on. */
void ring_init(struct ring *r, size_t max_bytes);
void ring_restart(struct ring *r, int64_t revision);
void ring_close(struct ring *r);

/* The state moved to a newer revision; takes the reference to c (NULL: nothing changed). The oldest
 * commits go when there are more than max_bytes, but for the newest one. */
void ring_add(struct ring *r, int64_t revision, struct ring_commit *c);
/* Where somebody goes on who knows everything up to `revision`; the commit there, and those that
 * are added later, may still be ones that it knows: it has to compare. Only if floor <= revision.
 */
uint64_t ring_place_after(const struct ring *r, int64_t revision);
/* Borrowed; first <= place < end. */
struct ring_commit *ring_at(const struct ring *r, uint64_t place);
