/* One mutation of the state as plain values: what the cores plan with. */
#pragma once
#include "common/base/arena.h"
#include "common/base/err.h"
#include "common/base/etcd_types.h"
#include "meta/core/worker.h"

enum {
    REQUEST_KEY_MAX = 480,           /* bytes; LMDB takes 511 */
    REQUEST_VALUE_MAX = 1024 * 1024, /* bytes */
    REQUEST_BYTES_MAX = 1280 * 1024, /* of one request as encoded */
    REQUEST_COMPARES_MAX = 100,
    REQUEST_OPS_MAX = 100, /* in each branch */
    REQUEST_ID_MIN = 16,   /* bytes */
    REQUEST_ID_MAX = 64,
};

/* Recorded with request ids: the numbers never change. */
enum request_method {
    REQUEST_PUT = 1,
    REQUEST_DELETE = 2,
    REQUEST_TXN = 3,
    REQUEST_ADD_WORKER = 4,
    REQUEST_ACTIVATE_WORKER = 5,
    REQUEST_UPDATE_WORKER = 6,
    REQUEST_DELETE_WORKER = 7,
    REQUEST_EXPIRE_WORKER = 8, /* of the leader itself */
};

enum request_op_kind { REQUEST_OP_GET, REQUEST_OP_PUT, REQUEST_OP_DELETE };

struct request_op {
    enum request_op_kind kind;
    bool ranged;           /* DELETE: from key up to end, not included; else only key */
    bool prev_kv;          /* PUT, DELETE: answer what was there before */
    bool must_exist;       /* DELETE outside of a TXN: KEY_NOT_FOUND when nothing was there */
    struct bytes key, end; /* end empty: to the last key */
    struct bytes value;    /* PUT */
};

struct request_compare {
    enum etcd_target target; /* all but LEASE */
    enum etcd_relation relation;
    struct bytes key, value;
    int64_t number; /* all targets but VALUE */
};

enum request_toggle { REQUEST_KEEP, REQUEST_ON, REQUEST_OFF };

/* What is asked of the workers. */
struct request_worker {
    uint64_t id, incarnation; /* all but ADD; incarnation 0: whichever it is */
    struct bytes type, addr;  /* ADD */
    bool slot;                /* ADD: wants one */
    uint64_t ttl_ms;          /* ADD; 0: the planner's */
    /* ADD, and UPDATE: what is set */
    const struct worker_label *labels;
    size_t label_count;
    const struct worker_resource *resources;
    size_t resource_count;
    /* UPDATE */
    const struct bytes *remove_labels, *remove_resources;
    size_t remove_label_count, remove_resource_count;
    enum request_toggle cordoned, draining;
};

/* PUT and DELETE have one operation, in then_ops. What its maker copies lives in `memory`; all zero
 * is an empty request, and request_close frees. */
struct plan_request {
    struct arena memory;
    enum request_method method;
    const struct request_compare *compares;
    size_t compare_count;
    const struct request_op *then_ops, *else_ops;
    size_t then_count, else_count;
    const struct request_worker *worker; /* NULL: it is about keys */
    struct bytes id;                     /* empty: none */
    int64_t id_revision; /* a revision that the maker of the id had seen; -1: not said */
    uint64_t body_hash;  /* of the request as it came, with an id */
};

void request_close(struct plan_request *req);

/* What depends on the request alone: limits, empty keys, a branch that writes a key twice. BAD_KEY,
 * BAD_WORKER, TOO_LARGE and BAD_REQUEST name the limit. */
struct err request_check(const struct plan_request *req);

/* The id in `text`, checked, into req->id and id_revision; BAD_REQUEST_ID says what an id looks
 * like. */
struct err request_set_id(struct plan_request *req, struct bytes text);
uint64_t request_hash(struct bytes body); /* for body_hash */
