#include "common/base/sm.h"
#include "common/base/check.h"

void sm_init(struct sm *sm, const struct sm_decl *decl, int state, int64_t now_ms)
{
    PRE(decl->count <= 32 && state < decl->count);
    *sm = (struct sm){.decl = decl, .state = state, .since_ms = now_ms};
}

void sm_move(struct sm *sm, int to, const char *why, int64_t now_ms)
{
    int from = sm->state;
    INVARIANT(to >= 0 && to < sm->decl->count);
    INVARIANT(sm->decl->allowed[from] & SM_TO(to));
    int64_t spent_ms = now_ms - sm->since_ms;
    sm->state = to;
    sm->since_ms = now_ms;
    if (sm->moved)
        sm->moved(sm->arg, sm, from, why, spent_ms);
}

const char *sm_str(const struct sm *sm)
{
    return sm->decl->states[sm->state];
}
