#include "meta/board.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/mem.h"
#include "meta/core/read_gate.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the commit record says of whoever leads. */
struct seen {
    uint64_t epoch; /* 0: nothing seen */
    char id[ID_MAX + 1], nonce[NONCE_DIGITS + 1], addr[ADDR_MAX + 1];
    int64_t ttl_ms, seen_ms;
    bool released;
};

struct board {
    pthread_mutex_t lock;
    void (*listener)(void *arg);
    void *listener_arg;
    char member_id[ID_MAX + 1], addr[ADDR_MAX + 1];
    struct cluster cluster; /* no id: not known yet */
    enum role role;
    uint64_t epoch; /* of the own leadership */
    uint64_t ended; /* highest own epoch whose gate was closed */
    bool draining;
    struct err refused; /* what etcd holds; OK: it is not */
    struct read_gate gate;
    uint64_t proven_epoch;
    int64_t proven_until_ms;
    int64_t applied;
    struct seen seen;
    _Atomic bool dying; /* set by a fatal signal */
};

struct board *board_new(const char *member_id, const char *addr)
{
    struct board *b = mem_alloc(sizeof *b);
    pthread_mutex_init(&b->lock, NULL);
    snprintf(b->member_id, sizeof b->member_id, "%s", member_id);
    snprintf(b->addr, sizeof b->addr, "%s", addr);
    return b;
}

void board_free(struct board *b)
{
    if (!b)
        return;
    pthread_mutex_destroy(&b->lock);
    free(b);
}

static void changed(struct board *b)
{
    if (b->listener)
        b->listener(b->listener_arg);
}

/* ---- written by the election ---- */

void board_set_role(struct board *b, enum role role, uint64_t epoch)
{
    pthread_mutex_lock(&b->lock);
    b->role = role;
    b->epoch = epoch;
    changed(b);
    pthread_mutex_unlock(&b->lock);
}

void board_set_draining(struct board *b)
{
    pthread_mutex_lock(&b->lock);
    b->draining = true;
    changed(b);
    pthread_mutex_unlock(&b->lock);
}

void board_close_gate(struct board *b, uint64_t epoch)
{
    pthread_mutex_lock(&b->lock);
    read_gate_close(&b->gate, epoch);
    b->ended = epoch > b->ended ? epoch : b->ended;
    changed(b);
    pthread_mutex_unlock(&b->lock);
}

void board_close_gate_now(struct board *b)
{
    atomic_store(&b->dying, true);
}

static uint64_t read_epoch(struct board *b, int64_t now_ms)
{
    if (b->role != ROLE_LEADER || atomic_load(&b->dying))
        return 0;
    return read_gate_epoch(&b->gate, now_ms);
}

/* ---- written by the replica and the follower of etcd ---- */

void board_set_cluster(struct board *b, const struct cluster *cluster)
{
    pthread_mutex_lock(&b->lock);
    b->cluster = *cluster;
    changed(b);
    pthread_mutex_unlock(&b->lock);
}

void board_set_applied(struct board *b, int64_t revision)
{
    pthread_mutex_lock(&b->lock);
    b->applied = revision;
    pthread_mutex_unlock(&b->lock);
}

void board_open_gate(struct board *b, uint64_t epoch)
{
    pthread_mutex_lock(&b->lock);
    read_gate_open(&b->gate, epoch);
    pthread_mutex_unlock(&b->lock);
}

void board_extend_gate(struct board *b, uint64_t epoch, int64_t deadline_ms)
{
    pthread_mutex_lock(&b->lock);
    int64_t now_ms = clock_boot_ms();
    bool was_open = read_epoch(b, now_ms) != 0;
    read_gate_extend(&b->gate, epoch, deadline_ms);
    if (!was_open && read_epoch(b, now_ms))
        changed(b); /* it had run out for the moment */
    pthread_mutex_unlock(&b->lock);
}

