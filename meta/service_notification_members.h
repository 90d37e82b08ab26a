/* The list of members as subscribers hear of it: whole, and only when something in it has changed.
 * One thread at a time. */
#pragma once
#include "common/base/buf.h"

struct service_member;

/* All zero is a list that was never looked at. */
struct member_table {
    uint64_t version;   /* grows with each change */
    uint64_t epoch;     /* of the leader that it shows */
    struct buf message; /* an encoded MemberTable */
    struct buf seen;    /* what changes are told by */
};

/* Looks at the members as they are now. */
void member_table_look(struct member_table *t, struct service_member *members);
void member_table_close(struct member_table *t);
