/* The life of a client, and its calls. */
#include "client/client_parts.h"
#include "client/core/request_id.h"
#include "client/core/retry.h"
#include "common/base/backoff.h"
#include "common/base/clock.h"
#include "common/base/mem.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void init_locks(struct client *c)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&c->changed, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&c->lock, NULL);
}

struct err client_new(struct client **out, const struct client_config *cfg)
{
    struct client *c = mem_alloc(sizeof *c);
    struct err e = leader_view_init(&c->view, cfg->addresses);
    c->owns_guard = !cfg->guard;
    c->guard = cfg->guard;
    if (!err_is(&e) && c->owns_guard)
        e = guard_open(&c->guard, NULL);
    if (err_is(&e)) {
        free(c);
        return e;
    }
    init_locks(c);
    c->attempts_max = cfg->attempts_max;
    discovery_init(&c->discovery);
    rng_seed_os(&c->rng);
    *out = c;
    return OK_ERR;
}

void client_free(struct client *c)
{
    if (!c)
        return;
    pthread_mutex_lock(&c->lock);
    while (c->listing)
        pthread_cond_wait(&c->changed, &c->lock);
    pthread_mutex_unlock(&c->lock);
    client_channels_free(c);
    if (c->owns_guard)
        guard_close(c->guard);
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->changed);
    free(c);
}

void client_saw_revision(struct client *c, int64_t revision)
{
    pthread_mutex_lock(&c->lock);
    if (revision > c->view.revision)
        c->view.revision = revision;
    pthread_mutex_unlock(&c->lock);
}

struct err client_admit(struct client *c, const char *cluster, uint64_t epoch)
{
    return guard_admit(c->guard, cluster, epoch);
}

size_t client_seed_count(const struct client *c)
{
    return c->view.count;
}

const char *client_seed(const struct client *c, size_t i)
{
    return c->view.seeds[i];
}

static struct err call_once(struct client *c, const char *addr, const char *path, struct bytes body,
                            const struct rpc_metadata *metadata, size_t n, int64_t deadline_ms,
                            struct rpc_answer *out)
{
    struct client_channel *ch = client_channel_hold(c, addr);
    struct err e = rpc_channel_call(ch->rpc, path, body, metadata, n, deadline_ms, out);
    client_channel_release(c, ch);
    return e;
}