/* Whether this member may call itself the leader. */
static bool is_proven(struct board *b, int64_t now_ms)
{
    if (b->role != ROLE_LEADER || atomic_load(&b->dying))
        return false;
    bool lately = b->proven_epoch == b->epoch && b->gate.epoch == b->epoch;
    return read_gate_epoch(&b->gate, now_ms) || (lately && now_ms < b->proven_until_ms);
}

void board_prove(struct board *b, uint64_t epoch, int64_t until_ms)
{
    pthread_mutex_lock(&b->lock);
    int64_t now_ms = clock_boot_ms();
    bool was_proven = is_proven(b, now_ms);
    if (epoch != b->proven_epoch || until_ms > b->proven_until_ms)
        b->proven_until_ms = until_ms;
    b->proven_epoch = epoch;
    if (!was_proven && is_proven(b, now_ms))
        changed(b);
    pthread_mutex_unlock(&b->lock);
}

void board_see_leader(struct board *b, const struct record *record, const char *addr,
                      int64_t seen_ms)
{
    pthread_mutex_lock(&b->lock);
    struct seen *s = &b->seen;
    if (record->epoch >= s->epoch) {
        bool is_new = record->epoch > s->epoch || strcmp(record->nonce, s->nonce) != 0;
        /* the address may become known later than the record, or not at all */
        bool news = is_new || (addr[0] && strcmp(addr, s->addr) != 0);
        if (is_new)
            *s = (struct seen){.epoch = record->epoch};
        snprintf(s->id, sizeof s->id, "%s", record->leader);
        snprintf(s->nonce, sizeof s->nonce, "%s", record->nonce);
        if (addr[0])
            snprintf(s->addr, sizeof s->addr, "%s", addr);
        s->ttl_ms = record->ttl_ms;
        s->seen_ms = seen_ms;
        if (news)
            changed(b);
    }
    pthread_mutex_unlock(&b->lock);
}

void board_set_refused(struct board *b, const struct err *why)
{
    pthread_mutex_lock(&b->lock);
    bool news = err_is(&b->refused) != err_is(why);
    b->refused = *why;
    if (news)
        changed(b);
    pthread_mutex_unlock(&b->lock);
}

void board_see_released(struct board *b, uint64_t epoch, const char *nonce)
{
    pthread_mutex_lock(&b->lock);
    if (b->seen.epoch == epoch && strcmp(b->seen.nonce, nonce) == 0 && !b->seen.released) {
        b->seen.released = true;
        changed(b);
    }
    pthread_mutex_unlock(&b->lock);
}

/* ---- read by all ---- */

uint64_t board_read_epoch(struct board *b)
{
    pthread_mutex_lock(&b->lock);
    uint64_t epoch = read_epoch(b, clock_boot_ms());
    pthread_mutex_unlock(&b->lock);
    return epoch;
}

bool board_still_reads(struct board *b, uint64_t epoch)
{
    pthread_mutex_lock(&b->lock);
    bool open = b->gate.epoch == epoch;
    pthread_mutex_unlock(&b->lock);
    return open;
}

/* The leader this member may name: itself while etcd confirms it, another one while its last sign
 * of life is younger than its TTL and nobody has released it. */
static bool known_leader(struct board *b, int64_t now_ms)
{
    if (err_is(&b->refused))
        return false;
    if (b->role == ROLE_LEADER)
        return is_proven(b, now_ms);
    const struct seen *s = &b->seen;
    return s->epoch && !s->released && s->addr[0] && strcmp(s->id, b->member_id) != 0 &&
           now_ms - s->seen_ms < s->ttl_ms;
}

/* The highest epoch to speak of. One that this member took over but does not serve yet is not
 * mentioned: "no leader, epoch N" from the leader of N means that N has ended. */
static uint64_t epoch_to_tell(const struct board *b)
{
    const struct seen *s = &b->seen;
    if (b->role == ROLE_LEADER && b->epoch > s->epoch)
        return b->epoch;
    /* the replica opens the gate a moment before the election publishes the role */
    bool to_come =
        b->role != ROLE_LEADER && strcmp(s->id, b->member_id) == 0 && s->epoch > b->ended;
    return to_come ? s->epoch - 1 : s->epoch;
}

