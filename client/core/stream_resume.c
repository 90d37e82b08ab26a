#include "client/core/stream_resume.h"
#include "common/base/rpc_status.h"

void stream_resume_init(struct stream_resume *r, enum stream_start start, int64_t start_revision,
                        struct bytes token)
{
    *r = (struct stream_resume){.start = start,
                                .start_revision = start_revision,
                                .backoff = {.min_ms = 20, .max_ms = 2000}};
    buf_bytes(&r->token, token);
}

void stream_resume_close(struct stream_resume *r)
{
    buf_close(&r->token);
}

void stream_resume_opened(struct stream_resume *r)
{
    r->heard = false;
    r->snapshot = false;
    r->seen_part = 0;
}

int64_t stream_resume_patience_ms(const struct stream_resume *r)
{
    return r->heard ? STREAM_SILENCE_MS : STREAM_FIRST_MS;
}

static void forget_part(struct stream_resume *r)
{
    r->part = r->seen_part = 0;
    memset(r->told, 0, sizeof r->told);
    memset(r->seen, 0, sizeof r->seen);
}

/* Nothing that was told can be gone on from. */
static void begin_anew(struct stream_resume *r)
{
    forget_part(r);
    r->start = STREAM_FROM_SNAPSHOT;
    buf_clear(&r->token);
    r->snapshot = false;
}

static enum stream_verdict break_off(struct stream_resume *r)
{
    begin_anew(r);
    return STREAM_BREAK;
}

/* All up to this message was told. */
static void reach(struct stream_resume *r, const struct stream_message *m)
{
    forget_part(r);
    r->revision = m->revision;
    r->start = STREAM_FROM_TOKEN;
    buf_clear(&r->token);
    buf_bytes(&r->token, m->token);
}

static enum stream_verdict take_snapshot(struct stream_resume *r, const struct stream_message *m)
{
    if (m->restart)
        begin_anew(r);
    else if (!r->snapshot)
        return break_off(r);
    r->snapshot = m->more;
    if (!m->more)
        reach(r, m);
    return STREAM_TELL;
}

/* How many of the items were told on an earlier stream. */
static void count_told(struct stream_resume *r, const struct stream_message *m,
                       size_t skip[STREAM_KINDS])
{
    for (int i = 0; i < STREAM_KINDS; i++) {
        size_t left = r->told[i] > r->seen[i] ? r->told[i] - r->seen[i] : 0;
        skip[i] = left < m->items[i] ? left : m->items[i];
        r->seen[i] += m->items[i];
        if (r->told[i] < r->seen[i])
            r->told[i] = r->seen[i];
    }
}

static enum stream_verdict take_changes(struct stream_resume *r, const struct stream_message *m,
                                        size_t skip[STREAM_KINDS])
{
    bool follows = r->seen_part ? m->revision == r->seen_part : m->revision > r->revision;
    if (!follows || r->snapshot || (r->part && m->revision != r->part))
        return break_off(r);
    if (!r->seen_part)
        memset(r->seen, 0, sizeof r->seen);
    r->part = r->seen_part = m->revision;
    count_told(r, m, skip);
    if (!m->more) {
        reach(r, m);
        return STREAM_TELL;
    }
    bool all = true;
    for (int i = 0; i < STREAM_KINDS; i++)
        all = all && skip[i] == m->items[i];
    return all ? STREAM_QUIET : STREAM_TELL;
}

/* The first message of a stream may only say where it begins, before a commit that was told in
 * part. */
static enum stream_verdict take_progress(struct stream_resume *r, const struct stream_message *m)
{
    if (r->snapshot || r->seen_part || (r->part && m->revision >= r->part))
        return break_off(r);
    if (m->revision < r->revision)
        return STREAM_QUIET;
    if (r->part) {
        r->revision = m->revision;
        return STREAM_QUIET;
    }
    reach(r, m);
    return STREAM_TELL;
}

enum stream_verdict stream_resume_take(struct stream_resume *r, const struct stream_message *m,
                                       size_t skip[STREAM_KINDS])
{
    memset(skip, 0, STREAM_KINDS * sizeof *skip);
    r->heard = true;
    if (!m->more && !m->token.len)
        return break_off(r);
    switch (m->kind) {
    case STREAM_SNAPSHOT:
        return take_snapshot(r, m);
    case STREAM_CHANGES:
        return take_changes(r, m, skip);
    default:
        return take_progress(r, m);
    }
}

static bool is_hopeless(enum err_code code)
{
    return rpc_status_of(code) == RPC_INVALID_ARGUMENT;
}

enum stream_next stream_resume_ended(struct stream_resume *r, const struct err *e,
                                     int64_t pushback_ms, struct rng *rng, int64_t *wait_ms)
{
    if (is_hopeless(e->code))
        return STREAM_OVER;
    if (rpc_status_of(e->code) == RPC_OUT_OF_RANGE)
        begin_anew(r);
    if (r->heard)
        backoff_reset(&r->backoff);
    r->heard = false;
    *wait_ms = backoff_next_ms(&r->backoff, rng);
    if (*wait_ms < pushback_ms)
        *wait_ms = pushback_ms;
    return STREAM_AGAIN;
}
