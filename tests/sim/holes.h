/* Directed schedules: one for each hole that election.md closes. Each plays in a calm world of
 * three members and says through the world's violation what it did not find as it should be. */
#pragma once
#include "tests/sim/clients.h"
#include "tests/sim/member.h"

struct hole {
    const char *name;
    void (*run)(struct world *w);
    int bug; /* of meta/core/bug.h: with it the schedule must fail; -1: none */
    int64_t ttl_ms[MEMBERS];
    double rate[MEMBERS]; /* of the members' clocks; 0: exact */
};

/* Not a hole but an assumption: clocks that drift more than the margin allows. It must fail. */
extern const struct hole hole_beyond_the_margin;

/* Plays it; false, with the reason in `violation`. */
bool hole_play(const struct hole *hole, bool traced, char violation[400]);

extern const struct hole holes_of_reads[], holes_of_writes[], holes_of_roles[],
    holes_of_operators[];
extern const size_t holes_of_reads_count, holes_of_writes_count, holes_of_roles_count,
    holes_of_operators_count;

/* ---- what schedules are made of ---- */

/* The next `times` messages of this kind meet this verdict; what no rule names passes at once. */
struct rule {
    const char *what; /* see net_call */
    enum net_stage stage;
    int member, times;
    enum net_verdict verdict;
};
enum { RULES_MAX = 16 };
struct script {
    struct rule rules[RULES_MAX];
    size_t count;
};
void script_add(struct world *w, struct rule rule);
void script_clear(struct world *w);

void expect(struct world *w, bool holds, const char *text);
int leader(const struct world *w); /* who says that it leads and may read; NOBODY */
/* m0 leads, the others stand behind it, m1 first. */
void given_a_leader_and_two_candidates(struct world *w);
void expect_leader(struct world *w, int member, int64_t within_ms);
void expect_another_leader(struct world *w, int than, int64_t within_ms);
void expect_done(struct world *w, struct op *op, int64_t within_ms);
void expect_held(struct world *w, const char *what, enum net_stage stage, int64_t within_ms);
void run_ms(struct world *w, int64_t ms);
/* A put of a client that goes on until it is done, or one attempt at one member. Held: op_release.
 */
struct op *begin_put(struct world *w, int client, const char *key);
struct op *send_op(struct world *w, int client, enum op_kind kind, const char *key, int member);
int64_t applied_at(const struct world *w, const struct op *op); /* 0: not applied */
void operator_deletes_key(struct world *w, int member);
