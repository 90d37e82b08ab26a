#include "client/client.h"
#include "client/convert_member.h"
#include "client/core/leader_view.h"
#include "client/core/request_id.h"
#include "client/core/retry.h"
#include "common/base/backoff.h"
#include "common/base/clock.h"
#include "common/base/mem.h"
#include <stdlib.h>

#define CHANNELS_MAX (LEADER_SEEDS_MAX + 16)

struct client {
    struct leader_view view;
    int attempts_max;
    struct rpc_channel *channels[CHANNELS_MAX];
    size_t next_channel; /* to be given up when there are too many */
    struct rng rng;
};

struct err client_new(struct client **out, const struct client_config *cfg)
{
    struct client *c = mem_alloc(sizeof *c);
    struct err e = leader_view_init(&c->view, cfg->addresses);
    if (err_is(&e)) {
        free(c);
        return e;
    }
    c->attempts_max = cfg->attempts_max;
    rng_seed_os(&c->rng);
    *out = c;
    return OK_ERR;
}

void client_free(struct client *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < CHANNELS_MAX; i++)
        rpc_channel_free(c->channels[i]);
    free(c);
}

static struct rpc_channel *channel_to(struct client *c, const char *addr)
{
    for (size_t i = 0; i < CHANNELS_MAX; i++)
        if (c->channels[i] && !strcmp(rpc_channel_addr(c->channels[i]), addr))
            return c->channels[i];
    struct rpc_channel **slot = &c->channels[c->next_channel++ % CHANNELS_MAX];
    rpc_channel_free(*slot);
    return *slot = rpc_channel_new(addr);
}

void client_saw_revision(struct client *c, int64_t revision)
{
    if (revision > c->view.revision)
        c->view.revision = revision;
}

size_t client_seed_count(const struct client *c)
{
    return c->view.count;
}

const char *client_seed(const struct client *c, size_t i)
{
    return c->view.seeds[i];
}

struct err client_call_at(struct client *c, const char *addr, const char *path, struct bytes body,
                          int64_t deadline_ms, struct rpc_answer *out)
{
    return rpc_channel_call(channel_to(c, addr), path, body, NULL, 0, deadline_ms, out);
}

struct err client_ask(struct client *c, const char *addr, int64_t deadline_ms,
                      struct member_leader *out)
{
    struct rpc_answer a = {0};
    struct err e = client_call_at(c, addr, MEMBER_GET_LEADER, BYTES_NONE, deadline_ms, &a);
    if (!err_is(&e))
        e = member_decode_leader(buf_view(&a.message), out);
    rpc_answer_close(&a);
    return e;
}

/* One that does not answer must not use up the time for all. */
static int64_t discover_deadline(const struct client *c, int64_t deadline_ms)
{
    int64_t soon = clock_boot_ms() + 1000;
    return c->view.count > 1 && soon < deadline_ms ? soon : deadline_ms;
}

/* Asks the seed whose turn it is who leads. Any error means: not known, and nothing has happened.
 */
static struct err discover(struct client *c, int64_t deadline_ms)
{
    const char *seed = leader_view_pick(&c->view);
    struct member_leader said;
    struct err e = client_ask(c, seed, discover_deadline(c, deadline_ms), &said);
    if (e.code == ERR_TIMEOUT || e.code == ERR_LOST)
        return err_make(ERR_UNREACHABLE, "%s", e.message);
    if (err_is(&e))
        return e;
    /* who answers for itself leads, or is a proxy before the leader: either way the address to call
     */
    const char *addr = said.known && !strcmp(said.id, said.member_id) ? seed : said.addr;
    struct leader_claim claim = {.cluster = said.cluster,
                                 .epoch = said.epoch,
                                 .addr = said.known ? addr : NULL,
                                 .revision = said.revision};
    leader_view_learn(&c->view, &claim);
    return c->view.leader[0] ? OK_ERR : err_make(ERR_NO_LEADER, "%s knows no leader now", seed);
}

static void learn_from(struct client *c, const struct rpc_answer *a)
{
    struct leader_claim claim = {.cluster = a->cluster, .addr = a->leader, .epoch = a->epoch};
    if (a->epoch > 0)
        leader_view_learn(&c->view, &claim);
}

