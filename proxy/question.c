#include "proxy/question.h"
#include "baton/v1/member.pb-c.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "proxy/worker.h"
#include <stdlib.h>

#define MESSAGE_MAX (1u << 20)
#define PREFIX 5 /* of a message: compressed or not, length */

struct question_kind {
    const char *path;
    bool (*on_message)(struct question *q, struct bytes message); /* false: makes no sense */
};

static bool on_state(struct question *q, struct bytes message)
{
    Baton__V1__LeaderState *m = baton__v1__leader_state__unpack(NULL, message.len, message.data);
    if (!m)
        return false;
    const struct leader_report told = {
        .member_id = m->member_id,
        .cluster_id = m->cluster_id,
        .known = m->known,
        .leader_id = m->id,
        .addr = m->addr,
        .epoch = m->epoch,
    };
    follow_on_state(q->target->follow, q->target, &told, m->revision);
    baton__v1__leader_state__free_unpacked(m, NULL);
    return true;
}

static bool on_members(struct question *q, struct bytes message)
{
    Baton__V1__ListMembersResponse *m =
        baton__v1__list_members_response__unpack(NULL, message.len, message.data);
    if (!m)
        return false;
    const char **addrs = mem_array(m->n_members, sizeof *addrs);
    size_t n = 0;
    for (size_t i = 0; i < m->n_members; i++)
        if (m->members[i]->addr[0])
            addrs[n++] = m->members[i]->addr;
    follow_on_members(q->target->follow, m->cluster_id, addrs, n);
    free(addrs);
    baton__v1__list_members_response__free_unpacked(m, NULL);
    return true;
}

static const struct question_kind watch_kind = {"/baton.v1.ClusterMemberService/WatchLeader",
                                                on_state};
static const struct question_kind list_kind = {"/baton.v1.ClusterMemberService/ListMembers",
                                               on_members};

static void give_up(struct question *q, const char *why)
{
    static struct log_limit limit;
    log_limited(&limit, LOG_WARN, "%s: %s: %s", q->target->name, q->kind->path, why);
    up_stream_drop(&q->up, H2_CANCEL);
    q->ended_ms = worker_now_ms(q->target->follow->worker);
}

static void on_headers(struct up_stream *up, bool trailers, bool end)
{
    struct question *q = (struct question *)up;
    const struct header *status =
        header_list_find(trailers ? &up->trailers : &up->headers, HEADER_GRPC_STATUS);
    if (status && !bytes_equal(status->value, bytes_str("0")))
        log_debug("%s: %s: status %.*s", q->target->name, q->kind->path, (int)status->value.len,
                  (const char *)status->value.data);
}

static size_t message_length(const uint8_t *prefix)
{
    return (size_t)prefix[1] << 24 | (size_t)prefix[2] << 16 | (size_t)prefix[3] << 8 | prefix[4];
}

static void on_data(struct up_stream *up, struct bytes data)
{
    struct question *q = (struct question *)up;
    up_stream_credit(up, data.len);
    buf_bytes(&q->in, data);
    while (q->in.len >= PREFIX && question_is_open(q)) {
        size_t len = message_length(q->in.data);
        if (q->in.data[0] != 0 || len > MESSAGE_MAX) {
            give_up(q, "a message that is compressed or too large");
            return;
        }
        if (q->in.len < PREFIX + len)
            return;
        q->heard++;
        q->last_ms = worker_now_ms(q->target->follow->worker);
        if (!q->kind->on_message(q, bytes_of(q->in.data + PREFIX, len))) {
            give_up(q, "a message that cannot be read");
            return;
        }
        buf_consume(&q->in, PREFIX + len);
    }
}

static void on_end(struct up_stream *up)
{
}

static void on_over(struct up_stream *up, enum up_end how, uint32_t code)
{
    struct question *q = (struct question *)up;
    q->ended_ms = worker_now_ms(q->target->follow->worker);
    buf_clear(&q->in);
}

/* Every question is one empty message. */
static struct bytes body(struct up_stream *up, bool *ended)
{
    static const uint8_t empty[PREFIX];
    const struct question *q = (const struct question *)up;
    *ended = true;
    return bytes_of(empty + q->sent, PREFIX - q->sent);
}

static void on_body_sent(struct up_stream *up, size_t bytes)
{
    ((struct question *)up)->sent += bytes;
}

static const struct up_stream_ops question_ops = {
    .on_headers = on_headers,
    .on_data = on_data,
    .on_end = on_end,
    .on_over = on_over,
    .body = body,
    .on_body_sent = on_body_sent,
};

static void init(struct question *q, struct target *t, const struct question_kind *kind)
{
    *q = (struct question){.target = t, .kind = kind, .up.ops = &question_ops};
}

void question_init_watch(struct question *q, struct target *t)
{
    init(q, t, &watch_kind);
}

void question_init_list(struct question *q, struct target *t)
{
    init(q, t, &list_kind);
}

void question_ask(struct question *q, struct uplink *l)
{
    const struct header headers[] = {
        header_of(":method", bytes_str("POST")),
        header_of(":scheme", bytes_str("http")),
        header_of(":authority", bytes_str(q->target->name)),
        header_of(":path", bytes_str(q->kind->path)),
        header_of("te", bytes_str("trailers")),
        header_of("content-type", bytes_str("application/grpc")),
        header_of("user-agent", bytes_str("baton-proxy/" BATON_VERSION)),
    };
    q->sent = 0;
    q->heard = 0;
    buf_clear(&q->in);
    header_list_clear(&q->up.headers);
    header_list_clear(&q->up.trailers);
    if (!uplink_send(l, &q->up, headers, sizeof headers / sizeof headers[0]))
        q->ended_ms = worker_now_ms(q->target->follow->worker);
}

void question_close(struct question *q)
{
    buf_close(&q->in);
    header_list_close(&q->up.headers);
    header_list_close(&q->up.trailers);
}
