/* Mistakes that the simulation must find, switched on one by one in test builds (BATON_TEST_BUGS).
 * In the programs BUG() is the constant false and leaves no trace. */
#pragma once
#include <stdbool.h>

enum bug {
    BUG_NO_COMPARE,     /* the guard does not compare `commit` */
    BUG_NO_WAIT,        /* a takeover does not wait for the old leader's reads */
    BUG_OWN_TTL,        /* the waiter waits its own TTL, not the record's */
    BUG_LAST_ATTEMPT,   /* the read deadline counts from the last attempt */
    BUG_GATE_REOPENS,   /* a late answer opens a read gate that was closed */
    BUG_LATE_LOOK,      /* a reader looks at the gate after its snapshot only (tests/sim) */
    BUG_RELEASED_EPOCH, /* `released` is believed by its epoch, whatever its nonce */
    BUG_SHARED_SEQ,     /* a batch takes the place and identity of a heartbeat in flight */
    BUG_LATER_ERROR,    /* the refusal of a later attempt is taken for the outcome of all */
    BUG_EMPTY_ANSWER,   /* `{}` is taken for a failed compare */
    BUG_NO_DEDUP,       /* request ids are not looked up (tests/sim) */
    BUG_EARLY_PROBE,    /* a probe that was sent before a read arrived confirms it */
    BUGS
};

#ifdef BATON_TEST_BUGS
extern unsigned bug_mask; /* bits 1 << enum bug */
#define BUG(x) ((bug_mask >> (x)) & 1u)
#else
#define BUG(x) false
#endif
