/* What operators do to a cluster that works: handing over, taking members out, upgrading them. */
#pragma once
#include "tests/sim/member.h"

enum { VERSIONS = 3 }; /* a member of version v speaks the format levels 1 to v */

/* Asks m for it, as its service would: planned with the live table that it has now. */
void operator_transfer(struct world *w, int member, const char *target);
/* m takes the member `victim` out, as far as it has it in its live table. */
void operator_remove(struct world *w, int member, int victim);
/* Holds from its next start on. */
void operator_upgrade(struct world *w, int member, unsigned version);
void operator_begin_cluster(struct world *w); /* puts the `cluster` key */

/* ---- the live table of a member: what stood in etcd at its live_revision ---- */
struct level_range operator_levels(struct world *w, const struct member *m);
/* In the mark of an operator who took m's id out, as of `revision` (0: now). */
void operator_mark(struct world *w, int member, int64_t revision, char start[NONCE_DIGITS + 1]);
/* Whether m's process, should it run, has been taken out. */
bool operator_has_removed(struct world *w, int member);

/* ---- what must hold ---- */
void operator_check(struct world *w, const struct fake_revision *r);
