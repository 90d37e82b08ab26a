/* TransferLeadership and RemoveMember: what a leader does when an operator asks for it. */
#include "common/base/log.h"
#include "common/base/mem.h"
#include "meta/candidate.h"
#include "meta/live.h"
#include "meta/remover.h"
#include "meta/service_member_parts.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A call that waits for a handover, for a removal, or for one after the other. */
struct waiting {
    struct service_member *s;
    struct rpc_call *call;
    char target[ID_MAX + 1];
    struct removal removal;
    struct member_info removed;
    struct board_leader leader; /* when it was asked */
};

static struct waiting *waiting_new(struct service_member *s, struct rpc_call *call)
{
    struct waiting *w = mem_alloc(sizeof *w);
    w->s = s;
    w->call = call;
    board_leader(s->cfg.board, &w->leader);
    return w;
}

/* ---- handing over ---- */

/* epoch: of the leadership that ended. */
static void reply_transfer(struct service_member *s, struct rpc_call *call, uint64_t epoch,
                           const char *target)
{
    Baton__V1__TransferLeadershipResponse m = BATON__V1__TRANSFER_LEADERSHIP_RESPONSE__INIT;
    m.epoch = epoch;
    m.target_id = (char *)target;
    service_member_lead_reply(s, call, epoch, &m.base);
}

static void on_transferred(void *arg, const struct err *err, uint64_t epoch, int64_t first)
{
    struct waiting *w = arg;
    char id[ID_MAX + 1];
    if (err_is(err))
        lead_fail(w->s->cfg.lead, w->call, err);
    else
        reply_transfer(w->s, w->call, epoch,
                       live_id_of(w->s->cfg.live, first, id) ? id : w->target);
    free(w);
}

static struct err ends(void)
{
    return err_make(ERR_DRAINING, "the member is shutting down: ask another member");
}

/* Plans with what is known of the line now, and begins; `done` is called unless there is an error.
 */
static struct err start_transfer(struct waiting *w, const char *target, candidate_transferred *done)
{
    struct service_member *s = w->s;
    struct handover_view view;
    struct handover to;
    struct board_self self;
    board_self(s->cfg.board, &self);
    live_line(s->cfg.live, s->cfg.member_id, &view);
    struct err e = handover_plan(&view, target, &to);
    free((void *)view.members);
    if (err_is(&e))
        return e;
    snprintf(w->target, sizeof w->target, "%s", to.target);
    log_info("handing over to member %s, as an operator asked", to.target);
    e = ends();
    pthread_mutex_lock(&s->lock);
    if (s->candidate)
        e = candidate_transfer(s->candidate, self.epoch, &to, done, w);
    pthread_mutex_unlock(&s->lock);
    return e;
}

static void begin_transfer(struct service_member *s, struct rpc_call *call, const char *target)
{
    struct handover_view view = {.self_id = s->cfg.member_id};
    if (handover_is_self(&view, target)) {
        struct board_self self;
        board_self(s->cfg.board, &self);
        reply_transfer(s, call, self.epoch, target);
        return;
    }
    struct waiting *w = waiting_new(s, call);
    struct err e = start_transfer(w, target, on_transferred);
    if (err_is(&e)) {
        lead_fail(s->cfg.lead, call, &e);
        free(w);
    }
}

/* While it hands over, a leader is none any more; but a second request shall not be sent on to the
 * next one. */
static bool is_transferring(struct service_member *s, struct rpc_call *call)
{
    pthread_mutex_lock(&s->lock);
    bool is = s->candidate && candidate_is_transferring(s->candidate);
    pthread_mutex_unlock(&s->lock);
    if (!is)
        return false;
    struct err e =
        err_make(ERR_IN_TRANSFER, "the leadership is being handed over already: look who leads");
    lead_fail(s->cfg.lead, call, &e);
    return true;
}

