#include "meta/service_maintenance.h"
#include "baton/v1/maintenance.pb-c.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "meta/candidate.h"
#include "meta/raiser.h"
#include "meta/board.h"
#include "meta/replica.h"
#include "meta/service_export.h"
#include "meta/service_lead.h"
#include "meta/store.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct service_maintenance {
    struct service_maintenance_config cfg;
    struct exporter *exporter;
    pthread_mutex_t lock;
    struct candidate *candidate; /* NULL: the election has not begun, has ended, or there is none */
};

/* This member answers nothing now that a leader answers. */
static void refuse(struct service_maintenance *s, struct rpc_call *call)
{
    struct err lost = err_make(ERR_NO_LEADER, "the leader has lost touch with etcd for the moment: "
                                              "try again");
    lead_refuse(s->cfg.lead, call, &lost);
}

/* ---- Export ---- */

/* As of a read: the gate is looked at before the snapshot and again behind it. */
static void run_export(struct rpc_call *call, void *ctx, uint64_t confirmed)
{
    struct service_maintenance *s = ctx;
    if (!lead_check_epoch(s->cfg.lead, call, confirmed, run_export, s))
        return;
    struct cluster cluster;
    struct export_header header = {.epoch = board_read_epoch(s->cfg.board)};
    board_cluster(s->cfg.board, &cluster);
    struct store_snapshot *snap = header.epoch ? store_snapshot_open(s->cfg.store) : NULL;
    if (!snap || !board_still_reads(s->cfg.board, header.epoch)) {
        store_snapshot_close(snap);
        refuse(s, call);
        return;
    }
    board_cluster_id(s->cfg.board, header.cluster_id);
    header.incarnation = cluster.incarnation;
    exporter_open(s->exporter, s->cfg.lead, call, &header, snap);
}

static void handle_export(struct rpc_call *call, void *ctx)
{
    run_export(call, ctx, 0);
}

/* ---- RaiseEpoch ---- */

struct raising {
    struct service_maintenance *s;
    struct rpc_call *call;
    uint64_t epoch; /* of the leadership that was asked */
};

static void on_raised(void *arg, const struct err *err, const struct cluster *cluster)
{
    struct raising *r = arg;
    struct service_maintenance *s = r->s;
    if (err_is(err)) {
        lead_fail(s->cfg.lead, r->call, err);
    } else {
        Baton__V1__RaiseEpochResponse m = BATON__V1__RAISE_EPOCH_RESPONSE__INIT;
        uint8_t body[32];
        m.epoch_floor = cluster->epoch_floor;
        m.incarnation = cluster->incarnation;
        lead_reply(s->cfg.lead, r->call, r->epoch, false,
                   bytes_of(body, baton__v1__raise_epoch_response__pack(&m, body)));
    }
    free(r);
}

/* The value stands in etcd; it is for the next leadership, so this one ends. */
static void on_raised_in_etcd(void *arg, const struct err *err, const struct cluster *cluster)
{
    struct raising *r = arg;
    if (!err_is(err) && cluster->epoch_floor >= r->epoch) {
        struct election_event deposed = {
            .kind = ELECTION_DEPOSED,
            .epoch = r->epoch,
            .err = err_make(ERR_FENCED, "the epochs to come are above %llu, as an operator asked",
                            (unsigned long long)cluster->epoch_floor)};
        pthread_mutex_lock(&r->s->lock);
        if (r->s->candidate)
            candidate_post(r->s->candidate, &deposed);
        pthread_mutex_unlock(&r->s->lock);
    }
    on_raised(arg, err, cluster);
}

static struct err raise_in_etcd(struct service_maintenance *s, uint64_t above, struct raising *r)
{
    pthread_mutex_lock(&s->lock);
    bool runs = s->candidate != NULL;
    if (runs)
        raiser_start(candidate_etcd(s->candidate), s->cfg.prefix, above, on_raised_in_etcd, r);
    pthread_mutex_unlock(&s->lock);
    return runs ? OK_ERR
                : err_make(ERR_DRAINING, "the member is shutting down: ask another member");
}

static void start_raising(struct service_maintenance *s, struct rpc_call *call, uint64_t epoch,
                          uint64_t above)
{
    struct raising *r = mem_alloc(sizeof *r);
    struct err e = OK_ERR;
    *r = (struct raising){.s = s, .call = call, .epoch = epoch};
    log_info("the epochs to come shall be above %llu, as an operator asked",
             (unsigned long long)above);
    if (s->cfg.alone)
        e = replica_raise(s->cfg.replica, above, on_raised, r);
    else
        e = raise_in_etcd(s, above, r);
    if (err_is(&e))
        on_raised(r, &e, NULL);
}

static struct err decode_raise(struct rpc_call *call, uint64_t *above)
{
    struct bytes body = rpc_call_body(call);
    Baton__V1__RaiseEpochRequest *m =
        baton__v1__raise_epoch_request__unpack(NULL, body.len, body.data);
    if (!m)
        return err_make(ERR_BAD_REQUEST, "the request is no valid message");
    *above = m->above;
    baton__v1__raise_epoch_request__free_unpacked(m, NULL);
    if (*above == 0 || *above > CLUSTER_FLOOR_MAX)
        return err_make(ERR_BAD_REQUEST, "an epoch to go above is at least 1 and at most %llu",
                        (unsigned long long)CLUSTER_FLOOR_MAX);
    return OK_ERR;
}

static void run_raise_epoch(struct rpc_call *call, void *ctx, uint64_t confirmed)
{
    struct service_maintenance *s = ctx;
    if (!lead_check_epoch(s->cfg.lead, call, confirmed, run_raise_epoch, s))
        return;
    uint64_t above = 0, epoch = board_read_epoch(s->cfg.board);
    if (!epoch) {
        refuse(s, call);
        return;
    }
    struct err e = decode_raise(call, &above);
    if (err_is(&e))
        lead_fail(s->cfg.lead, call, &e);
    else
        start_raising(s, call, epoch, above);
}

static void handle_raise_epoch(struct rpc_call *call, void *ctx)
{
    run_raise_epoch(call, ctx, 0);
}

/* ---- life ---- */

void service_maintenance_methods(struct service_maintenance *s,
                                 struct rpc_method methods[SERVICE_MAINTENANCE_METHODS])
{
    methods[0] = (struct rpc_method){"/baton.v1.MaintenanceService/Export", RPC_SERVER_STREAM,
                                     handle_export, s};
    methods[1] = (struct rpc_method){"/baton.v1.MaintenanceService/RaiseEpoch", RPC_UNARY,
                                     handle_raise_epoch, s};
}

struct service_maintenance *service_maintenance_start(const struct service_maintenance_config *cfg)
{
    struct service_maintenance *s = mem_alloc(sizeof *s);
    s->cfg = *cfg;
    pthread_mutex_init(&s->lock, NULL);
    s->exporter = exporter_start();
    return s;
}

void service_maintenance_connect(struct service_maintenance *s, struct candidate *candidate)
{
    pthread_mutex_lock(&s->lock);
    s->candidate = candidate;
    pthread_mutex_unlock(&s->lock);
}

void service_maintenance_stop(struct service_maintenance *s)
{
    if (!s)
        return;
    exporter_stop(s->exporter);
    pthread_mutex_destroy(&s->lock);
    free(s);
}
