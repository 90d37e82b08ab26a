/* How many operations etcd takes in one txn: it is a flag of the server (128 by default) that no
 * request can ask for. */
#include "common/io/etcd.h"
#include "common/base/clock.h"
#include "common/base/mem.h"
#include <stdlib.h>

#define MOST_OPS 1024 /* more do not fill a commit; asking costs etcd some 50 us for each */

/* No create_revision is below 0, so the reads are never done; were they, they would change nothing.
 */
static void encode_probe(struct buf *body, const struct etcd_op *ops, int count)
{
    struct etcd_compare never = {.target = ETCD_CREATE, .relation = ETCD_LESS, .key = ops->key};
    struct etcd_txn txn = {
        .compares = &never, .compare_count = 1, .success = ops, .success_count = (size_t)count};
    buf_clear(body);
    etcd_encode_txn(body, &txn);
}

/* *taken: etcd accepted that many operations. */
static struct err probe(struct etcd_client *c, int endpoint, int timeout_ms, struct bytes body,
                        bool *taken)
{
    struct etcd_reply reply;
    struct etcd_txn_result result = {0};
    struct err e = etcd_call_wait(c, ETCD_PATH_TXN, body, endpoint, timeout_ms, &reply);
    *taken = !err_is(&e);
    if (*taken)
        e = etcd_decode_txn(reply.body, &result);
    else if (e.code == ERR_TOO_LARGE)
        e = OK_ERR;
    if (result.succeeded)
        e = err_make(ERR_PROTOCOL, "etcd says that a create revision is below 0");
    etcd_txn_result_close(&result);
    etcd_reply_close(&reply);
    return e;
}

struct err etcd_learn_max_txn_ops(struct etcd_client *c, int endpoint, struct bytes key,
                                  int timeout_ms, int *out)
{
    struct etcd_op *ops = mem_array(MOST_OPS, sizeof *ops);
    struct buf body = {0};
    struct err e = OK_ERR;
    bool taken = false;
    int64_t until_ms = clock_boot_ms() + timeout_ms;
    int count = MOST_OPS * 2;
    for (int i = 0; i < MOST_OPS; i++)
        ops[i] = (struct etcd_op){.kind = ETCD_OP_RANGE, .key = key, .keys_only = true};
    while (!err_is(&e) && !taken && count > 1) {
        int64_t left_ms = until_ms - clock_boot_ms();
        count /= 2;
        encode_probe(&body, ops, count);
        e = left_ms > 0
                ? probe(c, endpoint, (int)left_ms, buf_view(&body), &taken)
                : err_make(ERR_TIMEOUT, "etcd's limit of operations was not learned in time");
    }
    buf_close(&body);
    free(ops);
    if (!err_is(&e) && !taken)
        e = err_make(ERR_PROTOCOL, "etcd refuses a txn of one operation as too large");
    *out = err_is(&e) ? 0 : count;
    return e;
}