static bool is_alone(struct service_member *s, struct rpc_call *call)
{
    if (!s->cfg.alone)
        return false;
    struct err e = err_make(ERR_NO_TARGET,
                            "member %s is embedded: it is the whole cluster, so there is nobody to "
                            "hand over to; stop it with SIGTERM",
                            s->cfg.member_id);
    lead_fail(s->cfg.lead, call, &e);
    return true;
}

static void run_transfer(struct rpc_call *call, void *ctx, uint64_t confirmed)
{
    struct service_member *s = ctx;
    struct bytes body = rpc_call_body(call);
    if (is_alone(s, call) || is_transferring(s, call) ||
        !lead_check_epoch(s->cfg.lead, call, confirmed, run_transfer, s) ||
        lead_refuses(s->cfg.lead, call))
        return;
    Baton__V1__TransferLeadershipRequest *m =
        baton__v1__transfer_leadership_request__unpack(NULL, body.len, body.data);
    if (!m) {
        service_member_bad_request(call);
        return;
    }
    begin_transfer(s, call, m->target_id);
    baton__v1__transfer_leadership_request__free_unpacked(m, NULL);
}

void service_member_transfer(struct rpc_call *call, void *ctx)
{
    run_transfer(call, ctx, 0);
}

/* ---- taking out ---- */

static void on_removed(void *arg, const struct err *err)
{
    struct waiting *w = arg;
    if (err_is(err)) {
        lead_fail(w->s->cfg.lead, w->call, err);
    } else {
        Baton__V1__Member member;
        Baton__V1__RemoveMemberResponse m = BATON__V1__REMOVE_MEMBER_RESPONSE__INIT;
        service_member_fill(w->s, &w->removed, &w->leader, &member);
        m.member = &member;
        service_member_lead_reply(w->s, w->call, w->leader.epoch, &m.base);
    }
    free(w);
}

static void start_removal(struct waiting *w)
{
    struct service_member *s = w->s;
    pthread_mutex_lock(&s->lock);
    bool runs = s->candidate != NULL;
    if (runs)
        remover_start(candidate_etcd(s->candidate), s->cfg.prefix, &w->removal, on_removed, w);
    pthread_mutex_unlock(&s->lock);
    struct err e = ends();
    if (!runs)
        on_removed(w, &e);
}

/* It leads no more, so it can go. */
static void on_handed_over(void *arg, const struct err *err, uint64_t epoch, int64_t first)
{
    struct waiting *w = arg;
    if (!err_is(err)) {
        start_removal(w);
        return;
    }
    lead_fail(w->s->cfg.lead, w->call, err);
    free(w);
}

static void begin_removal(struct service_member *s, struct rpc_call *call, const char *id)
{
    struct waiting *w = waiting_new(s, call);
    struct err e = OK_ERR;
    if (!live_registration(s->cfg.live, id, &w->removal, &w->removed))
        e = err_make(ERR_UNKNOWN_MEMBER, "no member %.100s is listed", id);
    else if (strcmp(id, s->cfg.member_id) == 0)
        e = start_transfer(w, "", on_handed_over);
    else
        start_removal(w);
    if (err_is(&e)) {
        lead_fail(s->cfg.lead, call, &e);
        free(w);
    }
}

static void run_removal(struct rpc_call *call, void *ctx, uint64_t confirmed)
{
    struct service_member *s = ctx;
    struct bytes body = rpc_call_body(call);
    if (is_alone(s, call) || !lead_check_epoch(s->cfg.lead, call, confirmed, run_removal, s) ||
        lead_refuses(s->cfg.lead, call))
        return;
    Baton__V1__RemoveMemberRequest *m =
        baton__v1__remove_member_request__unpack(NULL, body.len, body.data);
    if (!m) {
        service_member_bad_request(call);
        return;
    }
    begin_removal(s, call, m->id);
    baton__v1__remove_member_request__free_unpacked(m, NULL);
}

void service_member_remove(struct rpc_call *call, void *ctx)
{
    run_removal(call, ctx, 0);
}
