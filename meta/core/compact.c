#include "meta/core/compact.h"
#include <string.h>

/* Marks are set so close that the oldest ones kept are well beyond what is to be kept. */
enum { MARKS_WITHIN = COMPACT_MARKS / 2 };

void compact_init(struct compact *c, const struct compact_limits *limits, int64_t now_ms)
{
    *c = (struct compact){.limits = *limits, .last_ms = now_ms};
}

static uint64_t kept_bytes(const struct compact *c)
{
    return (uint64_t)c->limits.growth_bytes / 2;
}

void compact_note(struct compact *c, int64_t now_ms, int64_t revision, uint64_t written)
{
    if (c->mark_count) {
        const struct compact_mark *last = &c->marks[c->mark_count - 1];
        bool later = now_ms - last->at_ms >= c->limits.keep_ms / MARKS_WITHIN;
        bool more = written - last->written >= kept_bytes(c) / MARKS_WITHIN;
        if (revision <= last->revision || (!later && !more))
            return;
    }
    if (c->mark_count == COMPACT_MARKS)
        memmove(c->marks, c->marks + 1, --c->mark_count * sizeof *c->marks);
    c->marks[c->mark_count++] =
        (struct compact_mark){.at_ms = now_ms, .revision = revision, .written = written};
}

/* The newest mark that is old enough, or has enough behind it. */
static int64_t target(const struct compact *c, int64_t now_ms, uint64_t written)
{
    for (size_t i = c->mark_count; i-- > 0;) {
        const struct compact_mark *m = &c->marks[i];
        if (now_ms - m->at_ms >= c->limits.keep_ms || written - m->written >= kept_bytes(c))
            return m->revision;
    }
    return 0;
}

int64_t compact_due(const struct compact *c, int64_t now_ms, uint64_t written, int64_t oldest)
{
    bool grown = written - c->last_written >= (uint64_t)c->limits.growth_bytes;
    if (now_ms < c->not_before_ms || (!grown && now_ms - c->last_ms < c->limits.every_ms))
        return 0;
    int64_t revision = target(c, now_ms, written);
    if (!grown && revision >= oldest)
        revision = oldest - 1;
    return revision > c->last_revision ? revision : 0;
}

void compact_done(struct compact *c, int64_t now_ms, int64_t revision, uint64_t written)
{
    c->last_ms = now_ms;
    c->last_revision = revision;
    c->last_written = written;
}

void compact_failed(struct compact *c, int64_t now_ms, int64_t pause_ms)
{
    c->not_before_ms = now_ms + pause_ms;
}
