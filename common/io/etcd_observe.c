#include "common/io/etcd_observe.h"
#include <stddef.h>
#include <string.h>

static etcd_observer *the_observer;

void etcd_observe(etcd_observer *observer)
{
    the_observer = observer;
}

void etcd_observed(const char *client, const char *path, const char *endpoint, enum err_code code,
                   int64_t spent_us)
{
    static const char version[] = "/v3/";
    if (!the_observer)
        return;
    if (!strncmp(path, version, sizeof version - 1))
        path += sizeof version - 1;
    the_observer(&(struct etcd_observation){
        .client = client, .call = path, .endpoint = endpoint, .code = code, .spent_us = spent_us});
}
