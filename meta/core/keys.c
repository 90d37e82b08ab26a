#include "meta/core/keys.h"
#include "common/base/check.h"
#include <stdio.h>

bool keys_prefix(char out[PREFIX_MAX], const char *cluster)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    size_t len = strlen(cluster);
    if (!len || len > CLUSTER_NAME_MAX || strspn(cluster, allowed) != len)
        return false;
    snprintf(out, PREFIX_MAX, "/baton/%s/", cluster);
    return true;
}

static struct bytes join(char out[KEY_MAX], const char *prefix, const char *name, const char *rest)
{
    int n = snprintf(out, KEY_MAX, "%s%s%s", prefix, name, rest);
    PRE(n > 0 && n < KEY_MAX);
    return bytes_of(out, (size_t)n);
}

static struct bytes numbered(char out[KEY_MAX], const char *prefix, const char *name, uint64_t n)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%020llu", (unsigned long long)n);
    return join(out, prefix, name, digits);
}

struct bytes keys_cluster(char out[KEY_MAX], const char *prefix)
{
    return join(out, prefix, "cluster", "");
}

struct bytes keys_live(char out[KEY_MAX], const char *prefix)
{
    return join(out, prefix, "live/", "");
}

struct bytes keys_elections(char out[KEY_MAX], const char *prefix)
{
    return join(out, prefix, "live/election/", "");
}

struct bytes keys_election(char out[KEY_MAX], const char *prefix, int64_t lease)
{
    char hex[24];
    snprintf(hex, sizeof hex, "%llx", (unsigned long long)lease);
    return join(out, prefix, "live/election/", hex);
}

struct bytes keys_members(char out[KEY_MAX], const char *prefix)
{
    return join(out, prefix, "live/members/", "");
}

struct bytes keys_member(char out[KEY_MAX], const char *prefix, const char *id)
{
    return join(out, prefix, "live/members/", id);
}

struct bytes keys_released(char out[KEY_MAX], const char *prefix)
{
    return join(out, prefix, "live/released", "");
}

struct bytes keys_removed(char out[KEY_MAX], const char *prefix, const char *id)
{
    return join(out, prefix, "live/removed/", id);
}

struct bytes keys_state(char out[KEY_MAX], const char *prefix)
{
    return join(out, prefix, "state/", "");
}

struct bytes keys_commit(char out[KEY_MAX], const char *prefix)
{
    return join(out, prefix, "state/commit", "");
}

struct bytes keys_histories(char out[KEY_MAX], const char *prefix)
{
    return join(out, prefix, "state/history/", "");
}

struct bytes keys_history(char out[KEY_MAX], const char *prefix, uint64_t epoch)
{
    return numbered(out, prefix, "state/history/", epoch);
}

struct bytes keys_dedups(char out[KEY_MAX], const char *prefix)
{
    return join(out, prefix, "state/dedup/", "");
}

struct bytes keys_dedup(char out[KEY_MAX], const char *prefix, uint64_t n)
{
    return numbered(out, prefix, "state/dedup/", n);
}

struct bytes keys_dedup_floor(char out[KEY_MAX], const char *prefix)
{
    return join(out, prefix, "state/dedup/floor", "");
}

struct bytes keys_kvs(char out[KEY_MAX], const char *prefix)
{
    return join(out, prefix, "state/kv/", "");
}

struct bytes keys_probe(char out[KEY_MAX], const char *prefix)
{
    return join(out, prefix, "probe", "");
}

bool keys_rest(struct bytes key, struct bytes start, struct bytes *rest)
{
    if (!bytes_starts_with(key, start))
        return false;
    *rest = bytes_of(key.data + start.len, key.len - start.len);
    return true;
}

static bool read_number(struct bytes text, unsigned base, uint64_t *out)
{
    static const char digits[] = "0123456789abcdef";
    uint64_t n = 0;
    for (size_t i = 0; i < text.len; i++) {
        const char *at = text.data[i] ? strchr(digits, text.data[i]) : NULL;
        unsigned digit = at ? (unsigned)(at - digits) : base;
        if (digit >= base || n > (UINT64_MAX - digit) / base)
            return false;
        n = n * base + digit;
    }
    *out = n;
    return text.len > 0;
}

bool keys_rest_number(struct bytes key, struct bytes start, uint64_t *n)
{
    struct bytes rest;
    return keys_rest(key, start, &rest) && rest.len == 20 && read_number(rest, 10, n);
}

bool keys_rest_lease(struct bytes key, struct bytes start, int64_t *lease)
{
    struct bytes rest;
    uint64_t n;
    if (!keys_rest(key, start, &rest) || !read_number(rest, 16, &n))
        return false;
    *lease = (int64_t)n;
    return true;
}
