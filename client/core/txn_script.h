/* Transactions as people type them: clauses, one a line or one an argument.
 *
 *     if KEY value|version|create|mod =|!=|<|> WHAT
 *     [then|else] get KEY
 *     [then|else] put KEY VALUE
 *     [then|else] del KEY
 *     [then|else] del-prefix KEY
 *
 * A word with blanks or quotes in it stands in double quotes, where \" \\ \n \t and \xHH are known.
 */
#pragma once
#include "common/base/arena.h"
#include "common/base/err.h"

#define TXN_CLAUSES_MAX 100 /* of each sort, as the service takes them */

enum kv_target { KV_VALUE, KV_VERSION, KV_CREATE_REVISION, KV_MOD_REVISION };
enum kv_relation { KV_EQUAL, KV_NOT_EQUAL, KV_LESS, KV_GREATER };
enum kv_op_kind { KV_GET, KV_PUT, KV_DELETE };

struct kv_compare {
    struct bytes key;
    enum kv_target target;
    enum kv_relation relation;
    int64_t number;     /* all targets but VALUE */
    struct bytes value; /* VALUE */
};

struct kv_op {
    enum kv_op_kind kind;
    struct bytes key;
    struct bytes value; /* PUT */
    bool prefix;        /* DELETE: every key that starts with key */
};

struct kv_branch {
    struct kv_op ops[TXN_CLAUSES_MAX];
    size_t count;
};

/* All zero is the empty transaction. Slices live in the arena given to txn_script_add, or are
 * borrowed. */
struct kv_txn {
    struct kv_compare compares[TXN_CLAUSES_MAX];
    size_t compare_count;
    struct kv_branch then_branch, else_branch;
};

/* Adds one clause; blank ones and those that start with # add nothing. USAGE errors say what is
 * wrong. */
struct err txn_script_add(struct kv_txn *t, struct arena *memory, const char *clause);
