#include "meta/core/cluster.h"
#include "meta/core/fields.h"
#include <stdio.h>

static const char *const known[] = {"id", "format", "incarnation", "epoch_floor"};

void cluster_begin(struct cluster *c, const char *id)
{
    *c = (struct cluster){.format = CLUSTER_FORMAT_FIRST, .incarnation = CLUSTER_INCARNATION_FIRST};
    snprintf(c->id, sizeof c->id, "%s", id);
}

bool cluster_equal(const struct cluster *a, const struct cluster *b)
{
    return strcmp(a->id, b->id) == 0 && a->format == b->format &&
           a->incarnation == b->incarnation && a->epoch_floor == b->epoch_floor &&
           strcmp(a->rest, b->rest) == 0;
}

void cluster_encode(const struct cluster *c, struct buf *out)
{
    struct buf line = {0};
    field_put_str(&line, "id", c->id);
    field_put_u64(&line, "format", c->format);
    field_put_u64(&line, "incarnation", c->incarnation);
    field_put_u64(&line, "epoch_floor", c->epoch_floor);
    if (c->rest[0]) {
        buf_byte(&line, ' ');
        buf_str(&line, c->rest);
    }
    buf_bytes(out, buf_view(&line));
    buf_close(&line);
}

/* A number that values of earlier versions lack. */
static uint64_t newer_u64(struct field_reader *r, const char *name, uint64_t min, uint64_t max)
{
    return field_is_there(r->text, name) ? field_u64(r, name, min, max) : min;
}

struct err cluster_decode(struct bytes value, struct cluster *out)
{
    struct field_reader r = {.text = value};
    *out = (struct cluster){0};
    field_str(&r, "id", out->id, sizeof out->id, 1);
    out->format = (uint32_t)field_u64(&r, "format", CLUSTER_FORMAT_FIRST, UINT32_MAX);
    out->incarnation = newer_u64(&r, "incarnation", CLUSTER_INCARNATION_FIRST, UINT64_MAX - 1);
    out->epoch_floor = newer_u64(&r, "epoch_floor", 0, CLUSTER_FLOOR_MAX);
    if (!field_others(value, known, sizeof known / sizeof *known, out->rest, sizeof out->rest) &&
        !r.bad)
        r.bad = "length";
    return field_verdict(&r, "cluster's value");
}

bool cluster_raise(struct cluster *c, uint64_t above)
{
    if (c->epoch_floor >= above)
        return false;
    c->epoch_floor = above;
    c->incarnation++;
    return true;
}

uint64_t cluster_next_epoch(const struct cluster *c, uint64_t old)
{
    return (old > c->epoch_floor ? old : c->epoch_floor) + 1;
}
