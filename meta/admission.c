#include "meta/admission.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "common/io/etcd.h"
#include "meta/marks.h"
#include <stdlib.h>

struct admission {
    struct admission_config cfg;
    struct rng rng;
    bool confirmed; /* the directory's cluster, in this life */
    struct log_limit refused_limit;
};

struct admission *admission_new(const struct admission_config *cfg)
{
    struct admission *a = mem_alloc(sizeof *a);
    a->cfg = *cfg;
    rng_seed_os(&a->rng);
    return a;
}

void admission_free(struct admission *a)
{
    free(a);
}

/* ---- asking in the order of raft ---- */

/* *mark: what had been seen before the look, and so must be in it. What this member commits while
 * etcd answers need not be. */
static struct err look(struct admission *a, struct restore_mark *mark, struct restore_view *v)
{
    struct fence_txn txn = {0};
    struct etcd_txn_result result = {0};
    marks_get(a->cfg.marks, mark);
    restore_make_look(&txn, a->cfg.prefix, mark);
    struct err e = a->cfg.ask(a->cfg.ask_ctx, &txn.txn, &result);
    if (!err_is(&e))
        e = restore_view_take(v, &result, 0);
    etcd_txn_result_close(&result);
    fence_txn_close(&txn);
    return err_is(&e) ? err_wrap(e, "asking whether etcd's state is ours") : OK_ERR;
}

/* ---- the cluster's value ---- */

/* Puts it where none is, under one more compare: nobody may begin a cluster over the state of
 * another, nor put a value back under another state. */
static struct err put_cluster(struct admission *a, const struct cluster *cluster,
                              const struct etcd_compare *under)
{
    char key[KEY_MAX];
    struct buf value = {0};
    struct etcd_txn_result result = {0};
    struct bytes name = keys_cluster(key, a->cfg.prefix);
    struct etcd_compare guard[] = {{.target = ETCD_CREATE, .relation = ETCD_EQUAL, .key = name},
                                   *under};
    cluster_encode(cluster, &value);
    struct etcd_op put = {.kind = ETCD_OP_PUT, .key = name, .value = buf_view(&value)};
    struct err e =
        a->cfg.ask(a->cfg.ask_ctx,
                   &(struct etcd_txn){
                       .compares = guard, .compare_count = 2, .success = &put, .success_count = 1},
                   &result);
    bool done = result.succeeded;
    etcd_txn_result_close(&result);
    buf_close(&value);
    if (err_is(&e))
        return e;
    /* whoever wrote it, the next listing reads the value that stands */
    return done ? err_make(ERR_CANCELLED, "the cluster's value was just written")
                : err_make(ERR_CORRUPT,
                           "%scluster is not there and cannot be written: another member just did, "
                           "or there is state without it; a member that knows it puts it back",
                           a->cfg.prefix);
}

static struct err begin_cluster(struct admission *a)
{
    char id[CLUSTER_ID_DIGITS + 1], room[KEY_MAX];
    struct buf end = {0};
    struct cluster cluster;
    struct etcd_compare empty = {
        .target = ETCD_CREATE, .relation = ETCD_EQUAL, .key = keys_state(room, a->cfg.prefix)};
    bytes_prefix_end(empty.key, &end);
    empty.range_end = buf_view(&end);
    rng_hex(&a->rng, id, CLUSTER_ID_DIGITS);
    cluster_begin(&cluster, id);
    struct err e = put_cluster(a, &cluster, &empty);
    buf_close(&end);
    return e;
}

/* Somebody deleted it: this member knows it, and `commit` says that the state is its own. */
static struct err put_back(struct admission *a, const struct cluster *cluster,
                           const struct restore_view *v)
{
    char room[KEY_MAX];
    struct etcd_compare same = {.target = ETCD_MOD,
                                .relation = ETCD_EQUAL,
                                .key = keys_commit(room, a->cfg.prefix),
                                .number = v->record_revision};
    log_error("somebody deleted %scluster in etcd: putting it back", a->cfg.prefix);
    return put_cluster(a, cluster, &same);
}