struct err client_call_at(struct client *c, const char *addr, const char *path, struct bytes body,
                          int64_t deadline_ms, struct rpc_answer *out)
{
    return call_once(c, addr, path, body, NULL, 0, deadline_ms, out);
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

size_t client_epoch_of(struct client *c, char digits[CLIENT_EPOCH_DIGITS], struct rpc_metadata *out)
{
    uint64_t epoch = guard_seen(c->guard).epoch;
    snprintf(digits, CLIENT_EPOCH_DIGITS, "%" PRIu64, epoch);
    *out = (struct rpc_metadata){"baton-epoch", bytes_str(digits)};
    return epoch > 0;
}

/* One call with all its attempts. */
struct effort {
    const struct client_request *req;
    char id[REQUEST_ID_MAX + 1]; /* empty: not made yet */
    int attempts;
    bool unsure;   /* an attempt may have taken effect */
    bool searched; /* the last one found nobody to send it to: the search has a pace of its own */
    struct backoff backoff;
    int64_t deadline_ms;
};

/* Made at the last moment before the first sending, when a revision has been seen; never changed
 * after. */
static size_t id_of(struct client *c, struct effort *f, struct rpc_metadata *out)
{
    if (!f->req->keeps_ids)
        return 0;
    if (!f->id[0] && f->req->request_id)
        snprintf(f->id, sizeof f->id, "%s", f->req->request_id);
    pthread_mutex_lock(&c->lock);
    if (!f->id[0])
        request_id_make(&c->rng, c->view.revision, f->id);
    pthread_mutex_unlock(&c->lock);
    *out = (struct rpc_metadata){"baton-request-id", bytes_str(f->id)};
    return 1;
}

static bool is_for_leader(const struct client_request *req)
{
    return !req->any_member && !req->as_addressed;
}

/* Whom to send it to. An error means that there is nobody. */
static struct err choose(struct client *c, struct effort *f, char addr[LEADER_ADDR_MAX])
{
    if (f->req->as_addressed) {
        pthread_mutex_lock(&c->lock);
        memcpy(addr, leader_view_seed(&c->view), LEADER_ADDR_MAX);
        pthread_mutex_unlock(&c->lock);
        return OK_ERR;
    }
    struct err e = client_find_leader(c, f->deadline_ms, addr);
    return f->req->any_member && addr[0] ? OK_ERR : e;
}

/* Is it from a leader that is one no more? Of a mutation that has neither an id nor a second chance
 * the answer stands: it is about what was done. */
static bool is_too_late(const struct effort *f, const struct err *verdict, const struct err *e)
{
    bool again = f->req->idempotent || f->req->keeps_ids;
    return err_is(verdict) && is_for_leader(f->req) && again && !retry_may_pass(e->code);
}

static struct err attempt(struct client *c, struct effort *f, struct rpc_answer *out)
{
    char addr[LEADER_ADDR_MAX], digits[CLIENT_EPOCH_DIGITS];
    struct rpc_metadata metadata[2];
    struct err e = choose(c, f, addr);
    f->searched = err_is(&e);
    if (f->searched) {
        rpc_answer_close(out);
        out->not_executed = true;
        return e;
    }
    size_t n = id_of(c, f, metadata);
    n += client_epoch_of(c, digits, metadata + n);
    e = call_once(c, addr, f->req->path, f->req->body, metadata, n, f->deadline_ms, out);
    struct err verdict = client_learn(c, addr, is_for_leader(f->req), &e, out);
    if (is_too_late(f, &verdict, &e)) {
        client_forget(c, addr);
        out->not_executed = false;
        return err_wrap(verdict, "%s", addr);
    }
    if (!err_is(&e) && is_for_leader(f->req))
        client_list_members(c, addr);
    return e;
}

/* false: the next attempt would begin too late. A leader that was just named is asked at once. */
static bool wait_before_next(struct client *c, struct effort *f, const struct rpc_answer *last)
{
    if (f->searched)
        return clock_boot_ms() < f->deadline_ms;
    pthread_mutex_lock(&c->lock);
    int64_t wait_ms =
        last->leader[0] && f->attempts == 1 ? 0 : backoff_next_ms(&f->backoff, &c->rng);
    pthread_mutex_unlock(&c->lock);
    if (last->pushback_ms > wait_ms)
        wait_ms = last->pushback_ms;
    return clock_pause(wait_ms, f->deadline_ms);
}

static bool goes_on(struct client *c, const struct effort *f, const struct err *e,
                    const struct rpc_answer *a)
{
    struct retry_call call = {.idempotent = f->req->idempotent,
                              .has_request_id = f->req->keeps_ids,
                              .attempts_max = c->attempts_max};
    struct retry_outcome last = {
        .code = e->code, .not_executed = a->not_executed, .attempts = f->attempts};
    return retry_decide(&call, &last) == RETRY_AGAIN;
}

struct err client_call(struct client *c, const struct client_request *req, int64_t deadline_ms,
                       struct rpc_answer *out)
{
    struct effort f = {
        .req = req, .backoff = {.min_ms = 20, .max_ms = 1000}, .deadline_ms = deadline_ms};
    struct err before = OK_ERR;
    for (;;) {
        struct err e = attempt(c, &f, out);
        /* a search that was cut short tells less than what ended the attempt before */
        if (f.searched && err_is(&before) && clock_boot_ms() >= deadline_ms)
            e = before;
        before = e;
        f.attempts++;
        f.unsure = f.unsure || !out->not_executed;
        if (!goes_on(c, &f, &e, out) || !wait_before_next(c, &f, out)) {
            out->not_executed = !f.unsure;
            return e;
        }
    }
}
