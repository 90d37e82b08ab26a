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
#include "client/include/baton/baton.h"
#include "common/base/arena.h"
#include "common/base/err.h"

#define TXN_CLAUSES_MAX 100 /* of each sort, as the service takes them */

/* All zero is the empty transaction. Slices live in the arena given to txn_script_add. */
struct txn_script {
    struct baton_compare compares[TXN_CLAUSES_MAX];
    struct baton_op then_ops[TXN_CLAUSES_MAX], else_ops[TXN_CLAUSES_MAX];
    size_t compare_count, then_count, else_count;
};

/* Borrowed from the script. */
struct baton_txn txn_script_view(const struct txn_script *t);
/* Adds one clause; blank ones and those that start with # add nothing. USAGE errors say what is
 * wrong. */
struct err txn_script_add(struct txn_script *t, struct arena *memory, const char *clause);
