/* Format levels: what members may write into etcd. Each announces those it speaks; all together
 * speak those that everyone does. Pure. */
#pragma once
#include "meta/core/record.h"

struct level_range {
    uint32_t min, max; /* max 0: of nobody */
};

/* Leaves in *r what this member speaks too; nothing when max < min then. */
void level_narrow(struct level_range *r, const struct member_info *m);
static inline bool level_within(const struct level_range *r, uint32_t level)
{
    return r->min <= level && level <= r->max;
}
