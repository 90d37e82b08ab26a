/* Declared state machines: the states, which moves are allowed, and one door through which every
 * move goes. States are named for what they wait for. */
#pragma once
#include <stdint.h>

struct sm_decl {
    const char *name;
    int count;                 /* of states, at most 32 */
    const char *const *states; /* names */
    const uint32_t *allowed;   /* for each state the bits of the states it may move to */
};

struct sm {
    const struct sm_decl *decl;
    int state;
    int64_t since_ms;
    /* called after each move, for the log line and the metric; may be NULL */
    void (*moved)(void *arg, const struct sm *sm, int from, const char *why, int64_t spent_ms);
    void *arg;
};

#define SM_TO(state) (1u << (state))

void sm_init(struct sm *sm, const struct sm_decl *decl, int state, int64_t now_ms);
/* A move that is not declared is a broken invariant. */
void sm_move(struct sm *sm, int to, const char *why, int64_t now_ms);
const char *sm_str(const struct sm *sm);
