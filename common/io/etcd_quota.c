/* How large etcd's database may become: a flag of the server that only its metrics tell. */
#include "common/io/etcd.h"
#include <stdlib.h>
#include <string.h>

static const char row[] = "\netcd_server_quota_backend_bytes ";

struct err etcd_learn_quota(struct etcd_client *c, int endpoint, int timeout_ms, int64_t *out)
{
    struct etcd_reply reply;
    struct err e = etcd_call_wait(c, "/metrics", BYTES_NONE, endpoint, timeout_ms, &reply);
    const uint8_t *at =
        err_is(&e) ? NULL : memmem(reply.body.data, reply.body.len, row, sizeof row - 1);
    *out = 0;
    if (at) {
        char number[32] = "";
        const uint8_t *end = reply.body.data + reply.body.len;
        at += sizeof row - 1;
        for (size_t i = 0; i < sizeof number - 1 && at < end && *at != '\n'; i++)
            number[i] = (char)*at++;
        double bytes = strtod(number, NULL);
        *out = bytes > 0 && bytes < 1e18 ? (int64_t)bytes : 0;
    }
    etcd_reply_close(&reply);
    return e;
}
