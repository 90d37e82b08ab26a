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
    /* of a request about workers: what it does, once it is kept */
    struct plan_worker change;
    bool changes;
    struct worker_counters counters;
};

/* Appends what the request writes to the batch's ops and makes its answer: TAKEN, WAIT_NEXT or
 * REFUSED. The caller takes the ops back unless it keeps the request. */
enum plan_verdict plan_run(struct plan_run *r);
/* Makes what the request reads and writes part of the batch's footprint. */
void plan_run_keep(const struct plan_run *r);

void plan_push_op(struct plan_batch *b, const struct etcd_op *op);
/* state_prefix + folder + rest, in the batch's memory. */
struct bytes plan_key(struct plan_batch *b, const char *folder, struct bytes rest);
/* Appends it, as a part of what the request does. */
void plan_write(struct plan_run *r, struct etcd_op op, size_t events);

/* ---- of requests about workers: plan_worker.c ---- */
void plan_workers_begin(struct plan_batch *b);
enum plan_verdict plan_run_worker(struct plan_run *r);
void plan_run_worker_keep(const struct plan_run *r);
/* What plan_workers_end will add, at most, with r kept. */
size_t plan_workers_ops(const struct plan_batch *b, const struct plan_run *r);
size_t plan_workers_bytes(const struct plan_batch *b, const struct plan_run *r);
void plan_workers_end(struct plan_batch *b);
void plan_workers_close(struct plan_batch *b);
