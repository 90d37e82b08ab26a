#include "meta/core/subscription.h"
#include "common/base/check.h"
#include "meta/core/wire.h"

static bool is_name(struct bytes s)
{
    if (s.len == 0 || s.len > SUBSCRIPTION_KIND_MAX)
        return false;
    for (size_t i = 0; i < s.len; i++) {
        uint8_t c = s.data[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        bool digit = c >= '0' && c <= '9';
        if (!letter && !digit && c != '.' && c != '_' && c != '-')
            return false;
    }
    return true;
}

static struct err bad_name(const char *field)
{
    return err_make(ERR_BAD_REQUEST, "%s is 1 to %d characters of A-Z, a-z, 0-9, '.', '_' and '-'",
                    field, SUBSCRIPTION_KIND_MAX);
}

/* A list that its topic does not ask for would be ignored, and was hardly meant so. */
static struct err check_list(const struct subscription *s, size_t count, enum subscription_topic of,
                             const char *field, const char *topic)
{
    if (count && !(s->topics & of))
        return err_make(ERR_BAD_REQUEST, "%s are given, but the topic %s is not asked for", field,
                        topic);
    if (count > SUBSCRIPTION_PREFIXES_MAX)
        return err_make(ERR_BAD_REQUEST, "%zu %s: at most %d", count, field,
                        SUBSCRIPTION_PREFIXES_MAX);
    return OK_ERR;
}

struct err subscription_check(struct subscription *s)
{
    if (!is_name(s->kind))
        return bad_name("kind");
    if (!s->topics || (s->topics & ~(unsigned)TOPICS_ALL))
        return err_make(ERR_BAD_REQUEST, "topics are MEMBERS, LEADER, WORKERS and KEYS, at least "
                                         "one of them");
    struct err e = check_list(s, s->prefix_count, TOPIC_KEYS, "prefixes", "KEYS");
    if (!err_is(&e))
        e = check_list(s, s->type_count, TOPIC_WORKERS, "worker_types", "WORKERS");
    for (size_t i = 0; i < s->type_count && !err_is(&e); i++)
        if (!is_name(s->types[i]))
            e = bad_name("a worker type");
    if (err_is(&e))
        return e;
    s->prefix_count = prefixes_tidy(s->prefixes, s->prefix_count);
    return OK_ERR;
}

bool subscription_wants_key(const struct subscription *s, struct bytes key)
{
    return (s->topics & TOPIC_KEYS) && prefixes_hold(s->prefixes, s->prefix_count, key);
}

bool subscription_wants_worker(const struct subscription *s, struct bytes type)
{
    bool wants = (s->topics & TOPIC_WORKERS) && !s->type_count;
    for (size_t i = 0; i < s->type_count && !wants; i++)
        wants = bytes_equal(s->types[i], type);
    return wants;
}

/* ---- as bytes ---- */

static void put_list(struct buf *out, const struct bytes *items, size_t count)
{
    wire_put_number(out, count);
    for (size_t i = 0; i < count; i++)
        wire_put_bytes(out, items[i]);
}

void subscription_encode(const struct subscription *s, struct buf *out)
{
    wire_put_number(out, s->topics);
    put_list(out, s->prefixes, s->prefix_count);
    put_list(out, s->types, s->type_count);
}

static struct bytes *get_list(struct bytes *in, struct arena *memory, size_t *out_count)
{
    uint64_t count;
    bool good = wire_get_number(in, &count) && count <= SUBSCRIPTION_PREFIXES_MAX;
    INVARIANT(good);
    struct bytes *items = arena_array(memory, count, sizeof *items);
    for (size_t i = 0; i < count; i++) {
        good = wire_get_bytes(in, &items[i]);
        INVARIANT(good);
    }
    *out_count = count;
    return items;
}

void subscription_decode(struct bytes wishes, struct arena *memory, struct subscription *out)
{
    uint64_t topics;
    struct bytes in = arena_copy(memory, wishes);
    bool good = wire_get_number(&in, &topics);
    INVARIANT(good);
    *out = (struct subscription){.topics = (unsigned)topics};
    out->prefixes = get_list(&in, memory, &out->prefix_count);
    out->types = get_list(&in, memory, &out->type_count);
}
