#include "client/calls.h"

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
