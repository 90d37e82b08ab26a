/* Calls of a load program by nghttp2 on one thread, so that ten thousand streams cost the load less
 * than what it measures; gRPC's own client would be the slower side. Failures end the program. */
#pragma once
#include "common/base/buf.h"
#include "common/base/options.h"

struct h2_load_conn;

/* One call, unary or streaming; belongs to the caller and stays where it is until `ended`. */
struct h2_load_call {
    void (*answered)(struct h2_load_call *call, struct bytes message);
    void (*ended)(struct h2_load_call *call); /* once; status and told say how */
    int status;                               /* of the gRPC protocol; -1: none came */
    char told[200];                           /* its message */
    struct h2_load_conn *conn;                /* what follows is this module's */
    int32_t stream;
    struct buf out, in;
    bool more; /* further requests may follow */
};

/* Connects at once. The address is host:port, the host a number. */
struct h2_load_conn *h2_load_open(const char *addr);
void h2_load_close(struct h2_load_conn *conn);

/* Queues a call with its first request; with `more` it stays open for h2_load_send. */
void h2_load_start(struct h2_load_conn *conn, struct h2_load_call *call, const char *path,
                   struct bytes request, bool more);
void h2_load_send(struct h2_load_call *call, struct bytes request);

/* Sends what is queued, waits at most timeout_ms for something to come, and calls back for it. */
void h2_load_run(struct h2_load_conn **conns, size_t count, int timeout_ms);

/* Messages of protobuf, field by field. */
void h2_load_number(struct buf *b, int field, uint64_t value);
void h2_load_field(struct buf *b, int field, struct bytes data);

/* Sets the options' targets; --help and what is no option end the program. */
void h2_load_options(const struct option_set *set, int argc, char **argv);

_Noreturn void h2_load_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
