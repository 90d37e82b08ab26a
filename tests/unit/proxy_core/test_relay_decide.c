#include "proxy/core/relay_decide.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

static const struct relay_limits limits = {.replay_attempts = 2, .replay_window_ms = 60000};

/* What a row changes of a call at 1000 ms that nothing happened to yet. */
enum {
    USABLE = 1,
    SENT = 2,
    COMMITTED = 4,
    CUT = 8,      /* the replay buffer is not whole */
    MAY = 16,     /* the method may be repeated */
    UNKNOWN = 32, /* an earlier attempt has an unknown outcome */
    SAME = 64,    /* the leader that refused is still the one known */
    LATE = 128,   /* the deadline has passed */
    TIRED = 256,  /* --park-timeout has passed */
    OLD = 512,    /* first sent longer ago than --replay-window */
    TWICE = 1024, /* replayed as often as allowed */
    UNARY = 2048,
    LITTLE = 4096, /* what came of the answer may be held */
    ALL_FACTS = 8191,
};

enum outcome { NOTHING, DONE_NOT, DOUBT };

static const struct row {
    enum relay_event event;
    unsigned facts;
    enum relay_act act;
    enum relay_status status;
    enum outcome outcome;
    bool repeats, back_off;
} table[] = {
    {RELAY_ARRIVED, USABLE, RELAY_SEND},
    {RELAY_ARRIVED, 0, RELAY_PARK},
    {RELAY_ARRIVED, LATE, RELAY_FAIL, RELAY_DEADLINE_EXCEEDED, DONE_NOT},
    {RELAY_TURN, USABLE, RELAY_SEND},
    {RELAY_TURN, USABLE | LATE | UNKNOWN, RELAY_FAIL, RELAY_DEADLINE_EXCEEDED, DOUBT},
    /* certainly nothing happened: again, whatever the method */
    {RELAY_NOT_SENT, USABLE | SENT, RELAY_SEND},
    {RELAY_NOT_SENT, USABLE | SENT | SAME, RELAY_SEND},
    {RELAY_NOT_SENT, SENT, RELAY_PARK},
    {RELAY_REFUSED, USABLE | SENT | SAME, RELAY_PARK, .back_off = true},
    {RELAY_REFUSED, USABLE | SENT, RELAY_SEND},
    {RELAY_NOT_DONE, USABLE | SENT | SAME, RELAY_PARK, .back_off = true},
    {RELAY_NOT_DONE, USABLE | SENT, RELAY_SEND},
    {RELAY_NOT_DONE, SENT, RELAY_PARK},
    {RELAY_NOT_DONE, USABLE | SENT | TWICE | OLD, RELAY_SEND},
    {RELAY_NOT_DONE, USABLE | SENT | CUT, RELAY_FAIL, RELAY_UNAVAILABLE, DONE_NOT},
    {RELAY_NOT_DONE, USABLE | SENT | TIRED, RELAY_FAIL, RELAY_UNAVAILABLE, DONE_NOT},
    {RELAY_NOT_DONE, USABLE | SENT | TIRED | UNKNOWN, RELAY_FAIL, RELAY_UNAVAILABLE, DOUBT},
    /* it may have happened: only what may be repeated, so often and so long */
    {RELAY_LOST, USABLE | SENT | MAY, RELAY_SEND, .repeats = true},
    {RELAY_LOST, SENT | MAY, RELAY_PARK, .repeats = true},
    {RELAY_LOST, USABLE | SENT, RELAY_FAIL, RELAY_UNAVAILABLE, DOUBT},
    {RELAY_LOST, USABLE | SENT | MAY | CUT, RELAY_FAIL, RELAY_UNAVAILABLE, DOUBT},
    {RELAY_LOST, USABLE | SENT | MAY | TWICE, RELAY_FAIL, RELAY_UNAVAILABLE, DOUBT},
    {RELAY_LOST, USABLE | SENT | MAY | OLD, RELAY_FAIL, RELAY_UNAVAILABLE, DOUBT},
    {RELAY_LOST, USABLE | SENT | MAY | COMMITTED, RELAY_FAIL, RELAY_UNAVAILABLE, DOUBT},
    /* lost within an answer that was held: as without an answer */
    {RELAY_LOST, USABLE | SENT | MAY | UNARY | LITTLE, RELAY_SEND, .repeats = true},
    {RELAY_LOST, SENT | MAY | UNARY, RELAY_PARK, .repeats = true},
    {RELAY_LOST, SENT | MAY | UNARY | COMMITTED, RELAY_FAIL, RELAY_UNAVAILABLE, DOUBT},
    /* answers pass, unless another attempt could make up for their loss */
    {RELAY_ANSWERED, SENT, RELAY_PASS},
    {RELAY_ANSWERED, SENT | LATE, RELAY_PASS},
    {RELAY_ANSWERED, SENT | MAY | UNARY | LITTLE, RELAY_HOLD},
    {RELAY_ANSWERED, SENT | MAY | UNARY | LITTLE | UNKNOWN, RELAY_HOLD},
    {RELAY_ANSWERED, SENT | MAY | UNARY, RELAY_PASS},
    {RELAY_ANSWERED, SENT | MAY | LITTLE, RELAY_PASS},
    {RELAY_ANSWERED, SENT | UNARY | LITTLE, RELAY_PASS},
    {RELAY_ANSWERED, SENT | MAY | UNARY | LITTLE | CUT, RELAY_PASS},
    {RELAY_ANSWERED, SENT | MAY | UNARY | LITTLE | TWICE, RELAY_PASS},
    {RELAY_ANSWERED, SENT | MAY | UNARY | LITTLE | OLD, RELAY_PASS},
    {RELAY_ANSWERED, SENT | MAY | UNARY | LITTLE | COMMITTED, RELAY_PASS},
    /* a replaced leader loses what may be repeated, and nothing else */
    {RELAY_SUPERSEDED, USABLE | SENT | MAY, RELAY_SEND, .repeats = true},
    {RELAY_SUPERSEDED, SENT | MAY, RELAY_PARK, .repeats = true},
    {RELAY_SUPERSEDED, USABLE | SENT, RELAY_PASS},
    {RELAY_SUPERSEDED, USABLE | SENT | MAY | COMMITTED, RELAY_PASS},
    {RELAY_SUPERSEDED, USABLE | SENT | MAY | TWICE, RELAY_PASS},
    /* the clock */
    {RELAY_TIME, 0, RELAY_PASS},
    {RELAY_TIME, SENT | TIRED, RELAY_PASS},
    {RELAY_TIME, TIRED, RELAY_FAIL, RELAY_UNAVAILABLE, DONE_NOT},
    {RELAY_TIME, TIRED | UNKNOWN, RELAY_FAIL, RELAY_UNAVAILABLE, DOUBT},
    {RELAY_TIME, LATE, RELAY_FAIL, RELAY_DEADLINE_EXCEEDED, DONE_NOT},
    {RELAY_TIME, LATE | SENT, RELAY_FAIL, RELAY_DEADLINE_EXCEEDED, DOUBT},
    {RELAY_TIME, LATE | UNKNOWN, RELAY_FAIL, RELAY_DEADLINE_EXCEEDED, DOUBT},
    {RELAY_LOT_FULL, 0, RELAY_FAIL, RELAY_UNAVAILABLE, DONE_NOT},
    {RELAY_LOT_FULL, UNKNOWN, RELAY_FAIL, RELAY_UNAVAILABLE, DOUBT},
    {RELAY_SHUTDOWN, 0, RELAY_FAIL, RELAY_UNAVAILABLE, DONE_NOT},
    {RELAY_SHUTDOWN, SENT, RELAY_FAIL, RELAY_UNAVAILABLE, DOUBT},
};

