#include "tests/sim/bugs.h"

const char *bug_str(enum bug bug)
{
    static const char *const names[BUGS] = {
        [BUG_NO_COMPARE] = "no compare of `commit`",
        [BUG_NO_WAIT] = "no wait",
        [BUG_OWN_TTL] = "the waiter's own TTL",
        [BUG_LAST_ATTEMPT] = "deadline from the last attempt",
        [BUG_GATE_REOPENS] = "deadline reopened by a late answer",
        [BUG_LATE_LOOK] = "deadline looked at only after the snapshot",
        [BUG_RELEASED_EPOCH] = "`released` by epoch",
        [BUG_SHARED_SEQ] = "a heartbeat and a batch under one seq",
        [BUG_LATER_ERROR] = "the error of attempt 2 taken for the outcome of attempt 1",
        [BUG_EMPTY_ANSWER] = "`{}` taken for a failed compare",
        [BUG_NO_DEDUP] = "no request-id lookup",
        [BUG_EARLY_PROBE] = "a probe sent before the read arrived confirms it",
    };
    return names[bug];
}

void bug_only(enum bug bug)
{
    bug_mask = 1u << bug;
}

void bug_none(void)
{
    bug_mask = 0;
}
