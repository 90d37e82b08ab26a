/* GetRestore and Recover: what a member says of a restore of etcd, and how the cluster goes on. */
#include "meta/candidate.h"
#include "meta/marks.h"
#include "meta/recoverer.h"
#include "meta/service_member_parts.h"

/* Without etcd nothing can be restored behind a member's back. */
static bool is_alone(struct service_member *s, struct rpc_call *call)
{
    if (s->cfg.marks)
        return false;
    struct err e =
        err_make(ERR_NO_METHOD,
                 "member %s is embedded: its own directory is the state, and there is no "
                 "etcd to be restored",
                 s->cfg.member_id);
    rpc_fail(call, &e, NULL);
    return true;
}

void service_member_restore(struct rpc_call *call, void *ctx)
{
    struct service_member *s = ctx;
    if (is_alone(s, call))
        return;
    struct marks_status status;
    marks_status(s->cfg.marks, &status);
    Baton__V1__GetRestoreResponse m = BATON__V1__GET_RESTORE_RESPONSE__INIT;
    m.cluster_id = status.mark.cluster.id;
    m.member_id = (char *)s->cfg.member_id;
    m.refused = err_is(&status.refused);
    m.reason = status.refused.message;
    m.ran_before = status.ran_before;
    m.epoch = status.mark.epoch;
    m.seq = status.mark.seq;
    m.revision = status.mark.revision;
    m.incarnation = status.mark.cluster.incarnation;
    m.started_unix_ms = status.started_unix_ms;
    service_member_reply(call, &m.base);
}

static void on_recovered(void *arg, const struct err *err, const struct cluster *cluster,
                         bool written)
{
    struct rpc_call *call = arg;
    if (err_is(err)) {
        rpc_fail(call, err, NULL);
        return;
    }
    Baton__V1__RecoverResponse m = BATON__V1__RECOVER_RESPONSE__INIT;
    m.incarnation = cluster->incarnation;
    m.epoch_floor = cluster->epoch_floor;
    m.written = written;
    service_member_reply(call, &m.base);
}

/* False: there is no election to ask etcd with, because the member starts or ends. */
static bool start_recovery(struct service_member *s, struct rpc_call *call,
                           const Baton__V1__RecoverRequest *m)
{
    pthread_mutex_lock(&s->lock);
    bool runs = s->candidate != NULL;
    if (runs)
        recoverer_start(&(struct recoverer_config){.etcd = candidate_etcd(s->candidate),
                                                   .marks = s->cfg.marks,
                                                   .prefix = s->cfg.prefix,
                                                   .member_id = s->cfg.member_id,
                                                   .ttl_ms = s->cfg.ttl_ms,
                                                   .epoch_above = m->epoch_above,
                                                   .incarnation_above = m->incarnation_above},
                        on_recovered, call);
    pthread_mutex_unlock(&s->lock);
    return runs;
}

static void recover(struct service_member *s, struct rpc_call *call,
                    const Baton__V1__RecoverRequest *m)
{
    struct err e = OK_ERR;
    if (!m->accept_restore)
        e = err_make(ERR_BAD_REQUEST, "Recover: without accept_restore nothing is done: what was "
                                      "written after the snapshot is lost for good");
    else if (!start_recovery(s, call, m))
        e = err_make(ERR_NOT_READY, "member %s starts or ends: try again", s->cfg.member_id);
    if (err_is(&e))
        rpc_fail(call, &e, NULL);
}

void service_member_recover(struct rpc_call *call, void *ctx)
{
    struct service_member *s = ctx;
    struct bytes body = rpc_call_body(call);
    if (is_alone(s, call))
        return;
    Baton__V1__RecoverRequest *m = baton__v1__recover_request__unpack(NULL, body.len, body.data);
    if (!m) {
        service_member_bad_request(call);
        return;
    }
    recover(s, call, m);
    baton__v1__recover_request__free_unpacked(m, NULL);
}