static struct relay_facts facts_of(unsigned bits)
{
    return (struct relay_facts){
        .now_ms = 1000,
        .deadline_ms = bits & LATE ? 1000 : RELAY_NEVER,
        .park_until_ms = bits & TIRED ? 1000 : 5000,
        .first_sent_ms = bits & OLD ? 1000 - limits.replay_window_ms : 900,
        .replays = bits & TWICE ? 2 : 0,
        .usable = bits & USABLE,
        .sent = bits & SENT,
        .committed = bits & COMMITTED,
        .unary = bits & UNARY,
        .holdable = bits & LITTLE,
        .whole = !(bits & CUT),
        .may_repeat = bits & MAY,
        .unknown = bits & UNKNOWN,
        .same_leader = bits & SAME,
    };
}

static void every_row_of_the_table(void **state)
{
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const struct row *r = &table[i];
        struct relay_facts f = facts_of(r->facts);
        struct relay_verdict v = relay_decide(&f, r->event, &limits);
        if (v.act != r->act || v.status != r->status || v.repeats != r->repeats ||
            v.back_off != r->back_off || v.not_executed != (r->outcome == DONE_NOT) ||
            v.unknown != (r->outcome == DOUBT))
            fail_msg(
                "row %zu: act %d, status %d, repeats %d, back off %d, not executed %d, unknown %d",
                i, v.act, v.status, v.repeats, v.back_off, v.not_executed, v.unknown);
        if (v.act == RELAY_FAIL) {
            assert_non_null(v.reason);
            assert_non_null(v.message);
            for (const char *m = v.message; *m; m++)
                assert_true(*m >= ' ' && *m <= '~' && *m != '%');
        }
    }
}

/* Whatever is known of a call: a verdict never says both, never says "nothing happened" of an
 * attempt in doubt, and never repeats what must not be. */
static void promises_hold_for_all_facts(void **state)
{
    for (unsigned bits = 0; bits <= ALL_FACTS; bits++)
        for (int event = RELAY_ARRIVED; event <= RELAY_SHUTDOWN; event++) {
            struct relay_facts f = facts_of(bits);
            struct relay_verdict v = relay_decide(&f, (enum relay_event)event, &limits);
            assert_false(v.not_executed && v.unknown);
            if (v.act == RELAY_FAIL)
                assert_true(v.not_executed || v.unknown);
            if (f.unknown)
                assert_false(v.not_executed);
            if (event == RELAY_LOST)
                assert_false(v.not_executed);
            if (v.repeats)
                assert_true(f.may_repeat && f.whole && !f.committed && f.replays < 2);
            if (v.act == RELAY_HOLD)
                assert_true(event == RELAY_ANSWERED && f.may_repeat && !f.committed);
            if (v.act == RELAY_SEND)
                assert_true(f.usable);
        }
}

static void a_full_lot_asks_to_come_again(void **state)
{
    struct relay_facts f = facts_of(0);
    assert_true(relay_decide(&f, RELAY_LOT_FULL, &limits).pushback);
    assert_false(relay_decide(&f, RELAY_SHUTDOWN, &limits).pushback);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_of_the_table),
        cmocka_unit_test(promises_hold_for_all_facts),
        cmocka_unit_test(a_full_lot_asks_to_come_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
