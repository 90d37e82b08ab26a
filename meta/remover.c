#include "meta/remover.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/io/etcd.h"
#include <stdlib.h>

enum { TIMEOUT_MS = 1000, ATTEMPTS_MAX = 10, REVOKES_MAX = 3 };

struct job {
    struct etcd_client *etcd;
    struct removal removal;
    struct buf body;
    int attempts;
    bool sent; /* perhaps to etcd */
    remover_done *done;
    void *arg;
};

static void finish(struct job *job, struct err err)
{
    job->done(job->arg, &err);
    buf_close(&job->body);
    free(job);
}

/* ---- the lease: its keys are gone already, so it may also end by itself ---- */

static void send_revoke(struct job *job);

static void on_revoked(void *arg, struct etcd_reply *reply)
{
    struct job *job = arg;
    bool again = err_is(&reply->err) && reply->err.code != ERR_KEY_NOT_FOUND &&
                 reply->err.code != ERR_CANCELLED && job->attempts < REVOKES_MAX;
    if (again)
        send_revoke(job);
    else
        finish(job, OK_ERR);
}

static void send_revoke(struct job *job)
{
    job->attempts++;
    etcd_call(job->etcd, ETCD_PATH_LEASE_REVOKE, buf_view(&job->body), ETCD_ANY, TIMEOUT_MS,
              on_revoked, job);
}

static void start_revoking(struct job *job)
{
    log_info("member %s was taken out by an operator", job->removal.id);
    if (!job->removal.lease) {
        finish(job, OK_ERR);
        return;
    }
    job->attempts = 0;
    buf_clear(&job->body);
    etcd_encode_lease(&job->body, job->removal.lease);
    send_revoke(job);
}

/* ---- the txn ---- */

static void send_txn(struct job *job);

static void try_again(struct job *job, const struct err *why)
{
    job->sent |= why->code != ERR_UNREACHABLE;
    if (why->code != ERR_CANCELLED && job->attempts < ATTEMPTS_MAX)
        send_txn(job);
    else
        finish(job, err_make(job->sent ? ERR_OUTCOME_UNKNOWN : ERR_UNREACHABLE,
                             "taking member %s out: %s", job->removal.id, why->message));
}

static void judge(struct job *job, const struct etcd_txn_result *result)
{
    struct err unclear = err_make(ERR_PROTOCOL, "etcd's answer settles nothing");
    switch (removal_judge(&job->removal, 0, result)) {
    case REMOVAL_DONE:
        start_revoking(job);
        break;
    case REMOVAL_LEFT:
        finish(job, err_make(ERR_UNKNOWN_MEMBER, "member %s has left by itself", job->removal.id));
        break;
    case REMOVAL_OTHER:
        finish(job, err_make(ERR_FENCED, "member %s has just been started anew: ask again",
                             job->removal.id));
        break;
    case REMOVAL_UNKNOWN:
        try_again(job, &unclear);
        break;
    }
}

static void on_answer(void *arg, struct etcd_reply *reply)
{
    struct job *job = arg;
    struct etcd_txn_result result;
    struct err err = etcd_reply_txn(reply, &result);
    if (err_is(&err))
        try_again(job, &err);
    else
        judge(job, &result);
    etcd_txn_result_close(&result);
}

static void send_txn(struct job *job)
{
    job->attempts++;
    etcd_call(job->etcd, ETCD_PATH_TXN, buf_view(&job->body), ETCD_ANY, TIMEOUT_MS, on_answer, job);
}

void remover_start(struct etcd_client *etcd, const char *prefix, const struct removal *removal,
                   remover_done *done, void *arg)
{
    struct job *job = mem_alloc(sizeof *job);
    struct fence_txn txn = {0};
    *job = (struct job){.etcd = etcd, .removal = *removal, .done = done, .arg = arg};
    removal_make(&txn, prefix, removal);
    etcd_encode_txn(&job->body, &txn.txn);
    fence_txn_close(&txn);
    send_txn(job);
}
