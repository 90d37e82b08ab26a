#include "meta/recoverer.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "common/io/etcd.h"
#include "meta/marks.h"
#include <stdlib.h>

enum { TIMEOUT_MS = 1500, ATTEMPTS_MAX = 6 };

struct job {
    struct recoverer_config cfg;
    struct restore_mark mark; /* when it began */
    bool refused;
    struct restore_plan plan;
    struct cluster next; /* what the txn under way writes */
    int attempts;
    bool written; /* perhaps */
    recoverer_done *done;
    void *arg;
};

static void finish(struct job *job, struct err err, const struct cluster *cluster, bool written)
{
    job->done(job->arg, &err, cluster, written);
    free(job);
}

static void send_look(struct job *job);

static void try_again(struct job *job, const struct err *why)
{
    if (why->code != ERR_CANCELLED && job->attempts < ATTEMPTS_MAX)
        send_look(job);
    else
        finish(job,
               err_make(job->written ? ERR_OUTCOME_UNKNOWN : why->code, "recovering: %s",
                        why->message),
               NULL, false);
}

static void send(struct job *job, const struct fence_txn *txn,
                 void (*on_reply)(void *arg, struct etcd_reply *reply))
{
    struct buf body = {0};
    etcd_encode_txn(&body, &txn->txn);
    job->attempts++;
    etcd_call(job->cfg.etcd, ETCD_PATH_TXN, buf_view(&body), ETCD_ANY, TIMEOUT_MS, on_reply, job);
    buf_close(&body);
}

/* Whatever its answer was, the next look shows whether the value stands. */
static void on_written(void *arg, struct etcd_reply *reply)
{
    struct job *job = arg;
    struct etcd_txn_result result;
    struct err e = etcd_reply_txn(reply, &result);
    bool done = !err_is(&e) && result.succeeded;
    etcd_txn_result_close(&result);
    if (!err_is(&e) && !done)
        e = err_make(ERR_FENCED, "somebody else wrote meanwhile");
    if (!done) {
        try_again(job, &e);
        return;
    }
    log_warn("an operator accepted the restore of etcd: incarnation %llu goes on above epoch %llu",
             (unsigned long long)job->next.incarnation, (unsigned long long)job->next.epoch_floor);
    finish(job, OK_ERR, &job->next, true);
}

static void write_recovery(struct job *job, const struct restore_view *v)
{
    struct fence_txn txn = {0};
    struct err e =
        restore_make_recovery(&txn, job->cfg.prefix, &job->mark, v, &job->plan, &job->next);
    if (err_is(&e)) {
        finish(job, e, NULL, false);
        return;
    }
    job->written = true;
    send(job, &txn, on_written);
    fence_txn_close(&txn);
}

/* Above what everybody has seen already, by this call or another one. */
static bool is_enough(const struct job *job, const struct restore_view *v)
{
    struct err why;
    uint64_t above = job->plan.epoch_above;
    bool goes_on = restore_judge(&job->mark, v, &why) != RESTORE_BACK;
    bool above_all = v->cluster.epoch_floor >= above || v->record.epoch > above;
    return goes_on && above_all && v->cluster.incarnation >= job->plan.incarnation_above;
}

static void on_looked(void *arg, struct etcd_reply *reply)
{
    struct job *job = arg;
    struct etcd_txn_result result;
    struct restore_view view = {0};
    struct err e = etcd_reply_txn(reply, &result);
    if (!err_is(&e))
        e = restore_view_take(&view, &result, 0);
    etcd_txn_result_close(&result);
    if (err_is(&e))
        try_again(job, &e);
    else if (job->written && strcmp(view.record.nonce, job->plan.nonce) == 0)
        finish(job, OK_ERR, &view.cluster, true);
    else if (is_enough(job, &view))
        finish(job, OK_ERR, &view.cluster, false);
    else
        write_recovery(job, &view);
}

static void send_look(struct job *job)
{
    struct fence_txn txn = {0};
    restore_make_look(&txn, job->cfg.prefix, &job->mark);
    send(job, &txn, on_looked);
    fence_txn_close(&txn);
}

void recoverer_start(const struct recoverer_config *cfg, recoverer_done *done, void *arg)
{
    struct marks_status status;
    struct rng rng;
    struct job *job = mem_alloc(sizeof *job);
    marks_status(cfg->marks, &status);
    *job = (struct job){.cfg = *cfg, .mark = status.mark, .done = done, .arg = arg};
    job->plan = (struct restore_plan){.epoch_above = cfg->epoch_above,
                                      .incarnation_above = cfg->incarnation_above,
                                      .member = cfg->member_id,
                                      .ttl_ms = cfg->ttl_ms,
                                      .now_unix_ms = clock_unix_ms()};
    rng_seed_os(&rng);
    rng_hex(&rng, job->plan.nonce, NONCE_DIGITS);
    rng_hex(&rng, job->plan.batch, NONCE_DIGITS);
    if (status.ran_before)
        finish(job,
               err_make(ERR_RESTART_FIRST,
                        "member %s ran before etcd was restored: stop all members, start them "
                        "again, then recover",
                        cfg->member_id),
               NULL, false);
    else
        send_look(job);
}
