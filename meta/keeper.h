/* The thread that keeps a lease alive, on a connection of its own, so that nothing else delays it.
 */
#pragma once
#include "common/base/err.h"
#include "common/io/etcd.h"
#include <stdbool.h>
#include <stdint.h>

struct keeper;

struct keeper_config {
    struct etcd_config etcd;
    /* On the keeper's thread after each keepalive that etcd answered; ttl_ms 0: the lease is lost.
     */
    void (*kept)(void *arg, int64_t lease, int64_t ttl_ms);
    /* On the keeper's thread: false stops renewing. A lease must not outlive the work that it
     * stands for: whoever hangs shall lose it. */
    bool (*may_renew)(void *arg);
    void *arg;
};

struct err keeper_start(struct keeper **out, const struct keeper_config *cfg);
/* Renews this lease every every_ms from now on, and no other; 0: none. Any thread. */
void keeper_keep(struct keeper *k, int64_t lease, int64_t every_ms);
void keeper_stop(struct keeper *k);
