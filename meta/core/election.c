#include "common/base/check.h"
#include "common/base/mem.h"
#include "meta/core/election_parts.h"
#include <stdlib.h>

static const char *const role_names[] = {"FOLLOWER", "CANDIDATE", "ACTIVATING", "LEADER",
                                         "STEPPING_DOWN"};
static const uint32_t role_moves[] = {
    [ROLE_FOLLOWER] = SM_TO(ROLE_CANDIDATE),
    [ROLE_CANDIDATE] = SM_TO(ROLE_FOLLOWER) | SM_TO(ROLE_ACTIVATING),
    [ROLE_ACTIVATING] = SM_TO(ROLE_LEADER) | SM_TO(ROLE_STEPPING_DOWN),
    [ROLE_LEADER] = SM_TO(ROLE_STEPPING_DOWN),
    [ROLE_STEPPING_DOWN] = SM_TO(ROLE_FOLLOWER),
};
static const struct sm_decl role_decl = {"role", 5, role_names, role_moves};

static const char *const seat_names[] = {"waiting to ask for a lease",
                                         "asking for a lease",
                                         "registering the member",
                                         "ending the former lease",
                                         "waiting until it may stand",
                                         "joining the queue",
                                         "waiting in the queue",
                                         "reading the commit record",
                                         "waiting for the old leader's reads",
                                         "taking over",
                                         "leading",
                                         "giving up the key",
                                         "giving up the lease",
                                         "gone"};

/* Without a lease all begins again; who drains goes to REVOKING from wherever no takeover is open.
 */
#define SEAT_UPSET (SM_TO(SEAT_NONE) | SM_TO(SEAT_REVOKING) | SM_TO(SEAT_GONE))
static const uint32_t seat_moves[SEATS] = {
    [SEAT_NONE] = SM_TO(SEAT_GRANTING) | SM_TO(SEAT_GONE),
    [SEAT_GRANTING] = SM_TO(SEAT_REGISTERING) | SEAT_UPSET,
    [SEAT_REGISTERING] = SM_TO(SEAT_EVICTING) | SM_TO(SEAT_OUT) | SEAT_UPSET,
    [SEAT_EVICTING] = SM_TO(SEAT_REGISTERING) | SEAT_UPSET,
    [SEAT_OUT] = SM_TO(SEAT_ENQUEUING) | SM_TO(SEAT_LEAVING) | SEAT_UPSET,
    [SEAT_ENQUEUING] = SM_TO(SEAT_QUEUED) | SEAT_UPSET,
    [SEAT_QUEUED] = SM_TO(SEAT_READING) | SM_TO(SEAT_WAITING) | SM_TO(SEAT_LEAVING) |
                    SM_TO(SEAT_OUT) | SEAT_UPSET,
    [SEAT_READING] = SM_TO(SEAT_QUEUED) | SM_TO(SEAT_WAITING) | SM_TO(SEAT_LEAVING) |
                     SM_TO(SEAT_OUT) | SEAT_UPSET,
    [SEAT_WAITING] = SM_TO(SEAT_READING) | SM_TO(SEAT_TAKING) | SM_TO(SEAT_LEAVING) |
                     SM_TO(SEAT_OUT) | SEAT_UPSET,
    [SEAT_TAKING] = SM_TO(SEAT_LEADING) | SM_TO(SEAT_READING) | SM_TO(SEAT_LEAVING) |
                    SM_TO(SEAT_OUT) | SM_TO(SEAT_GONE),
    [SEAT_LEADING] = SM_TO(SEAT_LEAVING) | SM_TO(SEAT_GONE),
    [SEAT_LEAVING] = SM_TO(SEAT_OUT) | SEAT_UPSET,
    [SEAT_REVOKING] = SM_TO(SEAT_GONE),
};
static const struct sm_decl seat_decl = {"seat", SEATS, seat_names, seat_moves};

const char *role_str(enum role role)
{
    return role_names[role];
}

struct election *election_new(const struct election_config *cfg, int64_t now_ms)
{
    PRE(cfg->endpoints > 0 && cfg->ttl_ms > 0);
    struct election *e = mem_alloc(sizeof *e);
    e->cfg = *cfg;
    e->ttl_ms = cfg->ttl_ms;
    rng_seed(&e->rng, cfg->seed);
    e->retry = (struct backoff){.min_ms = 50, .max_ms = 2000};
    e->rest = (struct backoff){.min_ms = 500, .max_ms = 30000};
    sm_init(&e->role, &role_decl, ROLE_FOLLOWER, now_ms);
    sm_init(&e->seat, &seat_decl, SEAT_NONE, now_ms);
    return e;
}

