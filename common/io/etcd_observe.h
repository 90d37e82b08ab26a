/* For counting: what became of each call and watch of all etcd clients of this process. */
#pragma once
#include "common/base/err.h"
#include <stdint.h>

struct etcd_observation {
    const char *client;   /* its name */
    const char *call;     /* "kv/txn", "lease/grant", "watch", … */
    const char *endpoint; /* URL */
    enum err_code code;   /* OK, or what etcd or the network answered */
    int64_t spent_us;     /* of a call; -1: of a watch that ended */
};

typedef void etcd_observer(const struct etcd_observation *o);

/* Called on the clients' threads, so it must not block. Set before the first client is made. */
void etcd_observe(etcd_observer *observer);
/* From the transports; `path` is that of the gateway, "/v3/kv/txn". */
void etcd_observed(const char *client, const char *path, const char *endpoint, enum err_code code,
                   int64_t spent_us);
