#include "meta/access.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "meta/core/keys.h"
#include <string.h>

enum { ASK_MS = 1000, ASK_ALL_MS = 3000, PERMISSION_DENIED = 7 };

/* A txn that would write one key if a compare held that never does, and else reads: etcd checks the
 * permissions of both branches. */
static void encode_question(struct buf *body, const char *prefix)
{
    char room[KEY_MAX];
    struct buf end = {0};
    struct bytes all = bytes_str(prefix), key = keys_probe(room, prefix);
    etcd_prefix_end(all, &end);
    struct etcd_compare never = {.target = ETCD_CREATE, .relation = ETCD_LESS, .key = key};
    struct etcd_op put = {.kind = ETCD_OP_PUT, .key = key};
    struct etcd_op range = {
        .kind = ETCD_OP_RANGE, .key = all, .range_end = buf_view(&end), .limit = 1};
    etcd_encode_txn(body, &(struct etcd_txn){.compares = &never,
                                             .compare_count = 1,
                                             .success = &put,
                                             .success_count = 1,
                                             .failure = &range,
                                             .failure_count = 1});
    buf_close(&end);
}

static struct err explain(struct err e, int grpc_code, const char *user, const char *prefix)
{
    if (grpc_code == PERMISSION_DENIED)
        return err_wrap(e, "etcd's user %s needs a role with readwrite on the prefix %s",
                        user ? user : "", prefix);
    return e;
}

struct err access_check(const struct etcd_access *access, const char *user, const char *prefix)
{
    struct etcd_client *c;
    struct etcd_config cfg = {.access = *access, .name = "etcd-access"};
    struct buf body = {0};
    struct err e = etcd_client_new(&c, &cfg);
    if (err_is(&e))
        return e;
    if (user && !strstr(access->endpoints, "https://"))
        log_warn("the password of etcd's user %s goes over the network as it is: no endpoint is "
                 "https://",
                 user);
    encode_question(&body, prefix);
    int64_t until_ms = clock_boot_ms() + ASK_ALL_MS;
    bool answered = false;
    for (int i = 0; i < etcd_endpoint_count(c) && !answered && clock_boot_ms() < until_ms; i++) {
        struct etcd_reply reply;
        e = etcd_call_wait(c, ETCD_PATH_TXN, buf_view(&body), i, ASK_MS, &reply);
        answered = !err_is(&e) || e.code == ERR_DENIED;
        e = explain(e, reply.grpc_code, user, prefix);
        if (!answered)
            log_warn("%s", e.message);
        etcd_reply_close(&reply);
    }
    buf_close(&body);
    etcd_client_free(c);
    return answered ? e : OK_ERR;
}
