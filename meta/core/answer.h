/* The answer to one mutation as plain values, and how the table of request ids keeps it. */
#pragma once
#include "meta/core/request.h"

/* Bytes of an answer: of one that is kept with a request id, and of any. */
enum { ANSWER_RECORDED_MAX = 64 * 1024, ANSWER_MAX = 2 * 1024 * 1024 };

struct answer_result {
    enum request_op_kind kind;
    struct etcd_kv *kvs; /* GET: what was found; PUT, DELETE: what was there, when asked for */
    size_t kv_count;
    uint64_t deleted; /* DELETE */
};

/* Everything in it belongs to the arena it was made in. A create or mod revision of 0 in it stands
 * for the revision of the commit, until answer_settle. */
struct plan_answer {
    enum request_method method;
    enum err_code code; /* OK, or a refusal that depends on the state: recorded like any answer */
    bool succeeded;     /* TXN: the comparisons held */
    bool replayed;      /* of an earlier try */
    int64_t revision;   /* of the commit */
    struct answer_result *results;
    size_t result_count;
};

/* What such a refusal says. */
struct err answer_refusal(const struct plan_answer *answer);

/* Fills in the revision of the commit wherever it stands. */
void answer_settle(struct plan_answer *answer, int64_t revision);

void answer_encode(struct buf *out, const struct plan_answer *answer);
/* NULL: these bytes are no answer. The answer copies them. */
struct plan_answer *answer_decode(struct arena *arena, struct bytes encoded);
