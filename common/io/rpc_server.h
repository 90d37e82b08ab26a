/* A gRPC server: methods are rows of a table, calls are opaque, no gRPC type is seen.
 *
 * A handler runs on one of the server's threads and must not block. It is given the whole request
 * (but for RPC_BIDI_STREAM: there it runs before any request has come, and asks for them one by
 * one); after it exactly one of rpc_reply and rpc_fail (unary) or rpc_stream_end (stream) must
 * follow, once, from any thread; it may be called from within the handler. Until then the call is
 * valid, after that it is not. */
#pragma once
#include "common/io/rpc_types.h"

struct rpc_server;
struct rpc_call;

enum rpc_kind { RPC_UNARY, RPC_SERVER_STREAM, RPC_BIDI_STREAM };

struct rpc_method {
    const char *path; /* "/baton.v1.KvService/Get" */
    enum rpc_kind kind;
    void (*handle)(struct rpc_call *call, void *ctx);
    void *ctx;
};

/* Zeros mean the defaults. The table and its strings are borrowed until rpc_server_free. */
struct rpc_server_config {
    const char *listen; /* host:port; port 0: any free one */
    const struct rpc_method *methods;
    size_t method_count;
    int threads; /* each with its own queue; 0: 2 */
    /* Of a request; larger: TOO_LARGE, or, past four times as many, RESOURCE_EXHAUSTED without a
     * reason; 0: 4 MiB. Who reads a stream of requests sees those in between, too. */
    size_t max_message_bytes;
    size_t max_stream_bytes; /* queued on one stream; past it rpc_stream_send refuses; 0: 4 MiB */
    /* Once for each call, when it is answered, for counting; method is its row of the table, NULL
     * for a path that no row has; spent_us is since it came. */
    void (*answered)(const struct rpc_method *method, int status, int64_t spent_us);
    int max_streams; /* HTTP/2 streams open on one connection; 0: 10000 */
};

/* Listens and serves before it returns. IN_USE names the address that is taken. */
struct err rpc_server_start(struct rpc_server **out, const struct rpc_server_config *cfg);
int rpc_server_port(const struct rpc_server *s);
/* What is under way now; any thread. */
struct rpc_server_load {
    int64_t calls, streams;
};
void rpc_server_load(const struct rpc_server *s, struct rpc_server_load *out);
/* From now on new calls are refused with DRAINING; waits until the unary calls in flight are
 * answered, ends the streams with DRAINING, and closes the connections; all within timeout_ms,
 * after which what is left is cancelled. Not from a handler. */
void rpc_server_drain(struct rpc_server *s, int64_t timeout_ms);
/* Drains without patience if that was not done, and waits until the owner has answered every call.
 */
void rpc_server_free(struct rpc_server *s);

/* --- what a call says; valid until it is answered, any thread --- */
struct bytes rpc_call_body(const struct rpc_call *call);
const char *rpc_call_path(const struct rpc_call *call);
bool rpc_call_is_stream(const struct rpc_call *call); /* its method is one */
struct bytes rpc_call_metadata(const struct rpc_call *call,
                               const char *key); /* first value; data NULL: none */
int64_t rpc_call_deadline_ms(
    const struct rpc_call *call); /* on the scale of clock_boot_ms; INT64_MAX: none */
const char *rpc_call_peer(struct rpc_call *call); /* "ipv4:127.0.0.1:4711"; one thread at a time */
/* A pointer of the owner's. */
void *rpc_call_user(const struct rpc_call *call);
void rpc_call_set_user(struct rpc_call *call, void *user);

/* Of a unary call that is not answered at once: `gone` is called at most once, on a server thread,
 * when nobody waits for the answer any more (cancelled, out of time, the connection lost); an
 * answer is still due. It may come while the call is being answered, so only `id` says which one it
 * is. Once for each call. */
void rpc_call_on_gone(struct rpc_call *call, void (*gone)(void *ctx, uint64_t id), void *ctx,
                      uint64_t id);
/* Set before `gone` is called. */
bool rpc_call_is_gone(const struct rpc_call *call);

/* --- answers; they copy what they are given --- */
/* Initial metadata, message and status OK in one batch. */
void rpc_reply(struct rpc_call *call, struct bytes message, const struct rpc_metadata *initial,
               size_t n);
/* The status of e and the trailers of docs/api.md as one Trailers-Only answer. hints may be NULL.
 */
void rpc_fail(struct rpc_call *call, const struct err *e, const struct rpc_hints *hints);

/* --- streams --- */
/* GONE: the reader went away, or the server drains: nothing sent from now on arrives; comes at most
 * once; rpc_stream_end is still due. WRITABLE: everything that was sent is with the transport:
 * comes after each time the queue ran empty. REQUEST: rpc_call_body is the request that was asked
 * for, for as long as the event lasts. NO_MORE: instead of it, the client has sent its last one (or
 * is about to be GONE). On a server thread, never two at a time for one call; must not block. */
enum rpc_stream_event {
    RPC_STREAM_GONE,
    RPC_STREAM_WRITABLE,
    RPC_STREAM_REQUEST,
    RPC_STREAM_NO_MORE,
};
typedef void rpc_stream_fn(struct rpc_call *call, enum rpc_stream_event event, void *user);
/* Once, from the handler, before anything else that is said on the stream. GONE may come at once.
 * Metadata as of rpc_reply goes out immediately, so that the reader knows it is being served.
 * on_event may be NULL. */
void rpc_stream_begin(struct rpc_call *call, rpc_stream_fn *on_event, void *user,
                      const struct rpc_metadata *initial, size_t n);
/* RPC_BIDI_STREAM: asks for the next request (rpc_stream_begin asked for the first), which is told
 * once, as REQUEST or NO_MORE; to be called in that event or after it. What was not asked for stays
 * with the client, by HTTP/2's flow control. */
void rpc_stream_receive(struct rpc_call *call);
/* Queues one message. false: the queue holds max_stream_bytes, or the reader is gone; nothing was
 * queued. */
bool rpc_stream_send(struct rpc_call *call, struct bytes message);
/* A message for many streams, whose bytes are held once however many they are: sent as often as
 * one likes, on any thread, and dropped by its maker, who need not wait until it is written. */
struct rpc_shared;
struct rpc_shared *rpc_shared_new(struct bytes message); /* copies */
void rpc_shared_drop(struct rpc_shared *message);        /* NULL is allowed */
struct bytes rpc_shared_bytes(const struct rpc_shared *message);
bool rpc_stream_send_shared(struct rpc_call *call, struct rpc_shared *message);
/* Bytes queued or being written. */
size_t rpc_stream_queued_bytes(struct rpc_call *call);
/* Messages queued or being written. 0: what is sent now goes out at once, so a sender of states
 * that waits for 0 (or for WRITABLE) always sends the newest. */
size_t rpc_stream_pending(const struct rpc_call *call);
/* After what is queued: status OK (e NULL or OK) or that of e with its trailers. Without
 * rpc_stream_begin before it, Trailers-Only, and an error then ends a unary call as well. When it
 * returns no event runs or will run, unless it was called from one; do not hold a lock that
 * on_event takes. */
void rpc_stream_end(struct rpc_call *call, const struct err *e, const struct rpc_hints *hints);