void election_free(struct election *e)
{
    if (!e)
        return;
    ask_drop(e);
    free(e);
}

/* ---- what comes out ---- */

struct election_action *election_act(struct election *e, enum election_action_kind kind)
{
    struct election_effects *out = e->out;
    INVARIANT(out->count < sizeof out->actions / sizeof *out->actions);
    struct election_action *a = &out->actions[out->count++];
    *a = (struct election_action){.kind = kind};
    return a;
}

void election_warn(struct election *e, struct err err)
{
    election_act(e, ELECTION_WARN)->err = err;
}

void election_suspect(struct election *e, struct err err)
{
    e->held = true;
    election_act(e, ELECTION_SUSPECT)->err = err;
}

void election_fail(struct election *e, struct err err)
{
    ask_drop(e);
    election_lead_break_off(e, "it cannot go on");
    election_move_seat(e, SEAT_GONE, "it cannot go on");
    election_act(e, ELECTION_FATAL)->err = err;
}

void election_move_seat(struct election *e, enum seat to, const char *why)
{
    sm_move(&e->seat, (int)to, why, e->now_ms);
}

void election_move_role(struct election *e, enum role to, const char *why)
{
    sm_move(&e->role, (int)to, why, e->now_ms);
    struct election_action *a = election_act(e, ELECTION_PUBLISH);
    a->role = to;
    a->epoch = to == ROLE_FOLLOWER || to == ROLE_CANDIDATE ? 0 : e->leadership.epoch;
}

/* ---- what comes in ---- */

static bool is_older(const struct record *a, const struct record *b)
{
    return a->epoch != b->epoch ? a->epoch < b->epoch : a->seq < b->seq;
}

static void adopt(struct election *e, const struct sight *s, const struct record *record)
{
    e->seen.known = true;
    e->seen.record = *record;
    e->seen.revision = s->revision;
    e->seen.since_ms = s->received_ms;
    e->seen.last_call = e->last_call;
    record_bytes_set(&e->seen.bytes, s->value);
    e->read_since_seen = false;
    if (record->epoch > e->highest_epoch)
        e->highest_epoch = record->epoch;
}

void election_see(struct election *e, const struct sight *s, bool certain)
{
    struct record record = {0};
    if (e->seen.known && bytes_equal(s->value, record_view(&e->seen.bytes)))
        return; /* the wait counts from the first receipt */
    if (s->value.len) {
        struct err err = record_decode(s->value, &record);
        if (err_is(&err)) {
            election_suspect(e, err);
            return;
        }
    }
    if (certain && record.epoch < e->highest_epoch) {
        election_suspect(
            e, err_make(ERR_EPOCH_REGRESSION, "etcd's state went back from epoch %llu to %llu",
                        (unsigned long long)e->highest_epoch, (unsigned long long)record.epoch));
        return;
    }
    if (!certain && e->seen.known && is_older(&record, &e->seen.record))
        return; /* a late message, or an endpoint that lags behind */
    adopt(e, s, &record);
}

void election_view(struct election *e, int64_t revision, int64_t create_revision, bool first)
{
    if (!e->create_revision || revision < e->create_revision || revision < e->view_revision)
        return; /* it was not there yet, or newer is known */
    e->view_revision = revision;
    e->key_gone = create_revision != e->create_revision;
    e->first = first && !e->key_gone;
}

void election_see_released(struct election *e, int64_t revision, const struct released *released)
{
    if (revision < e->released_revision)
        return;
    e->released_revision = revision;
    e->released = *released;
}

static bool is_own_epoch(const struct election *e, uint64_t epoch)
{
    return e->leadership.epoch && epoch == e->leadership.epoch;
}

/* Another process of this id may have been meant: start ids are never used twice. */
void election_see_removed(struct election *e, const char *start)
{
    if (e->draining || strcmp(start, e->cfg.self.start) != 0)
        return;
    e->draining = true;
    election_act(e, ELECTION_REMOVED);
}

