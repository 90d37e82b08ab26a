#include "meta/raiser.h"
#include "common/base/mem.h"
#include "common/io/etcd.h"
#include "meta/core/keys.h"
#include <stdlib.h>

enum { TIMEOUT_MS = 1000, ATTEMPTS_MAX = 10 };

struct job {
    struct etcd_client *etcd;
    char prefix[PREFIX_MAX];
    uint64_t above;
    struct record_bytes stands; /* len 0: not read yet */
    struct cluster next;        /* what the txn under way puts there */
    int attempts;
    raiser_done *done;
    void *arg;
};

static void finish(struct job *job, struct err err, const struct cluster *cluster)
{
    job->done(job->arg, &err, cluster);
    free(job);
}

static void on_reply(void *arg, struct etcd_reply *reply);

/* If the value is as it was read, then the next one; else reads it. Without a value it only reads:
 * an absent key never equals one. */
static void send_txn(struct job *job)
{
    char key[KEY_MAX];
    struct buf value = {0}, body = {0};
    struct bytes name = keys_cluster(key, job->prefix);
    cluster_encode(&job->next, &value);
    struct etcd_compare same = {.target = ETCD_VALUE,
                                .relation = ETCD_EQUAL,
                                .key = name,
                                .value = record_view(&job->stands)};
    struct etcd_op put = {.kind = ETCD_OP_PUT, .key = name, .value = buf_view(&value)};
    struct etcd_op read = {.kind = ETCD_OP_RANGE, .key = name};
    etcd_encode_txn(&body, &(struct etcd_txn){.compares = &same,
                                              .compare_count = 1,
                                              .success = &put,
                                              .success_count = job->stands.len ? 1 : 0,
                                              .failure = &read,
                                              .failure_count = 1});
    job->attempts++;
    etcd_call(job->etcd, ETCD_PATH_TXN, buf_view(&body), ETCD_ANY, TIMEOUT_MS, on_reply, job);
    buf_close(&body);
    buf_close(&value);
}

static void try_again(struct job *job, const struct err *why)
{
    if (why->code != ERR_CANCELLED && job->attempts < ATTEMPTS_MAX)
        send_txn(job);
    else
        finish(job, err_make(ERR_OUTCOME_UNKNOWN, "raising the epoch: %s", why->message), NULL);
}

/* The value as etcd has it: high enough, or to be replaced. */
static void on_value(struct job *job, struct bytes value)
{
    struct err e = cluster_decode(value, &job->next);
    if (!err_is(&e) && !record_bytes_set(&job->stands, value))
        e = err_make(ERR_CORRUPT, "the cluster's value in etcd is too long");
    if (err_is(&e) || !cluster_raise(&job->next, job->above))
        finish(job, e, &job->next);
    else
        send_txn(job);
}

static void on_result(struct job *job, const struct etcd_txn_result *r)
{
    struct err unclear = err_make(ERR_PROTOCOL, "etcd's answer settles nothing");
    if (r->succeeded && job->stands.len)
        finish(job, OK_ERR, &job->next);
    else if (!r->succeeded && r->result_count == 1 && r->results[0].count)
        on_value(job, r->results[0].kvs[0].value);
    else
        try_again(job, &unclear);
}

static void on_reply(void *arg, struct etcd_reply *reply)
{
    struct job *job = arg;
    struct etcd_txn_result result;
    struct err e = etcd_reply_txn(reply, &result);
    if (err_is(&e))
        try_again(job, &e);
    else
        on_result(job, &result);
    etcd_txn_result_close(&result);
}

void raiser_start(struct etcd_client *etcd, const char *prefix, uint64_t above, raiser_done *done,
                  void *arg)
{
    struct job *job = mem_alloc(sizeof *job);
    job->etcd = etcd;
    memcpy(job->prefix, prefix, strlen(prefix) + 1);
    job->above = above;
    job->done = done;
    job->arg = arg;
    cluster_begin(&job->next, "-");
    send_txn(job);
}
