#include "client/calls.h"
#include "common/base/backoff.h"
#include "common/base/clock.h"
#include "client/core/retry.h"

static int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* One round over all addresses. false: none answered, *e says why the last did not. */
static bool ask_all(struct client *c, int64_t deadline_ms, struct member_leader *out, struct err *e)
{
    bool answered = false;
    *out = (struct member_leader){0};
    for (size_t i = 0; i < client_seed_count(c) && !out->known; i++) {
        int64_t until =
            client_seed_count(c) > 1 ? sooner(deadline_ms, clock_boot_ms() + 1000) : deadline_ms;
        struct member_leader said;
        *e = client_ask(c, client_seed(c, i), until, &said);
        if (err_is(e))
            continue;
        answered = true;
        *out = said;
    }
    return answered;
}

struct err client_leader(struct client *c, int64_t deadline_ms, struct member_leader *out)
{
    struct err e = OK_ERR;
    struct rng rng;
    struct backoff backoff = {.min_ms = 20, .max_ms = 1000};
    rng_seed_os(&rng);
    while (!ask_all(c, deadline_ms, out, &e)) {
        int64_t wait_ms = backoff_next_ms(&backoff, &rng);
        bool passes = retry_may_pass(e.code) || e.code == ERR_TIMEOUT;
        if (!passes || !clock_pause(wait_ms, deadline_ms))
            return e;
    }
    return OK_ERR;
}

struct err client_members(struct client *c, int64_t deadline_ms, struct arena *memory,
                          struct member_list *out)
{
    struct rpc_answer a = {0};
    struct client_request req = {.path = MEMBER_LIST, .idempotent = true, .any_member = true};
    struct err e = client_call(c, &req, deadline_ms, &a);
    if (!err_is(&e))
        e = member_decode_list(buf_view(&a.message), memory, out);
    rpc_answer_close(&a);
    return e;
}

struct err client_history(struct client *c, uint32_t limit, int64_t deadline_ms,
                          struct arena *memory, struct member_history *out)
{
    struct buf body = {0};
    struct rpc_answer a = {0};
    member_encode_history(limit, &body);
    struct client_request req = {
        .path = MEMBER_HISTORY, .body = buf_view(&body), .idempotent = true, .any_member = true};
    struct err e = client_call(c, &req, deadline_ms, &a);
    if (!err_is(&e))
        e = member_decode_history(buf_view(&a.message), memory, out);
    rpc_answer_close(&a);
    buf_close(&body);
    return e;
}

struct err client_transfer(struct client *c, const char *target, int64_t deadline_ms,
                           struct arena *memory, struct member_transfer *out)
{
    struct buf body = {0};
    struct rpc_answer a = {0};
    member_encode_transfer(target, &body);
    struct client_request req = {.path = MEMBER_TRANSFER, .body = buf_view(&body)};
    struct err e = client_call(c, &req, deadline_ms, &a);
    if (!err_is(&e))
        e = member_decode_transfer(buf_view(&a.message), memory, out);
    rpc_answer_close(&a);
    buf_close(&body);
    return e;
}

struct err client_remove_member(struct client *c, const char *id, int64_t deadline_ms,
                                struct arena *memory, struct member_info *out)
{
    struct buf body = {0};
    struct rpc_answer a = {0};
    member_encode_remove(id, &body);
    struct client_request req = {.path = MEMBER_REMOVE, .body = buf_view(&body)};
    struct err e = client_call(c, &req, deadline_ms, &a);
    if (!err_is(&e))
        e = member_decode_removed(buf_view(&a.message), memory, out);
    rpc_answer_close(&a);
    buf_close(&body);
    return e;
}

struct err client_restore(struct client *c, const char *addr, int64_t deadline_ms,
                          struct member_restore *out)
{
    struct rpc_answer a = {0};
    struct err e = client_call_at(c, addr, MEMBER_GET_RESTORE, BYTES_NONE, deadline_ms, &a);
    if (!err_is(&e))
        e = member_decode_restore(buf_view(&a.message), out);
    rpc_answer_close(&a);
    return e;
}

struct err client_recover(struct client *c, const char *addr, uint64_t epoch_above,
                          uint64_t incarnation_above, int64_t deadline_ms,
                          struct member_recovered *out)
{
    struct buf body = {0};
    struct rpc_answer a = {0};
    member_encode_recover(epoch_above, incarnation_above, &body);
    struct err e = client_call_at(c, addr, MEMBER_RECOVER, buf_view(&body), deadline_ms, &a);
    if (!err_is(&e))
        e = member_decode_recovered(buf_view(&a.message), out);
    rpc_answer_close(&a);
    buf_close(&body);
    return e;
}

struct err client_export(struct client *c, int64_t deadline_ms, struct client_stream **out)
{
    return client_stream_open(c, MAINTENANCE_PATH_EXPORT, BYTES_NONE, deadline_ms, out);
}

struct err client_raise_epoch(struct client *c, uint64_t above, int64_t deadline_ms,
                              struct maintenance_raised *out)
{
    struct rpc_answer a = {0};
    struct buf body = {0};
    maintenance_encode_raise(above, &body);
    struct client_request req = {
        .path = MAINTENANCE_PATH_RAISE, .body = buf_view(&body), .idempotent = true};
    struct err e = client_call(c, &req, deadline_ms, &a);
    if (!err_is(&e))
        e = maintenance_decode_raised(buf_view(&a.message), out);
    rpc_answer_close(&a);
    buf_close(&body);
    return e;
}
