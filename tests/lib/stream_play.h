/* A member that is played in the process of a test, for clients that follow streams: each stream
 * tells lines of a script until one ends it; the last stream stays open. What the streams ask for,
 * and what the user is told, is kept as words. */
#pragma once
#include "client/baton_parts.h"
#include "client/convert_member.h"
#include "tests/lib/rpc_fixture.h"
#include <baton/v1/member.pb-c.h>

struct stream_play {
    /* Sends line i; ends: with this error instead. */
    enum err_code (*line)(struct rpc_call *call, size_t i);
    void (*note)(struct bytes request, struct buf *asked);
    pthread_mutex_t stage; /* for what follows */
    pthread_cond_t changed;
    size_t lines, at;
    struct buf asked, heard;
    struct rpc_call *open_call;
    struct fixture member;
    struct baton_client *client;
};

static struct stream_play play = {.stage = PTHREAD_MUTEX_INITIALIZER,
                                  .changed = PTHREAD_COND_INITIALIZER};

static inline void play_leader(struct rpc_call *call, void *ctx)
{
    uint8_t bytes[256];
    Baton__V1__LeaderState m = BATON__V1__LEADER_STATE__INIT;
    m.member_id = m.id = (char *)"one";
    m.cluster_id = (char *)"c";
    m.epoch = 5;
    m.known = true;
    m.addr = play.member.addr;
    rpc_reply(call, bytes_of(bytes, protobuf_c_message_pack(&m.base, bytes)), NULL, 0);
}

static inline void play_send(struct rpc_call *call, const ProtobufCMessage *m)
{
    uint8_t bytes[1024];
    assert_true(protobuf_c_message_get_packed_size(m) <= sizeof bytes);
    assert_true(rpc_stream_send(call, bytes_of(bytes, protobuf_c_message_pack(m, bytes))));
}

/* A token of one digit. */
static inline ProtobufCBinaryData play_token(int64_t revision)
{
    return (ProtobufCBinaryData){1, (uint8_t *)&"0123456789"[revision % 10]};
}

/* One that stays open does so until the next one comes. */
static inline void play_stream(struct rpc_call *call, void *ctx)
{
    struct rpc_call *over = call;
    enum err_code code = ERR_OK;
    rpc_stream_begin(call, NULL, NULL, NULL, 0);
    pthread_mutex_lock(&play.stage);
    play.note(rpc_call_body(call), &play.asked);
    while (play.at < play.lines && code == ERR_OK)
        code = play.line(call, play.at++);
    if (code == ERR_OK) {
        over = play.open_call;
        play.open_call = call;
    }
    pthread_mutex_unlock(&play.stage);
    struct err e = err_make(code, "as scripted");
    if (over)
        rpc_stream_end(over, &e, NULL);
}

/* What the user is told. */
static inline void hear(const char *format, int64_t number)
{
    pthread_mutex_lock(&play.stage);
    buf_printf(&play.heard, format, (long long)number);
    pthread_cond_broadcast(&play.changed);
    pthread_mutex_unlock(&play.stage);
}

static inline void on_progress(void *user, int64_t revision)
{
    hear("at%lld ", revision);
}

static inline void on_connection(void *user, const struct baton_error *err)
{
    hear(err ? "down " : "up ", 0);
}

static inline void on_failed(void *user, const struct baton_error *err)
{
    hear("failed ", 0);
}

/* Until the user was told as much as this. */
static inline void play_wait(const char *told)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 60;
    pthread_mutex_lock(&play.stage);
    while (play.heard.len < strlen(told) &&
           pthread_cond_timedwait(&play.changed, &play.stage, &until) == 0)
        ;
    pthread_mutex_unlock(&play.stage);
}

static inline void play_start(const char *path)
{
    static struct rpc_method methods[2];
    methods[0] = (struct rpc_method){MEMBER_GET_LEADER, RPC_UNARY, play_leader, NULL};
    methods[1] = (struct rpc_method){path, RPC_SERVER_STREAM, play_stream, NULL};
    struct err e = fixture_serve(&play.member, methods, 2);
    assert_string_equal(e.message, "");
    struct baton_options options = {.addresses = play.member.addr};
    assert_int_equal(baton_client_new(&play.client, &options, NULL), 0);
    play.at = 0;
}

static inline int play_end(void **state)
{
    baton_client_free(play.client);
    if (play.open_call)
        rpc_stream_end(play.open_call, NULL, NULL);
    play.open_call = NULL;
    rpc_server_free(play.member.server);
    buf_close(&play.asked);
    buf_close(&play.heard);
    return 0;
}
