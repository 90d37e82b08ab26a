/* The etcd client: one thread drives all calls and watches over the JSON gateway. Any thread may
 * call it; answers come on the client's thread. A callback may block, but then everything else of
 * this client waits too (timeouts go on): things that must not wait for each other get a client
 * each. */
#pragma once
#include "common/io/etcd_codec.h"

struct etcd_client;

struct etcd_login;

/* How txns and watches go to etcd; everything else goes to its JSON gateway. AUTO: by gRPC, and as
 * JSON where an endpoint does not speak gRPC. */
enum etcd_transport { ETCD_JSON, ETCD_AUTO, ETCD_GRPC };

/* How to get at an etcd, one for all clients of a process. Everything is borrowed for as long as
 * the clients live. */
struct etcd_access {
    const char *endpoints; /* comma-separated: host:port, http://host:port, https://host:port */
    const char *ca_file, *cert_file,
        *key_file;            /* for https; NULL: the system's CAs, no certificate */
    struct etcd_login *login; /* see etcd_login.h; NULL: without a user */
    enum etcd_transport transport;
};

struct etcd_config {
    struct etcd_access access;
    const char *name;       /* of the thread, at most 15 characters */
    int connect_timeout_ms; /* 0: 1000 */
};

#define ETCD_MAX_ENDPOINTS 32
#define ETCD_MAX_ANSWER_BYTES (64u << 20) /* of one answer, and of one line of a watch */

/* USAGE names the endpoint that makes no sense. Connects nowhere yet. */
struct err etcd_client_new(struct etcd_client **out, const struct etcd_config *cfg);
/* Answers every pending call and ends every stream with CANCELLED, joins the thread, then returns.
 * Frees the streams too. Not from a callback. NULL is allowed. */
void etcd_client_free(struct etcd_client *c);

int etcd_endpoint_count(const struct etcd_client *c);
const char *etcd_endpoint_url(const struct etcd_client *c, int endpoint); /* lives as long as c */

#define ETCD_ANY (-1) /* the endpoint that worked last; the next one after a failure */

/* err: UNREACHABLE nothing was sent; LOST it may or may not have taken effect; PROTOCOL likewise
 * (also when the cluster id is not the one first seen); CANCELLED likewise; others as
 * etcd_decode_error. */
struct etcd_reply {
    struct err err;
    int grpc_code;        /* of an error that etcd answered; else 0 */
    int attempt_endpoint; /* which one was asked */
    struct etcd_header header;
    struct bytes body;
    int64_t sent_ms; /* clock_boot_ms at etcd_call, so before anything was sent */
    int64_t received_ms;
};

/* Exactly once for each call, on the client's thread. The reply is borrowed for the call. */
typedef void etcd_done(void *arg, struct etcd_reply *reply);

/* One attempt: POSTs a copy of body to path (a string that lives as long as the call: a constant);
 * an empty body makes it a GET, whose answer is not looked into.
 * The client never sends again what may have taken effect; only a request that etcd has refused for
 * want of a valid token goes out once more with a new one. timeout_ms > 0 counts from here to the
 * whole answer. */
void etcd_call(struct etcd_client *c, const char *path, struct bytes body, int endpoint,
               int timeout_ms, etcd_done *done, void *arg);
/* The same, blocking; not from a callback. *out (its err is the result) is the caller's to close.
 */
struct err etcd_call_wait(struct etcd_client *c, const char *path, struct bytes body, int endpoint,
                          int timeout_ms, struct etcd_reply *out);
void etcd_reply_close(struct etcd_reply *r);
/* What became of a txn: the error of the call, or of reading its answer. *out is the caller's to
 * close, whatever comes back. */
struct err etcd_reply_txn(const struct etcd_reply *r, struct etcd_txn_result *out);

struct etcd_stream;

/* On the client's thread. The line is borrowed; to keep it, copy the struct and zero the original.
 * A canceled watch is such a line, with its err, and the stream goes on; what ends the whole stream
 * goes to on_end alone. */
typedef void etcd_on_line(void *arg, struct etcd_watch_line *line);
/* Exactly once and last, on the client's thread; never OK. CANCELLED: by close or free. */
typedef void etcd_on_end(void *arg, struct err why);

/* Opens a stream with the watches of body (etcd_encode_watches, copied). A stream whose member
 * loses sight of its leader is ended by etcd after a few election timeouts; other silence is the
 * caller's to notice. */
struct etcd_stream *etcd_watch_open(struct etcd_client *c, struct bytes body, int endpoint,
                                    etcd_on_line *on_line, etcd_on_end *on_end, void *arg);
/* To be called once for each stream, before or after its on_end; the handle is gone then. Does not
 * wait: on_end follows if it was not called yet. Callbacks may call it. */
void etcd_watch_close(struct etcd_stream *s);
/* clock_boot_ms of the last bytes; of etcd_watch_open at first. */
int64_t etcd_watch_last_received_ms(const struct etcd_stream *s);
int etcd_watch_endpoint(
    const struct etcd_stream *s); /* which one it is on; -1 before it was chosen */

/* Blocking, within timeout_ms: the largest power of two (at most 1024) that etcd takes as number of
 * operations in one txn. Asks with reads of key (one that the user may read) under a compare that
 * can never hold, so nothing is written whatever happens. */
struct err etcd_learn_max_txn_ops(struct etcd_client *c, int endpoint, struct bytes key,
                                  int timeout_ms, int *out);
/* Blocking: the quota of etcd's database in bytes; 0: it does not tell, or has none. */
struct err etcd_learn_quota(struct etcd_client *c, int endpoint, int timeout_ms, int64_t *out);
