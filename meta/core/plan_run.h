/* Inside of planning: one request against the committed state. */
#pragma once
#include "meta/core/plan.h"

struct plan_run {
    struct plan_batch *batch;
    const struct plan_request *req;
    struct plan_answer *answer; /* in the batch's memory */
    const struct request_op *branch;
    size_t branch_count;
    size_t events;       /* keys that change */
    size_t bytes;        /* of keys and values written */
    size_t answer_bytes; /* about as many as the answer will take */
    size_t answer_max;
    struct err refusal;
};

/* Appends what the request writes to the batch's ops and makes its answer: TAKEN, WAIT_NEXT or
 * REFUSED. The caller takes the ops back unless it keeps the request. */
enum plan_verdict plan_run(struct plan_run *r);
/* Makes what the request reads and writes part of the batch's footprint. */
void plan_run_keep(const struct plan_run *r);

void plan_push_op(struct plan_batch *b, const struct etcd_op *op);
/* state_prefix + folder + rest, in the batch's memory. */
struct bytes plan_key(struct plan_batch *b, const char *folder, struct bytes rest);
