#include "tests/sim/seeds.h"
#include "tests/sim/chaos.h"
#include "tests/sim/checker.h"
#include "tests/sim/clients.h"
#include "tests/sim/operator.h"
#include <stdio.h>

enum { CHAOS_US = 20 * 1000 * 1000, PEACE_MS = 40 * 1000 };

static bool all_is_well(struct world *w, void *arg)
{
    (void)arg;
    for (int i = 0; i < MEMBERS; i++) {
        if (w->members[i].alive && operator_has_removed(w, i))
            return false; /* it has to leave yet */
    }
    for (int i = 0; i < MEMBERS; i++) {
        if (w->members[i].role == ROLE_LEADER && member_reads(w, &w->members[i]))
            return clients_idle(w);
    }
    return false;
}

static void report(struct world *w, struct seed_result *out)
{
    memcpy(out->violation, w->violation, sizeof out->violation);
    memcpy(out->faults, w->faults, sizeof out->faults);
    out->takeovers = w->checker->takeovers;
    out->commits = w->checker->commits;
    out->unknown = w->checker->outcomes[COMMIT_UNKNOWN];
    out->operations = w->clients->completed;
    out->reads = w->clients->reads;
    out->quorum_reads = w->clients->quorum_reads;
    out->refused = w->clients->refused;
    out->steps = w->steps;
}

/* Who waits for what, for the message. */
static void not_recovered(struct world *w)
{
    char roles[200] = "";
    for (int i = 0; i < MEMBERS; i++)
        snprintf(roles + strlen(roles), sizeof roles - strlen(roles), " m%d %s", i,
                 role_str(w->members[i].role));
    world_violate(w, "%d s after the last fault: %s, but%s", PEACE_MS / 1000,
                  clients_idle(w) ? "all operations are answered" : "an operation has no answer",
                  roles);
}

void seed_run(uint64_t seed, bool traced, struct seed_result *out)
{
    *out = (struct seed_result){0};
    struct world_options options = chaos_options(seed, traced);
    struct world *w = world_new(&options);
    for (int i = 0; i < MEMBERS; i++)
        member_start(w, i);
    clients_start(w);
    struct chaos *chaos = chaos_start(w);
    world_run_until(w, w->now_us + CHAOS_US);
    chaos_stop(w, chaos);
    int64_t began_us = w->now_us;
    world_run_until(w, w->now_us + 1000 * 1000);
    w->clients->stopped = true;
    if (!w->violation[0] && !world_wait(w, PEACE_MS, all_is_well, NULL))
        not_recovered(w);
    out->recovered_ms = (w->now_us - began_us) / 1000;
    report(w, out);
    world_free(w);
}
