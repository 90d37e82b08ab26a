/* Raises the floor of epochs in the `cluster` key of etcd: one txn that compares the value it
 * replaces, so it may be sent any number of times and stand beside whoever else changes it. */
#pragma once
#include "common/base/err.h"
#include "meta/core/cluster.h"

struct etcd_client;

/* err OK: `cluster` is what stands there now. On a thread of the client's. */
typedef void raiser_done(void *arg, const struct err *err, const struct cluster *cluster);

/* `done` is called exactly once. OUTCOME_UNKNOWN: etcd did not say what became of it; it may be
 * repeated. */
void raiser_start(struct etcd_client *etcd, const char *prefix, uint64_t above, raiser_done *done,
                  void *arg);
