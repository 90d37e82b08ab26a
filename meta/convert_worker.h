/* Between the messages of baton.v1.ClusterService and plain values. */
#pragma once
#include "baton/v1/cluster.pb-c.h"
#include "common/base/etcd_types.h"
#include "meta/core/answer.h"

/* ---- mutations: as of convert.h ---- */
struct err convert_add_worker(struct bytes body, struct plan_request *out);
struct err convert_activate_worker(struct bytes body, struct plan_request *out);
struct err convert_update_worker(struct bytes body, struct plan_request *out);
struct err convert_delete_worker(struct bytes body, struct plan_request *out);

/* The response message to an answer with code OK, of any of them. */
void convert_worker_answer(const struct plan_answer *answer, struct buf *out);

/* A worker and the key that holds it, as a message in the arena, which shows what they show. */
Baton__V1__Worker *convert_worker(const struct worker *w, const struct etcd_kv *kv,
                                  struct arena *memory);

/* ---- reads ---- */

struct worker_filter {
    struct bytes type; /* empty: all */
    const struct worker_label *labels;
    size_t label_count;
    enum { WORKERS_ALL, WORKERS_STARTING, WORKERS_RUNNING, WORKERS_EXPIRING } state;
    bool schedulable;
    uint64_t after_id;
    uint32_t limit;
};
/* What it shows lives in the arena. BAD_REQUEST, BAD_WORKER. */
struct err convert_list_workers(struct bytes body, struct arena *memory, struct worker_filter *out);

struct heartbeat {
    uint64_t id, incarnation;
};
struct err convert_heartbeat(struct bytes body, struct heartbeat *out);
/* reason NULL: it was heard. */
void convert_heartbeat_answer(uint64_t id, uint64_t ttl_ms, bool cordoned, bool draining,
                              const char *reason, struct buf *out);
