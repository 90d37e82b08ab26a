#include "meta/core/level.h"

/* Members of before there were levels speak the first. */
static uint32_t at_least_first(uint32_t level)
{
    return level ? level : 1;
}

void level_narrow(struct level_range *r, const struct member_info *m)
{
    uint32_t min = at_least_first(m->format_min), max = at_least_first(m->format_max);
    if (r->max == 0) {
        *r = (struct level_range){.min = min, .max = max};
        return;
    }
    r->min = min > r->min ? min : r->min;
    r->max = max < r->max ? max : r->max;
}
