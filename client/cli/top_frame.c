#include "client/cli/top_frame.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void top_sample_close(struct top_sample *s)
{
    baton_result_free(s->info);
    baton_result_free(s->members);
    *s = (struct top_sample){0};
}

/* ---- who leads ---- */

struct top_leader top_leader_of(const struct top_sample *s)
{
    const struct baton_cluster_info *i = s->info;
    if (i)
        return (struct top_leader){i->leader_id, i->leader_addr, i->epoch, i->revision};
    bool older = s->why.status == BATON_UNIMPLEMENTED;
    for (size_t n = 0; older && s->members && n < s->members->count; n++) {
        const struct baton_member *m = &s->members->members[n];
        if (m->role == BATON_LEADER)
            return (struct top_leader){m->id, m->addr, m->epoch, m->applied_revision};
    }
    return (struct top_leader){0};
}

/* ---- rates ---- */

static double rate(uint64_t before, uint64_t now, int64_t ms)
{
    return (double)(now - before) * 1000 / (double)ms;
}

static bool counts_on(const struct baton_cluster_info *a, const struct baton_cluster_info *b)
{
    return a && b && a->commits <= b->commits && a->writes <= b->writes && a->reads <= b->reads &&
           a->heartbeats <= b->heartbeats;
}

struct top_rates top_rates_of(const struct top_sample *before, const struct top_sample *now)
{
    struct top_leader from = top_leader_of(before), to = top_leader_of(now);
    const struct baton_cluster_info *a = before->info, *b = now->info;
    int64_t ms = now->at_ms - before->at_ms;
    if (!from.id || !to.id || ms <= 0 || from.epoch != to.epoch || strcmp(from.id, to.id) != 0 ||
        from.revision > to.revision)
        return (struct top_rates){0};
    struct top_rates r = {.known = true, .counted = counts_on(a, b)};
    r.revisions = rate((uint64_t)from.revision, (uint64_t)to.revision, ms);
    if (r.counted) {
        r.commits = rate(a->commits, b->commits, ms);
        r.writes = rate(a->writes, b->writes, ms);
        r.reads = rate(a->reads, b->reads, ms);
        r.heartbeats = rate(a->heartbeats, b->heartbeats, ms);
    }
    return r;
}

/* ---- lines ---- */

/* Text that ends each line with a newline; its first line may have a style of its own. */
static void add_lines(struct buf *out, enum top_style first, struct bytes text)
{
    enum top_style style = first;
    for (size_t at = 0; at < text.len;) {
        const uint8_t *end = memchr(text.data + at, '\n', text.len - at);
        size_t len = end ? (size_t)(end - (text.data + at)) + 1 : text.len - at;
        buf_byte(out, (uint8_t)style);
        buf_append(out, text.data + at, len);
        at += len;
        style = TOP_PLAIN;
    }
}

static void add_line(struct buf *out, enum top_style style, struct buf *line)
{
    buf_byte(line, '\n');
    add_lines(out, style, buf_view(line));
    buf_clear(line);
}

static void put_age(struct buf *out, int64_t ms)
{
    int64_t s = ms > 0 ? ms / 1000 : 0;
    if (s < 60)
        buf_printf(out, "%" PRId64 "s", s);
    else if (s < 3600)
        buf_printf(out, "%" PRId64 "m", s / 60);
    else if (s < 48 * 3600)
        buf_printf(out, "%" PRId64 "h", s / 3600);
    else
        buf_printf(out, "%" PRId64 "d", s / 86400);
}

static void put_rate(struct buf *out, bool known, const char *name, double value)
{
    buf_printf(out, "%s%s ", out->len ? "   " : "", name);
    if (known)
        buf_printf(out, "%.1f/s", value);
    else
        buf_str(out, "-");
}

static void add_leader(const struct top_view *v, struct buf *out)
{
    struct buf line = {0};
    struct top_leader leader = top_leader_of(v->now), last = top_leader_of(v->last);
    if (leader.id) {
        buf_printf(&line, "leader %s at %s   epoch %" PRIu64, leader.id, leader.addr, leader.epoch);
        add_line(out, TOP_TITLE, &line);
    } else {
        buf_str(&line, "no leader for ");
        put_age(&line, v->unled_ms);
        if (last.id)
            buf_printf(&line, "; the last was %s in epoch %" PRIu64, last.id, last.epoch);
        add_line(out, TOP_ALARM, &line);
        buf_str(&line, v->now->why.message);
        add_line(out, TOP_PLAIN, &line);
    }
    buf_close(&line);
}

static const struct baton_cluster_info *info_of(const struct top_view *v)
{
    return v->now->info ? v->now->info : v->last->info;
}

static const struct baton_members *members_of(const struct top_view *v)
{
    return v->now->members ? v->now->members : v->last->members;
}

static void add_activity(const struct top_view *v, struct buf *out)
{
    struct buf line = {0};
    const struct baton_cluster_info *i = info_of(v);
    const struct top_rates *r = &v->rates;
    if (i) {
        buf_printf(&line,
                   "cluster %s   revision %" PRId64 "   keys %" PRIu64 "   workers %" PRIu64
                   "   streams %" PRIu64,
                   i->cluster_id, i->revision, i->keys, i->workers, i->streams);
        add_line(out, TOP_PLAIN, &line);
    }
    put_rate(&line, r->counted, "commits", r->commits);
    put_rate(&line, r->counted, "writes", r->writes);
    put_rate(&line, r->counted, "reads", r->reads);
    put_rate(&line, r->counted, "heartbeats", r->heartbeats);
    put_rate(&line, r->known, "revisions", r->revisions);
    add_line(out, TOP_PLAIN, &line);
    buf_close(&line);
}