static void on_live_changed(struct election *e, const struct election_live *live)
{
    election_see_removed(e, live->removed_start);
    e->spoken = live->spoken;
    e->spoken_revision = live->revision;
    election_see_released(e, live->revision, &live->released);
    if (live->lease != e->lease)
        return;
    if (!e->create_revision && live->create_revision > e->left_revision)
        e->stray_revision = live->create_revision;
    election_view(e, live->revision, live->create_revision, live->first);
}

static void end_leadership(struct election *e, const struct election_event *event, const char *why,
                           bool rests)
{
    if (!is_own_epoch(e, event->epoch) || e->end_why)
        return;
    e->end_why = why;
    e->end_rests = rests;
    if (err_is(&event->err))
        election_warn(e, err_wrap(event->err, "%s", why));
}

static void on_lease_kept(struct election *e, const struct election_event *event)
{
    if (!e->lease || event->lease != e->lease)
        return;
    if (event->ttl_ms <= 0)
        e->lease_lost = true;
    else if (e->role.state == ROLE_FOLLOWER || e->role.state == ROLE_CANDIDATE)
        e->ttl_ms = event->ttl_ms;
}

static void on_activated(struct election *e, uint64_t epoch)
{
    if (!is_own_epoch(e, epoch) || e->role.state != ROLE_ACTIVATING || e->end_why)
        return;
    backoff_reset(&e->rest);
    election_move_role(e, ROLE_LEADER, "its state is complete");
}

static void absorb(struct election *e, const struct election_event *event)
{
    switch (event->kind) {
    case ELECTION_ANSWERED:
        seat_on_answer(e, event);
        break;
    case ELECTION_LEASE_KEPT:
        on_lease_kept(e, event);
        break;
    case ELECTION_RECORD_SEEN:
        election_see(e,
                     &(struct sight){.value = record_view(&event->bytes),
                                     .revision = event->revision,
                                     .received_ms = event->received_ms},
                     false);
        break;
    case ELECTION_LIVE_CHANGED:
        on_live_changed(e, &event->live);
        break;
    case ELECTION_CAUGHT_UP:
        e->caught_up = event->flag;
        break;
    case ELECTION_ACTIVATED:
        on_activated(e, event->epoch);
        break;
    case ELECTION_ACTIVATION_FAILED:
        end_leadership(e, event, "the activation failed", true);
        break;
    case ELECTION_RENEWED:
        if (is_own_epoch(e, event->epoch) && event->sent_ms > e->proof_ms)
            e->proof_ms = event->sent_ms;
        break;
    case ELECTION_DEPOSED:
        end_leadership(e, event, "it is deposed", false);
        break;
    case ELECTION_SETTLED:
        if (is_own_epoch(e, event->epoch) && e->role.state == ROLE_STEPPING_DOWN)
            e->settled = true;
        break;
    case ELECTION_DRAIN:
        e->draining = true;
        break;
    case ELECTION_TRANSFER:
        transfer_ask(e, event);
        break;
    case ELECTION_IDENTIFIED:
        e->cfg.etcd_cluster_id = event->etcd_cluster_id;
        e->epoch_floor = event->epoch_floor;
        level_see(e, event->level);
        break;
    case ELECTION_HOLD:
        e->held = event->flag;
        break;
    case ELECTION_TICK:
        break;
    }
}

void election_step(struct election *e, const struct election_event *event,
                   struct election_effects *out)
{
    out->count = 0;
    if (e->seat.state == SEAT_GONE)
        return;
    e->out = out;
    e->now_ms = event->now_ms;
    absorb(e, event);
    while (e->seat.state != SEAT_GONE &&
           (election_lead_advance(e) || seat_advance(e) || level_advance(e)))
        ;
    transfer_tick(e);
    ask_tick(e);
    e->out = NULL;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t election_next_ms(const struct election *e)
{
    if (e->seat.state == SEAT_GONE)
        return INT64_MAX;
    int64_t next = earlier(seat_next_ms(e), election_lead_next_ms(e));
    next = earlier(next, transfer_next_ms(e));
    return e->ask.active ? earlier(next, e->ask.next_ms) : next;
}

enum role election_role(const struct election *e)
{
    return (enum role)e->role.state;
}

int64_t election_lease(const struct election *e)
{
    return e->lease;
}

struct sm *election_role_sm(struct election *e)
{
    return &e->role;
}

struct sm *election_seat_sm(struct election *e)
{
    return &e->seat;
}
