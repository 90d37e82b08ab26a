#include "proxy/core/relay_decide.h"
#include "common/base/check.h"

/* The outcome of a failed call: known to be nothing only when no attempt may have done something.
 */
static struct relay_verdict fail(const struct relay_facts *f, enum relay_status status,
                                 const char *reason, const char *message, bool in_doubt)
{
    bool unknown = in_doubt || f->unknown;
    return (struct relay_verdict){.act = RELAY_FAIL,
                                  .status = status,
                                  .reason = reason,
                                  .message = message,
                                  .not_executed = !unknown,
                                  .unknown = unknown};
}

static struct relay_verdict go_or_wait(const struct relay_facts *f)
{
    return (struct relay_verdict){.act = f->usable ? RELAY_SEND : RELAY_PARK};
}

static struct relay_verdict overdue(const struct relay_facts *f)
{
    return fail(f, RELAY_DEADLINE_EXCEEDED, "DEADLINE",
                f->sent ? "the deadline passed before the leader answered"
                        : "the deadline passed while waiting for a leader",
                f->sent);
}

static struct relay_verdict impatient(const struct relay_facts *f)
{
    return fail(f, RELAY_UNAVAILABLE, "NO_LEADER", "no leader could be reached in time; try again",
                false);
}

/* Nothing was done by this attempt: another one is always right, as long as somebody waits for it.
 */
static struct relay_verdict again(const struct relay_facts *f, bool refused)
{
    if (!f->whole)
        return fail(f, RELAY_UNAVAILABLE, "NOT_LEADER",
                    "refused after the request outgrew the replay buffer; send it again", false);
    if (f->now_ms >= f->deadline_ms)
        return overdue(f);
    if (f->now_ms >= f->park_until_ms)
        return impatient(f);
    if (refused && f->same_leader)
        return (struct relay_verdict){.act = RELAY_PARK, .back_off = true};
    return go_or_wait(f);
}

static bool may_replay(const struct relay_facts *f, const struct relay_limits *limits)
{
    return f->may_repeat && f->whole && !f->committed && f->replays < limits->replay_attempts &&
           f->now_ms - f->first_sent_ms < limits->replay_window_ms && f->now_ms < f->deadline_ms;
}

static struct relay_verdict lost(const struct relay_facts *f, const struct relay_limits *limits)
{
    if (!may_replay(f, limits))
        return fail(f, RELAY_UNAVAILABLE, "LOST",
                    f->committed
                        ? "the connection to the leader was lost within the answer"
                        : "the connection to the leader was lost; the outcome is not known",
                    true);
    struct relay_verdict v = go_or_wait(f);
    v.repeats = true;
    return v;
}

/* Held only while losing the rest would cost another attempt, not an error. */
static struct relay_verdict answered(const struct relay_facts *f, const struct relay_limits *limits)
{
    bool hold = f->unary && f->holdable && may_replay(f, limits);
    return (struct relay_verdict){.act = hold ? RELAY_HOLD : RELAY_PASS};
}

static struct relay_verdict superseded(const struct relay_facts *f,
                                       const struct relay_limits *limits)
{
    if (!may_replay(f, limits))
        return (struct relay_verdict){.act = RELAY_PASS};
    struct relay_verdict v = go_or_wait(f);
    v.repeats = true;
    return v;
}

/* PASS here means: nothing to do yet. */
static struct relay_verdict look_at_clock(const struct relay_facts *f)
{
    if (f->now_ms >= f->deadline_ms)
        return overdue(f);
    if (!f->sent && f->now_ms >= f->park_until_ms)
        return impatient(f);
    return (struct relay_verdict){.act = RELAY_PASS};
}

static struct relay_verdict lot_full(const struct relay_facts *f)
{
    struct relay_verdict v = fail(f, RELAY_UNAVAILABLE, "OVERLOADED",
                                  "too many calls wait for a leader; try again later", false);
    v.pushback = true;
    return v;
}

struct relay_verdict relay_decide(const struct relay_facts *f, enum relay_event event,
                                  const struct relay_limits *limits)
{
    switch (event) {
    case RELAY_ARRIVED:
    case RELAY_TURN:
        return f->now_ms >= f->deadline_ms ? overdue(f) : go_or_wait(f);
    case RELAY_NOT_SENT:
        return again(f, false);
    case RELAY_REFUSED:
    case RELAY_NOT_DONE:
        return again(f, true);
    case RELAY_LOST:
        return lost(f, limits);
    case RELAY_ANSWERED:
        return answered(f, limits);
    case RELAY_SUPERSEDED:
        return superseded(f, limits);
    case RELAY_TIME:
        return look_at_clock(f);
    case RELAY_LOT_FULL:
        return lot_full(f);
    case RELAY_SHUTDOWN:
        return fail(f, RELAY_UNAVAILABLE, "DRAINING", "the proxy shuts down; send it again",
                    f->sent);
    }
    UNREACHABLE_CASE();
    return (struct relay_verdict){.act = RELAY_PASS};
}