static struct json_object *member_row(const struct baton_member *m, int64_t now_unix_ms)
{
    struct json_object *o = member_json(m);
    struct buf up = {0};
    put_age(&up, now_unix_ms - m->started_unix_ms);
    output_add_text(o, "up", (const char *)up.data);
    buf_close(&up);
    return o;
}

static void add_table(struct buf *out, struct json_object *list, const struct column *columns,
                      size_t count)
{
    struct buf table = {0};
    buf_str(out, " \n");
    output_table(list, columns, count, &table);
    add_lines(out, TOP_HEADING, buf_view(&table));
    buf_close(&table);
    json_object_put(list);
}

static void add_members(const struct baton_members *all, int64_t now_unix_ms, struct buf *out)
{
    static const struct column columns[] = {
        {"MEMBER", "id", COLUMN_PLAIN},       {"ADDRESS", "addr", COLUMN_PLAIN},
        {"ROLE", "role", COLUMN_PLAIN},       {"EPOCH", "epoch", COLUMN_PLAIN},
        {"LAG", "lag", COLUMN_PLAIN},         {"APPLIED", "applied_revision", COLUMN_PLAIN},
        {"VERSION", "version", COLUMN_PLAIN}, {"UP", "up", COLUMN_PLAIN},
    };
    struct json_object *rows = json_object_new_array();
    for (size_t i = 0; i < all->count; i++)
        json_object_array_add(rows, member_row(&all->members[i], now_unix_ms));
    add_table(out, rows, columns, sizeof columns / sizeof *columns);
}

void top_frame(const struct top_view *v, struct buf *out)
{
    const struct baton_cluster_info *info = info_of(v);
    buf_clear(out);
    add_leader(v, out);
    add_activity(v, out);
    if (members_of(v))
        add_members(members_of(v), v->now->unix_ms, out);
    if (info && info->type_count)
        add_table(out, types_json(info), types_columns, TYPES_COLUMNS);
}

void top_text(struct bytes frame, struct buf *out)
{
    bool begins = true;
    buf_clear(out);
    for (size_t i = 0; i < frame.len; i++) {
        if (!begins)
            buf_byte(out, frame.data[i]);
        begins = frame.data[i] == '\n';
    }
}

/* ---- a terminal ---- */

static const char *color_of(enum top_style style)
{
    switch (style) {
    case TOP_TITLE:
        return "\033[1m";
    case TOP_ALARM:
        return "\033[1;31m";
    case TOP_HEADING:
        return "\033[7m";
    case TOP_PLAIN:
        break;
    }
    return "";
}

/* Bytes of the line that show on so many columns; what comes is ASCII, or one column a character.
 */
static size_t fit(struct bytes line, int width)
{
    size_t at = 0;
    for (int columns = 0; at < line.len; at++) {
        bool begins = (line.data[at] & 0xc0) != 0x80;
        if (begins && columns++ == width)
            break;
    }
    return at;
}

static void put_line(struct buf *out, enum top_style style, struct bytes line, int width,
                     bool color)
{
    const char *begin = color ? color_of(style) : "";
    buf_str(out, begin);
    buf_append(out, line.data, fit(line, width));
    buf_str(out, *begin ? "\033[0m\033[K" : "\033[K");
}

void top_screen(struct bytes frame, int width, int height, bool color, struct buf *out)
{
    buf_clear(out);
    buf_str(out, "\033[H");
    int row = 0;
    for (size_t at = 0; at < frame.len && row < height; row++) {
        const uint8_t *end = memchr(frame.data + at, '\n', frame.len - at);
        struct bytes line = bytes_of(frame.data + at + 1, (size_t)(end - (frame.data + at)) - 1);
        if (row)
            buf_str(out, "\n");
        put_line(out, (enum top_style)frame.data[at], line, width, color);
        at += line.len + 2;
    }
    buf_str(out, "\033[J");
}

/* ---- JSON ---- */

static void add_rate(struct json_object *to, const char *name, double value)
{
    char text[32];
    snprintf(text, sizeof text, "%.1f", value);
    json_object_object_add(to, name, json_object_new_double_s(value, text));
}

static struct json_object *rates_json(const struct top_rates *r)
{
    struct json_object *o = json_object_new_object();
    if (r->counted) {
        add_rate(o, "commits", r->commits);
        add_rate(o, "writes", r->writes);
        add_rate(o, "reads", r->reads);
        add_rate(o, "heartbeats", r->heartbeats);
    }
    add_rate(o, "revisions", r->revisions);
    return o;
}

static struct json_object *leader_json(const struct top_leader *l)
{
    struct json_object *o = json_object_new_object();
    output_add_text(o, "id", l->id);
    output_add_text(o, "addr", l->addr);
    output_add_number(o, "epoch", (int64_t)l->epoch);
    output_add_number(o, "revision", l->revision);
    return o;
}

struct json_object *top_json(const struct top_view *v)
{
    const struct top_sample *now = v->now;
    struct top_leader leader = top_leader_of(now);
    struct json_object *o = json_object_new_object(), *members = json_object_new_array();
    for (size_t i = 0; now->members && i < now->members->count; i++)
        json_object_array_add(members, member_json(&now->members->members[i]));
    output_add_number(o, "unix_ms", now->unix_ms);
    json_object_object_add(o, "leader", leader.id ? leader_json(&leader) : NULL);
    output_add_text(o, "error", leader.id ? "" : now->why.message);
    json_object_object_add(o, "members", members);
    json_object_object_add(o, "info", now->info ? info_json(now->info) : NULL);
    json_object_object_add(o, "per_second", v->rates.known ? rates_json(&v->rates) : NULL);
    return o;
}
