/* Between the messages of baton.v1.KvService and the plain values of the cores. */
#pragma once
#include "meta/core/answer.h"

/* ---- mutations: the message into an empty request, whose memory then holds all that it shows ----
 * BAD_REQUEST: no valid message, or fields that contradict each other. request_check is still due.
 */
struct err convert_put(struct bytes body, struct plan_request *out);
struct err convert_delete(struct bytes body, struct plan_request *out);
struct err convert_txn(struct bytes body, struct plan_request *out);

/* The response message to an answer with code OK. */
void convert_answer(const struct plan_answer *answer, struct buf *out);

/* ---- reads ---- */

enum read_consistency { READ_LEASE, READ_QUORUM, READ_STALE };

/* How current the state must be that a read is answered from. */
struct read_terms {
    enum read_consistency consistency;
    int64_t min_revision; /* 0: any */
};

struct read_get {
    struct bytes key;
    struct read_terms terms;
};

struct read_range {
    struct bytes start, end; /* end empty: to the last key */
    size_t limit;            /* keys of a page; at least 1 */
    bool keys_only, count_only;
    struct read_terms terms;
};

/* The slices live in the arena. BAD_KEY, BAD_REQUEST. */
struct err convert_get(struct bytes body, struct arena *memory, struct read_get *out);
struct err convert_range(struct bytes body, struct arena *memory, struct read_range *out);

struct read_page {
    int64_t revision;
    const struct etcd_kv *kvs;
    size_t count;
    bool more;
    struct bytes next_key;
    uint64_t total; /* with count_only */
};

void convert_get_answer(int64_t revision, const struct etcd_kv *kv,
                        struct buf *out); /* NULL: absent */
void convert_range_answer(const struct read_page *page, struct arena *memory, struct buf *out);
