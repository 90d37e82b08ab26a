#include "client/core/leader_view.h"
#include <stdio.h>
#include <string.h>

static bool is_address(const char *s, size_t len)
{
    const char *colon = memrchr(s, ':', len);
    if (!colon || colon == s || len >= LEADER_ADDR_MAX || memchr(s, '/', len))
        return false;
    size_t digits = (size_t)(s + len - colon - 1);
    return digits >= 1 && digits <= 5 && strspn(colon + 1, "0123456789") >= digits;
}

static struct err add_seed(struct leader_view *v, const char *s, size_t len)
{
    if (!is_address(s, len))
        return err_make(ERR_USAGE, "'%.*s' is no address: host:port is wanted, without http://",
                        (int)len, s);
    if (v->count == LEADER_SEEDS_MAX)
        return err_make(ERR_USAGE, "more than %d addresses", LEADER_SEEDS_MAX);
    snprintf(v->seeds[v->count++], LEADER_ADDR_MAX, "%.*s", (int)len, s);
    return OK_ERR;
}

struct err leader_view_init(struct leader_view *v, const char *addresses)
{
    *v = (struct leader_view){0};
    for (const char *at = addresses;; at++) {
        size_t len = strcspn(at, ",");
        struct err e = add_seed(v, at, len);
        at += len;
        if (err_is(&e) || !*at)
            return e;
    }
}

const char *leader_view_seed(const struct leader_view *v)
{
    return v->seeds[v->next];
}

const char *leader_view_pick(const struct leader_view *v)
{
    return v->leader[0] ? v->leader : leader_view_seed(v);
}

static bool says(const char *s)
{
    return s && *s;
}

static bool is_seed(const struct leader_view *v, const char *addr)
{
    for (size_t i = 0; i < leader_view_seeds(v); i++)
        if (!strcmp(v->seeds[i], addr))
            return true;
    return false;
}

/* When there is no room, the one that was learnt first goes. */
static void add_learnt(struct leader_view *v, const char *addr)
{
    if (is_seed(v, addr))
        return;
    if (v->learnt == LEADER_LEARNT_MAX) {
        memmove(v->seeds[v->count], v->seeds[v->count + 1],
                (LEADER_LEARNT_MAX - 1) * sizeof v->seeds[0]);
        v->learnt--;
    }
    snprintf(v->seeds[v->count + v->learnt++], LEADER_ADDR_MAX, "%s", addr);
}

void leader_view_members(struct leader_view *v, const char *const *addrs, size_t count)
{
    v->learnt = 0;
    for (size_t i = 0; i < count && v->learnt < LEADER_LEARNT_MAX; i++)
        if (is_address(addrs[i], strlen(addrs[i])))
            add_learnt(v, addrs[i]);
    if (v->next >= leader_view_seeds(v))
        v->next = 0;
}

bool leader_view_learn(struct leader_view *v, const struct leader_claim *claim)
{
    if (says(claim->cluster) && strcmp(claim->cluster, v->cluster) != 0) {
        snprintf(v->cluster, sizeof v->cluster, "%s", claim->cluster);
        v->leader[0] = 0;
        v->epoch = 0;
        v->revision = 0;
        v->learnt = 0;
        v->next %= v->count;
    }
    if (claim->revision > v->revision)
        v->revision = claim->revision;
    if (claim->epoch < v->epoch)
        return false;
    v->epoch = claim->epoch;
    if (!says(claim->addr) || !is_address(claim->addr, strlen(claim->addr)))
        return false;
    bool changed = strcmp(claim->addr, v->leader) != 0;
    add_learnt(v, claim->addr);
    snprintf(v->leader, sizeof v->leader, "%s", claim->addr);
    return changed;
}

void leader_view_failed(struct leader_view *v, const char *addr)
{
    if (!strcmp(addr, v->leader))
        v->leader[0] = 0;
    if (!strcmp(addr, v->seeds[v->next]))
        v->next = (v->next + 1) % leader_view_seeds(v);
}
