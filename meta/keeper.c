#include "meta/keeper.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/base/queue.h"
#include "common/base/thread.h"
#include <stdlib.h>

enum { RETRY_MS = 100, ORDERS_MAX = 64, CALL_MAX_MS = 2000 };

struct order {
    int64_t lease, every_ms;
    bool stop;
};

struct keeper {
    struct keeper_config cfg;
    struct etcd_client *etcd;
    struct queue *orders;
    pthread_t thread;
    struct log_limit limit;
};

/* When to renew next, from now on. */
static int64_t renew(struct keeper *k, const struct order *o)
{
    struct buf body = {0};
    struct etcd_reply reply = {0};
    struct etcd_lease_result lease = {0};
    if (!k->cfg.may_renew(k->cfg.arg)) {
        log_limited(&k->limit, LOG_WARN, "%s", "the election hangs: its lease is not renewed");
        return RETRY_MS;
    }
    int64_t timeout_ms = o->every_ms < CALL_MAX_MS ? o->every_ms : CALL_MAX_MS;
    etcd_encode_lease(&body, o->lease);
    struct err e = etcd_call_wait(k->etcd, ETCD_PATH_LEASE_KEEPALIVE, buf_view(&body), ETCD_ANY,
                                  (int)timeout_ms, &reply);
    if (!err_is(&e))
        e = etcd_decode_lease(reply.body, &lease);
    if (err_is(&e))
        log_limited(&k->limit, LOG_WARN, "renewing the lease: %s", e.message);
    else
        k->cfg.kept(k->cfg.arg, o->lease, lease.ttl_s > 0 ? lease.ttl_s * 1000 : 0);
    etcd_reply_close(&reply);
    buf_close(&body);
    return err_is(&e) ? RETRY_MS : o->every_ms;
}

static void *run(void *arg)
{
    struct keeper *k = arg;
    struct order now = {0};
    int64_t next_ms = INT64_MAX;
    while (!now.stop) {
        int64_t left_ms = next_ms - clock_boot_ms();
        struct order *o = queue_pop(k->orders, now.lease ? (left_ms > 0 ? left_ms : 0) : -1);
        if (o) {
            now = *o;
            next_ms = clock_boot_ms() + now.every_ms;
            free(o);
        } else if (now.lease && clock_boot_ms() >= next_ms) {
            next_ms = clock_boot_ms() + renew(k, &now);
        }
    }
    return NULL;
}

struct err keeper_start(struct keeper **out, const struct keeper_config *cfg)
{
    struct keeper *k = mem_alloc(sizeof *k);
    k->cfg = *cfg;
    struct err e = etcd_client_new(&k->etcd, &cfg->etcd);
    if (err_is(&e)) {
        free(k);
        return e;
    }
    k->orders = queue_new(ORDERS_MAX);
    k->thread = thread_start("keeper", run, k);
    *out = k;
    return OK_ERR;
}

static void order(struct keeper *k, struct order o)
{
    queue_push_always(k->orders, mem_dup(&o, sizeof o));
}

void keeper_keep(struct keeper *k, int64_t lease, int64_t every_ms)
{
    order(k, (struct order){.lease = lease, .every_ms = every_ms});
}

void keeper_stop(struct keeper *k)
{
    if (!k)
        return;
    order(k, (struct order){.stop = true});
    pthread_join(k->thread, NULL);
    etcd_client_free(k->etcd);
    for (struct order *o; (o = queue_pop(k->orders, 0));)
        free(o);
    queue_free(k->orders);
    free(k);
}