struct effort {
    const struct client_request *req;
    char id[REQUEST_ID_MAX]; /* empty: not made yet */
    int attempts;
    struct backoff backoff;
    int64_t deadline_ms;
};

/* Made at the last moment before the first sending, when a revision has been seen; never changed
 * after. */
static size_t id_of(struct client *c, struct effort *f, struct rpc_metadata *out)
{
    if (!f->req->keeps_ids)
        return 0;
    if (!f->id[0])
        request_id_make(&c->rng, c->view.revision, f->id);
    *out = (struct rpc_metadata){"baton-request-id", bytes_str(f->id)};
    return 1;
}

static struct err attempt(struct client *c, struct effort *f, struct rpc_answer *out)
{
    struct rpc_metadata id;
    if (!c->view.leader[0] && !f->req->as_addressed) {
        struct err e = discover(c, f->deadline_ms);
        if (err_is(&e) && !(e.code == ERR_NO_LEADER && f->req->any_member)) {
            rpc_answer_close(out);
            out->not_executed = true;
            leader_view_failed(&c->view, leader_view_pick(&c->view));
            return e;
        }
    }
    char addr[LEADER_ADDR_MAX];
    memcpy(addr, f->req->as_addressed ? leader_view_seed(&c->view) : leader_view_pick(&c->view),
           sizeof addr);
    size_t n = id_of(c, f, &id);
    struct err e = rpc_channel_call(channel_to(c, addr), f->req->path, f->req->body, &id, n,
                                    f->deadline_ms, out);
    if (retry_may_pass(e.code) || e.code == ERR_TIMEOUT)
        leader_view_failed(&c->view, addr);
    else if (!f->req->any_member && !f->req->as_addressed)
        leader_view_learn(&c->view, &(struct leader_claim){.addr = addr, .epoch = out->epoch});
    learn_from(c, out);
    return e;
}

/* false: the next attempt would begin too late. A leader that was just named is asked at once. */
static bool wait_before_next(struct client *c, struct effort *f, const struct rpc_answer *last)
{
    int64_t wait_ms =
        last->leader[0] && f->attempts == 1 ? 0 : backoff_next_ms(&f->backoff, &c->rng);
    if (last->pushback_ms > wait_ms)
        wait_ms = last->pushback_ms;
    return clock_pause(wait_ms, f->deadline_ms);
}

struct err client_open(struct client *c, const char *path, struct bytes body, int64_t deadline_ms,
                       struct rpc_reader **out)
{
    struct backoff pause = {.min_ms = 20, .max_ms = 1000};
    leader_view_failed(&c->view, leader_view_pick(&c->view)); /* it may have been told long ago */
    for (;;) {
        struct err e = discover(c, deadline_ms);
        if (!err_is(&e)) {
            *out = rpc_reader_open(channel_to(c, leader_view_pick(&c->view)), path, body, NULL, 0,
                                   INT64_MAX);
            return OK_ERR;
        }
        leader_view_failed(&c->view, leader_view_pick(&c->view));
        int64_t wait_ms = backoff_next_ms(&pause, &c->rng);
        if (!retry_may_pass(e.code) || !clock_pause(wait_ms, deadline_ms))
            return e;
    }
}

struct err client_call(struct client *c, const struct client_request *req, int64_t deadline_ms,
                       struct rpc_answer *out)
{
    struct effort f = {
        .req = req, .backoff = {.min_ms = 20, .max_ms = 1000}, .deadline_ms = deadline_ms};
    struct err e;
    for (;;) {
        e = attempt(c, &f, out);
        f.attempts++;
        struct retry_call call = {.idempotent = req->idempotent,
                                  .has_request_id = req->keeps_ids,
                                  .attempts_max = c->attempts_max};
        struct retry_outcome last = {
            .code = e.code, .not_executed = out->not_executed, .attempts = f.attempts};
        if (retry_decide(&call, &last) == RETRY_FINAL || !wait_before_next(c, &f, out))
            return e;
    }
}
