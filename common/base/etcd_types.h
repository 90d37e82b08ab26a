/* What is said to etcd and what it answers, as plain values: the cores make and judge them, the
 * codec turns them into JSON, a simulation answers them itself. Numbers as in etcd's own API. */
#pragma once
#include "common/base/buf.h"
#include <stdbool.h>

enum etcd_target { ETCD_VERSION, ETCD_CREATE, ETCD_MOD, ETCD_VALUE, ETCD_LEASE };
enum etcd_relation { ETCD_EQUAL, ETCD_NOT_EQUAL, ETCD_LESS, ETCD_GREATER };

/* Slices are borrowed from whoever made the txn. */
struct etcd_compare {
    enum etcd_target target;
    enum etcd_relation relation;
    struct bytes key, range_end; /* range_end empty: one key */
    int64_t number;              /* all targets but VALUE */
    struct bytes value;
};

enum etcd_op_kind { ETCD_OP_PUT, ETCD_OP_DELETE, ETCD_OP_RANGE };

struct etcd_op {
    enum etcd_op_kind kind;
    struct bytes key, range_end;
    struct bytes value; /* PUT */
    int64_t lease;      /* PUT; 0: none */
    int64_t limit;      /* RANGE; 0: all */
    int64_t revision;   /* RANGE; 0: the newest */
    bool keys_only;     /* RANGE */
    bool by_create;     /* RANGE: ascending create_revision instead of key order */
};

struct etcd_txn {
    const struct etcd_compare *compares;
    size_t compare_count;
    const struct etcd_op *success;
    size_t success_count;
    const struct etcd_op *failure;
    size_t failure_count;
};

struct etcd_header {
    uint64_t cluster_id, member_id;
    int64_t revision; /* 0: the answer had none */
    uint64_t raft_term;
};

struct etcd_kv {
    struct bytes key, value;
    int64_t create_revision, mod_revision, version, lease;
};

struct etcd_op_result {
    enum etcd_op_kind kind;
    struct etcd_kv *kvs; /* RANGE */
    size_t count;
    bool more;
    int64_t deleted; /* DELETE */
};

/* Owns what its slices show: one block that etcd_txn_result_close frees. */
struct etcd_txn_result {
    struct etcd_header header;
    bool succeeded;
    struct etcd_op_result *results;
    size_t result_count;
};

struct etcd_event {
    bool deleted;
    struct etcd_kv kv; /* of a deletion only key and mod_revision */
};
