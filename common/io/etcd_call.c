/* One question, one answer. */
#include "common/io/etcd_internal.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/io/etcd_observe.h"
#include "common/io/etcd_login_parts.h"
#include "common/io/etcd_pb.h"
#include <stdlib.h>

enum { REFUSED_TOKENS_MAX = 2 };

struct call {
    struct transfer t; /* first: a transfer of this kind is a call */
    struct buf answer;
    bool too_large;
    int64_t sent_ms, sent_us; /* clock_mono_us */
    etcd_done *done;
    void *arg;
};

static bool call_on_data(struct transfer *t, const uint8_t *data, size_t len)
{
    struct call *call = (struct call *)t;
    call->too_large = len > ETCD_MAX_ANSWER_BYTES - call->answer.len;
    if (call->too_large)
        return false;
    buf_append(&call->answer, data, len);
    struct bytes message;
    size_t whole;
    if (t->link) /* of a message of gRPC the length is known beforehand */
        etcd_frame_message(buf_view(&call->answer), &message, &whole);
    call->too_large = t->link && whole > ETCD_MAX_ANSWER_BYTES;
    return !call->too_large;
}

static struct err judge_grpc(const struct transfer *t, struct bytes body, int *grpc_code)
{
    struct bytes message;
    size_t whole;
    *grpc_code = t->grpc_status;
    struct err e = etcd_grpc_error(t->grpc_status, t->detail);
    bool is_whole =
        etcd_is_frame(body) && etcd_frame_message(body, &message, &whole) && whole == body.len;
    if (!err_is(&e) && !is_whole)
        e = err_make(ERR_PROTOCOL, "etcd's answer is no whole message of gRPC");
    return e;
}

static void judge(const struct call *call, int http_status, struct etcd_reply *reply)
{
    struct etcd_login *login = call->t.client->access.login;
    if (login && http_status)
        login_heard(login, call->t.token);
    else if (login && call->t.sends)
        login_not_heard(login, call->t.token);
    if (http_status == 0)
        return;
    if (call->t.request.len == 0) {
        if (http_status != 200)
            reply->err =
                err_make(ERR_PROTOCOL, "etcd answers %s with HTTP %d", call->t.path, http_status);
        return;
    }
    if (call->t.answered_in_grpc)
        reply->err = judge_grpc(&call->t, reply->body, &reply->grpc_code);
    else
        reply->err = etcd_decode_error(http_status, reply->body, &reply->grpc_code);
    if (err_is(&reply->err))
        return;
    reply->header = etcd_decode_header(reply->body);
    reply->err = client_check_cluster(call->t.client, &reply->header);
}

/* etcd has refused it only because of the token, so it is sent once more with a new one. */
static bool try_again(struct call *call, struct etcd_reply *reply)
{
    struct transfer *t = &call->t;
    struct etcd_login *login = t->client->access.login;
    if (!etcd_err_wants_token(reply->grpc_code, &reply->err))
        return false;
    if (!login) {
        reply->err = err_wrap(reply->err, "etcd asks for a user: give --etcd-user and "
                                          "--etcd-password-file");
        return false;
    }
    login_drop(login, t->token);
    if (++t->refused_tokens > REFUSED_TOKENS_MAX)
        return false;
    buf_clear(&call->answer);
    transfer_start(t);
    return true;
}

static void call_on_over(struct transfer *t, int http_status, struct err why)
{
    struct call *call = (struct call *)t;
    struct etcd_reply reply = {.err = why,
                               .attempt_endpoint = t->endpoint,
                               .body = buf_view(&call->answer),
                               .sent_ms = call->sent_ms,
                               .received_ms = clock_boot_ms()};
    if (call->too_large)
        reply.err = err_make(ERR_PROTOCOL, "etcd's answer is larger than %u MiB",
                             ETCD_MAX_ANSWER_BYTES >> 20);
    judge(call, http_status, &reply);
    if (try_again(call, &reply))
        return;
    client_note(t->client, t->endpoint, reply.err.code);
    if (t->endpoint >= 0)
        etcd_observed(t->client->name, t->path, t->client->endpoints.urls[t->endpoint],
                      reply.err.code, clock_mono_us() - call->sent_us);
    call->done(call->arg, &reply);
    transfer_close(t);
    buf_close(&call->answer);
    free(call);
}

static const char *const call_headers[] = {"Content-Type: application/json", "Expect:", NULL};
static const struct transfer_kind call_kind = {
    .headers = call_headers, .on_data = call_on_data, .on_over = call_on_over};

void etcd_call(struct etcd_client *c, const char *path, struct bytes body, int endpoint,
               int timeout_ms, etcd_done *done, void *arg)
{
    PRE(timeout_ms > 0);
    PRE(endpoint >= ETCD_ANY && endpoint < c->endpoints.count);
    struct call *call = mem_alloc(sizeof *call);
    call->sent_ms = clock_boot_ms();
    call->sent_us = clock_mono_us();
    call->done = done;
    call->arg = arg;
    call->t.kind = &call_kind;
    call->t.client = c;
    call->t.path = path;
    call->t.wanted = endpoint;
    call->t.endpoint = ETCD_ANY;
    call->t.until_ms = call->sent_ms + timeout_ms;
    buf_bytes(&call->t.request, body);
    client_command(c, COMMAND_CALL, &call->t);
}

struct waiter {
    struct etcd_reply *out;
    struct queue *answered;
};

static void on_awaited(void *arg, struct etcd_reply *reply)
{
    struct waiter *w = arg;
    *w->out = *reply;
    w->out->body = bytes_dup(reply->body);
    queue_push_always(w->answered, w->out);
}

struct err etcd_call_wait(struct etcd_client *c, const char *path, struct bytes body, int endpoint,
                          int timeout_ms, struct etcd_reply *out)
{
    PRE(!pthread_equal(pthread_self(), c->thread));
    struct waiter w = {.out = out, .answered = queue_new(1)};
    etcd_call(c, path, body, endpoint, timeout_ms, on_awaited, &w);
    queue_pop(w.answered, -1);
    queue_free(w.answered);
    return out->err;
}

void etcd_reply_close(struct etcd_reply *r)
{
    free((void *)r->body.data);
    *r = (struct etcd_reply){0};
}

struct err etcd_reply_txn(const struct etcd_reply *r, struct etcd_txn_result *out)
{
    *out = (struct etcd_txn_result){0};
    return err_is(&r->err) ? r->err : etcd_decode_txn(r->body, out);
}
