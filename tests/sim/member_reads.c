/* The reader thread: looks at the gate, takes a snapshot, answers. It may be stopped in between. */
#include "common/base/mem.h"
#include "meta/core/bug.h"
#include "tests/sim/checker.h"
#include "tests/sim/clients.h"
#include "tests/sim/member.h"
#include <stdlib.h>

enum { STEP_US = 40, LONG_STEP_US = 3000 * 1000 };

struct read {
    struct member *m;
    struct request *request;
    uint64_t epoch;
    int64_t revision;
};

static void drop_read(void *arg)
{
    struct read *read = arg;
    request_drop(read->request);
    free(read);
}

static void next_step(struct world *w, struct read *read, int64_t pause_us,
                      void (*run)(struct world *, void *))
{
    int64_t us = 1 + pause_us + (int64_t)rng_below(&w->rng, STEP_US);
    if (world_chance(w, w->slow_readers))
        us += (int64_t)rng_below(&w->rng, LONG_STEP_US);
    world_post(w, us, read->m->index, THREAD_READER, run, drop_read, read);
}

static uint64_t look(struct world *w, const struct read *read)
{
    return read_gate_epoch(&read->m->gate, member_ms(w, read->m));
}

/* Whose commit the state ends with. */
static uint64_t epoch_at(struct world *w, int64_t revision)
{
    char key[KEY_MAX];
    struct record record = {0};
    const struct fake_version *v = fake_etcd_get(&w->etcd, keys_commit(key, SIM_PREFIX), revision);
    if (v)
        record_decode(v->value, &record);
    return record.epoch;
}

static void answer(struct world *w, void *arg)
{
    struct read *read = arg;
    if (BUG(BUG_LATE_LOOK))
        read->epoch = look(w, read);
    if (read->epoch)
        request_answer_read(w, read->request, read->revision, read->epoch);
    else
        request_refuse(w, read->request, ERR_NOT_LEADER, false);
    free(read);
}

static void take_snapshot(struct world *w, void *arg)
{
    struct read *read = arg;
    read->revision = read->m->replica.applied;
    if (read->epoch && epoch_at(w, read->revision) != read->epoch)
        read->epoch = 0; /* the state is a successor's: ahead of what that one has answered */
    next_step(w, read, w->reader_pause_us, answer);
}

static void confirm_instead(struct world *w, void *arg)
{
    struct request *request = arg;
    replica_shell_request(w, &w->members[request->member], request);
}

void reader_shell_read(struct world *w, struct member *m, struct request *request)
{
    struct read *read = mem_alloc(sizeof *read);
    *read = (struct read){.m = m, .request = request};
    read->epoch = look(w, read);
    if (read->epoch == 0 && !BUG(BUG_LATE_LOOK)) {
        free(read);
        if (m->role == ROLE_LEADER) /* its gate has run out for the moment */
            world_post(w, 1, m->index, THREAD_REPLICA, confirm_instead, request_drop, request);
        else
            request_refuse(w, request, ERR_NOT_LEADER, false);
        return;
    }
    next_step(w, read, w->reader_look_us, take_snapshot);
}