static void fill_leader(struct board *b, struct board_leader *out)
{
    int64_t now_ms = clock_boot_ms();
    bool self = b->role == ROLE_LEADER;
    *out = (struct board_leader){
        .known = known_leader(b, now_ms),
        .epoch = epoch_to_tell(b),
        .revision = b->applied,
        .age_ms = self || !b->seen.epoch ? 0 : now_ms - b->seen.seen_ms,
    };
    snprintf(out->cluster_id, sizeof out->cluster_id, "%s", b->cluster.id);
    if (out->known) {
        snprintf(out->id, sizeof out->id, "%s", self ? b->member_id : b->seen.id);
        snprintf(out->addr, sizeof out->addr, "%s", self ? b->addr : b->seen.addr);
    }
}

void board_leader(struct board *b, struct board_leader *out)
{
    pthread_mutex_lock(&b->lock);
    fill_leader(b, out);
    pthread_mutex_unlock(&b->lock);
}

static struct err why_not(struct board *b, const struct board_leader *leader)
{
    if (err_is(&b->refused))
        return b->refused;
    if (b->draining)
        return err_make(ERR_DRAINING, "member %s is shutting down: ask another member",
                        b->member_id);
    switch (b->role) {
    case ROLE_LEADER:
        return OK_ERR;
    case ROLE_ACTIVATING:
        return err_make(ERR_ACTIVATING, "member %s is taking over: try again", b->member_id);
    case ROLE_FOLLOWER:
    case ROLE_CANDIDATE:
    case ROLE_STEPPING_DOWN:
        break;
    }
    if (!leader->known)
        return err_make(ERR_NO_LEADER, "no leader is known to member %s: try again", b->member_id);
    return err_make(ERR_NOT_LEADER,
                    "member %s does not lead: ask %s at %s, or go through the proxy", b->member_id,
                    leader->id, leader->addr);
}

void board_cluster_id(struct board *b, char out[40])
{
    pthread_mutex_lock(&b->lock);
    memcpy(out, b->cluster.id, sizeof b->cluster.id);
    pthread_mutex_unlock(&b->lock);
}

struct err board_refused(struct board *b)
{
    pthread_mutex_lock(&b->lock);
    struct err refused = b->refused;
    pthread_mutex_unlock(&b->lock);
    return refused;
}

void board_cluster(struct board *b, struct cluster *out)
{
    pthread_mutex_lock(&b->lock);
    *out = b->cluster;
    pthread_mutex_unlock(&b->lock);
}

void board_refusal(struct board *b, struct board_refusal *out)
{
    struct board_leader leader;
    pthread_mutex_lock(&b->lock);
    fill_leader(b, &leader);
    *out = (struct board_refusal){.err = why_not(b, &leader), .epoch = leader.epoch};
    pthread_mutex_unlock(&b->lock);
    memcpy(out->leader_addr, leader.addr, sizeof out->leader_addr);
    memcpy(out->cluster_id, leader.cluster_id, sizeof out->cluster_id);
}

void board_self(struct board *b, struct board_self *out)
{
    pthread_mutex_lock(&b->lock);
    int64_t now_ms = clock_boot_ms();
    *out = (struct board_self){
        .role = b->role,
        .epoch = b->epoch,
        .deadline_left_ms = read_gate_left_ms(&b->gate, now_ms),
        .proven = is_proven(b, now_ms),
        .applied = b->applied,
        .draining = b->draining,
    };
    pthread_mutex_unlock(&b->lock);
}

void board_listen(struct board *b, void (*listener)(void *arg), void *arg)
{
    pthread_mutex_lock(&b->lock);
    b->listener = listener;
    b->listener_arg = arg;
    pthread_mutex_unlock(&b->lock);
}