static struct err without_cluster(struct admission *a, const struct restore_mark *mark,
                                  const struct restore_view *v)
{
    struct err why;
    bool nothing = !v->record_revision;
    struct err e = nothing ? a->cfg.confirm(a->cfg.ctx, NULL) : OK_ERR;
    if (err_is(&e))
        return e;
    if (mark->cluster.id[0] && restore_judge(mark, v, &why) == RESTORE_FINE)
        return put_back(a, &mark->cluster, v);
    return mark->epoch ? OK_ERR : begin_cluster(a);
}

/* A value that is not this member's: at a start it belongs elsewhere, later somebody overwrote it
 * below a state that goes on. */
static struct err check_cluster(struct admission *a, struct restore_mark *mark,
                                struct restore_view *v)
{
    struct err why, e = OK_ERR;
    bool ours = strcmp(mark->cluster.id, v->cluster.id) == 0;
    if (ours || !a->confirmed)
        return a->cfg.confirm(a->cfg.ctx, &v->cluster);
    e = look(a, mark, v);
    if (err_is(&e))
        return e;
    if (mark->epoch && restore_judge(mark, v, &why) == RESTORE_FINE)
        return err_make(
            ERR_CORRUPT,
            "somebody overwrote %scluster in etcd: put 'id=%s format=%u incarnation=%llu "
            "epoch_floor=%llu' there again",
            a->cfg.prefix, mark->cluster.id, mark->cluster.format,
            (unsigned long long)mark->cluster.incarnation,
            (unsigned long long)mark->cluster.epoch_floor);
    return a->cfg.confirm(a->cfg.ctx, &v->cluster);
}

static struct err identify(struct admission *a, struct restore_mark *mark, struct restore_view *v)
{
    struct err e = OK_ERR;
    if (!v->cluster_revision)
        e = look(a, mark, v);
    if (err_is(&e))
        return e;
    if (!v->cluster_revision)
        return without_cluster(a, mark, v);
    if (err_is(&v->cluster_err))
        return err_wrap(v->cluster_err, "%scluster", a->cfg.prefix);
    e = check_cluster(a, mark, v);
    a->confirmed |= !err_is(&e);
    return e;
}

/* ---- the state ---- */

static void refuse(struct admission *a, const struct err *why, uint64_t etcd)
{
    log_limited(&a->refused_limit, LOG_ERROR, "refusing what etcd holds: %s", why->message);
    marks_refuse(a->cfg.marks, why);
    a->cfg.decided(a->cfg.ctx, why, NULL, etcd);
}

static void begin_anew(struct admission *a, const struct restore_mark *mark,
                       const struct restore_view *v, enum restore_verdict verdict)
{
    if (mark->epoch && verdict == RESTORE_RECOVERED)
        log_warn("the cluster was recovered: going on with incarnation %llu above epoch %llu",
                 (unsigned long long)v->cluster.incarnation,
                 (unsigned long long)v->cluster.epoch_floor);
    else if (mark->epoch)
        log_warn("away for more than %d epochs: going on with what etcd holds", HISTORY_KEPT);
    marks_begin(a->cfg.marks, v);
}

struct err admission_judge(struct admission *a, struct restore_view *v, bool *reload)
{
    struct restore_mark mark;
    struct err why;
    *reload = false;
    marks_get(a->cfg.marks, &mark);
    struct err e = identify(a, &mark, v);
    if (err_is(&e))
        return e;
    enum restore_verdict verdict = restore_judge(&mark, v, &why);
    if (verdict != RESTORE_FINE) {
        e = look(a, &mark, v);
        if (err_is(&e))
            return e;
        verdict = restore_judge(&mark, v, &why);
    }
    if (verdict == RESTORE_BACK) {
        refuse(a, &why, v->etcd);
        return why;
    }
    *reload = verdict != RESTORE_FINE;
    if (*reload)
        begin_anew(a, &mark, v, verdict);
    marks_accept(a->cfg.marks, &v->cluster, v->etcd);
    if (v->record_revision && !err_is(&v->record_err))
        marks_see(a->cfg.marks, &v->record, v->record_revision);
    a->cfg.decided(a->cfg.ctx, &OK_ERR, &v->cluster, v->etcd);
    return OK_ERR;
}
