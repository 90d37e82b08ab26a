#include "client/client_stream.h"
#include "client/client_parts.h"
#include "common/base/mem.h"
#include <stdlib.h>

struct client_stream {
    struct client *client;
    struct client_channel *channel;
    struct rpc_reader *reader;
};

struct err client_stream_open(struct client *c, const char *path, struct bytes body,
                              int64_t deadline_ms, struct client_stream **out)
{
    char addr[LEADER_ADDR_MAX], digits[CLIENT_EPOCH_DIGITS];
    struct rpc_metadata epoch;
    struct err e = client_find_leader(c, deadline_ms, addr);
    if (err_is(&e))
        return e;
    struct client_stream *s = mem_alloc(sizeof *s);
    size_t n = client_epoch_of(c, digits, &epoch);
    s->client = c;
    s->channel = client_channel_hold(c, addr);
    s->reader = rpc_reader_open(s->channel->rpc, path, body, &epoch, n, INT64_MAX);
    *out = s;
    return OK_ERR;
}

enum rpc_next client_stream_next(struct client_stream *s, int64_t deadline_ms, struct buf *out,
                                 struct err *e)
{
    enum rpc_next next = rpc_reader_next(s->reader, deadline_ms, out, e);
    if (next == RPC_NEXT_END && err_is(e))
        client_learn(s->client, client_stream_addr(s), true, e, client_stream_answer(s));
    return next;
}

const struct rpc_answer *client_stream_answer(const struct client_stream *s)
{
    return rpc_reader_answer(s->reader);
}

const char *client_stream_addr(const struct client_stream *s)
{
    return rpc_channel_addr(s->channel->rpc);
}

void client_stream_distrust(struct client_stream *s)
{
    client_forget(s->client, client_stream_addr(s));
}

void client_stream_cancel(struct client_stream *s)
{
    rpc_reader_cancel(s->reader);
}

void client_stream_free(struct client_stream *s)
{
    if (!s)
        return;
    rpc_reader_free(s->reader);
    client_channel_release(s->client, s->channel);
    free(s);
}
