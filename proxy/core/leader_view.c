#include "proxy/core/leader_view.h"
#include <stdio.h>
#include <string.h>

static void copy_name(char out[LEADER_NAME_MAX], const char *s)
{
    snprintf(out, LEADER_NAME_MAX, "%s", s ? s : "");
}

void leader_view_init(struct leader_view *v, const char *cluster_id)
{
    memset(v, 0, sizeof *v);
    copy_name(v->cluster_id, cluster_id);
    v->pinned = v->cluster_id[0] != 0;
}

int leader_view_add_seed(struct leader_view *v)
{
    for (int i = 0; i < LEADER_SEEDS_MAX; i++)
        if (!v->seeds[i].used) {
            v->seeds[i] = (struct leader_seed){.used = true};
            return i;
        }
    return -1;
}

void leader_view_remove_seed(struct leader_view *v, int seed)
{
    if (seed >= 0)
        v->seeds[seed].used = false;
}

static bool most_seeds_say(const struct leader_view *v, const char *cluster_id)
{
    int all = 0, same = 0;
    for (int i = 0; i < LEADER_SEEDS_MAX; i++) {
        all += v->seeds[i].used;
        same += v->seeds[i].used && !strcmp(v->seeds[i].cluster_id, cluster_id);
    }
    return same * 2 > all;
}

static enum leader_change set_leader(struct leader_view *v, uint64_t epoch, const char *id,
                                     const char *addr)
{
    bool same = v->known && v->epoch == epoch && !strcmp(v->addr, addr);
    v->known = true;
    v->ended = false;
    v->epoch = epoch;
    copy_name(v->leader_id, id);
    copy_name(v->addr, addr);
    return same ? LEADER_SAME : LEADER_CHANGED;
}

static enum leader_change set_none(struct leader_view *v, uint64_t epoch, bool ended)
{
    bool was = v->known;
    v->known = false;
    v->ended = ended;
    v->epoch = epoch;
    return was ? LEADER_ENDED : LEADER_SAME;
}

/* Does the leader that the view knows (or knew) speak itself? */
static bool from_leader(const struct leader_view *v, const struct leader_report *r)
{
    if (v->leader_id[0])
        return r->member_id && !strcmp(v->leader_id, r->member_id);
    return v->addr[0] && r->from_addr && !strcmp(v->addr, r->from_addr);
}

static bool names_itself(const struct leader_report *r)
{
    return r->member_id && r->member_id[0] && r->leader_id && !strcmp(r->member_id, r->leader_id);
}

static enum leader_change apply(struct leader_view *v, const struct leader_report *r)
{
    bool names = r->known && r->addr && r->addr[0];
    if (r->epoch < v->epoch)
        return LEADER_SAME;
    if (r->epoch > v->epoch)
        return names ? set_leader(v, r->epoch, r->leader_id, r->addr)
                     : set_none(v, r->epoch, false);
    if (!names)
        return v->known && from_leader(v, r) ? set_none(v, r->epoch, true) : LEADER_SAME;
    /* Within one epoch there is one leader: what is known stays, unless that leader corrects it; a
     * leadership that its own leader ended is not brought back by a member that lags. */
    if ((v->known && v->leader_id[0]) || v->ended)
        return names_itself(r) ? set_leader(v, r->epoch, r->leader_id, r->addr) : LEADER_SAME;
    return set_leader(v, r->epoch, r->leader_id, r->addr);
}

/* A name that is cut short would be another name: such a report is not believed. */
static bool fits(const char *name)
{
    return !name || strlen(name) < LEADER_NAME_MAX;
}

enum leader_change leader_view_report(struct leader_view *v, const struct leader_report *r)
{
    const char *cluster = r->cluster_id ? r->cluster_id : "";
    if (!cluster[0] || !fits(cluster) || !fits(r->member_id) || !fits(r->leader_id) ||
        !fits(r->addr))
        return LEADER_SAME;
    if (r->seed >= 0)
        copy_name(v->seeds[r->seed].cluster_id, cluster);
    if (!v->cluster_id[0])
        copy_name(v->cluster_id, cluster);
    if (!strcmp(v->cluster_id, cluster))
        return apply(v, r);
    if (v->pinned || r->seed < 0 || !most_seeds_say(v, cluster))
        return LEADER_FOREIGN;
    copy_name(v->cluster_id, cluster);
    v->known = v->ended = false;
    v->epoch = 0;
    v->leader_id[0] = v->addr[0] = 0;
    apply(v, r);
    return LEADER_RESTARTED;
}

enum leader_change leader_view_hint(struct leader_view *v, const char *addr, uint64_t epoch,
                                    const char *cluster_id, bool listed)
{
    if (!listed || !addr || !addr[0] || epoch < v->epoch)
        return LEADER_SAME;
    if (cluster_id && cluster_id[0] && v->cluster_id[0] && strcmp(v->cluster_id, cluster_id))
        return LEADER_FOREIGN;
    if (epoch == v->epoch && (v->known || v->ended))
        return LEADER_SAME;
    return set_leader(v, epoch, "", addr);
}
