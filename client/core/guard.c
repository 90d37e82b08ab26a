#include "client/core/guard.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum guard_verdict guard_judge(const struct guard *g, const char *cluster, uint64_t epoch)
{
    if (g->cluster[0] && strcmp(g->cluster, cluster) != 0)
        return GUARD_OTHER_CLUSTER;
    if (!g->cluster[0] || epoch > g->epoch)
        return GUARD_HIGHER;
    return epoch == g->epoch ? GUARD_SAME : GUARD_STALE;
}

void guard_raise(struct guard *g, const char *cluster, uint64_t epoch)
{
    if (cluster != g->cluster)
        snprintf(g->cluster, sizeof g->cluster, "%s", cluster);
    g->epoch = epoch;
}

/* FNV-1a: finds damage, not malice. */
static uint64_t sum_of(struct bytes s)
{
    uint64_t sum = 0xcbf29ce484222325U;
    for (size_t i = 0; i < s.len; i++)
        sum = (sum ^ s.data[i]) * 0x100000001b3U;
    return sum;
}

void guard_encode(const struct guard *g, struct buf *out)
{
    buf_clear(out);
    buf_printf(out, "baton-guard 1 cluster=%s epoch=%" PRIu64, g->cluster, g->epoch);
    buf_printf(out, " sum=%016" PRIx64 "\n", sum_of(buf_view(out)));
}

/* The text behind a word, up to a blank. */
static struct bytes behind(struct bytes text, const char *word)
{
    const uint8_t *at = text.len ? memmem(text.data, text.len, word, strlen(word)) : NULL;
    if (!at)
        return BYTES_NONE;
    at += strlen(word);
    size_t len = 0, rest = (size_t)(text.data + text.len - at);
    while (len < rest && at[len] != ' ')
        len++;
    return bytes_of(at, len);
}

/* Whatever reads as a guard counts only if it is written back the same. */
struct err guard_decode(struct bytes file, struct guard *out)
{
    struct bytes cluster = behind(file, " cluster="), epoch = behind(file, " epoch=");
    struct buf again = {0};
    *out = (struct guard){0};
    if (cluster.len && cluster.len < sizeof out->cluster)
        memcpy(out->cluster, cluster.data, cluster.len);
    for (size_t i = 0; i < epoch.len; i++)
        out->epoch = out->epoch * 10 + (uint64_t)(epoch.data[i] - '0');
    guard_encode(out, &again);
    bool same = bytes_equal(file, buf_view(&again));
    buf_close(&again);
    return same ? OK_ERR : err_make(ERR_CORRUPT, "it is no guard file, or damaged");
}
