/* Who watches over it all: knows what etcd holds, and therefore whether what members say is true.
 * Stops the world at the first violation. */
#pragma once
#include "meta/core/commit.h"
#include "tests/sim/clients.h"
#include "tests/sim/world.h"

struct checker_op {
    int64_t revision; /* of the commit that recorded it; 0: none did */
    bool never;       /* its caller was told that it did not and will not happen */
    bool answered;
    uint64_t answer; /* a digest of the first answer */
};

struct checker_batch;
struct checker {
    struct checker_op *ops;
    size_t op_count;
    struct checker_batch *batches; /* open addressing by batch id */
    size_t batch_count, batch_cap;
    uint64_t epoch, seq;
    char nonce[NONCE_DIGITS + 1];
    int64_t floor[CLIENT_KEYS]; /* newest change of a key that somebody was told of */
    uint64_t takeovers, commits, outcomes[COMMIT_UNKNOWN + 1];
    uint64_t fatals, fast_takeovers;
};

struct checker *checker_new(void);
void checker_free(struct checker *c);

void checker_on_revision(struct world *w, const struct fake_revision *r);
/* What a member learned of a batch, by the id in the record that it sent. */
void checker_on_outcome(struct world *w, int member, const char *batch,
                        const struct commit_outcome *o);
void checker_on_answer(struct world *w, const struct op *op, const struct plan_answer *answer);
/* In which commit a request id stands; 0: in none. */
int64_t checker_revision_of(const struct world *w, struct bytes id);
void checker_on_never(struct world *w, const struct op *op);
/* A read of op->key from a snapshot at `revision`. */
void checker_on_read(struct world *w, int member, const struct op *op, int64_t revision);
void checker_fatal(struct world *w, int member, const struct err *e);
/* The newest change of a key up to a revision, deletions too. */
int64_t checker_last_change(struct world *w, const char *key, int64_t revision);
