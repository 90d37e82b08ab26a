/* The one list of errors. common/base/rpc_status.c maps them to gRPC status codes and trailers. */
#pragma once
#include <stdbool.h>

/* name, stable word of the `baton-reason` trailer */
#define ERR_LIST(X)                                                                                \
    X(OK, "OK")                                                                                    \
    /* by the roles of the members */                                                              \
    X(NOT_LEADER, "NOT_LEADER")                                                                    \
    X(ACTIVATING, "ACTIVATING")                                                                    \
    X(NO_LEADER, "NO_LEADER")                                                                      \
    X(DRAINING, "DRAINING")                                                                        \
    X(NOT_READY, "NOT_READY")             /* the state is being loaded */                          \
    X(FENCED, "FENCED")                   /* deposed; certainly not executed */                    \
    X(OUTCOME_UNKNOWN, "OUTCOME_UNKNOWN") /* it may or may not have happened */                    \
    /* by limits */                                                                                \
    X(OVERLOADED, "OVERLOADED")                                                                    \
    X(NO_SPACE, "NO_SPACE")                                                                        \
    /* by the request */                                                                           \
    X(STALE_EPOCH, "STALE_EPOCH")                                                                  \
    X(BAD_EPOCH, "BAD_EPOCH")                                                                      \
    X(OTHER_CLUSTER, "OTHER_CLUSTER") /* epochs and tokens of another cluster do not compare */    \
    X(KEY_NOT_FOUND, "KEY_NOT_FOUND")                                                              \
    X(UNKNOWN_WORKER, "UNKNOWN_WORKER")                                                            \
    X(STALE_INCARNATION, "STALE_INCARNATION") /* another process took its address */               \
    X(BAD_WORKER, "BAD_WORKER")                                                                    \
    X(TOO_MANY_WORKERS, "TOO_MANY_WORKERS")                                                        \
    X(UNKNOWN_SERVICE, "UNKNOWN_SERVICE")                                                          \
    X(UNKNOWN_MEMBER, "UNKNOWN_MEMBER")                                                            \
    X(NO_TARGET, "NO_TARGET")         /* nobody, or not this member, can take over now */          \
    X(IN_TRANSFER, "IN_TRANSFER")     /* the leadership is being handed over already */            \
    X(RESTART_FIRST, "RESTART_FIRST") /* it knows of before a restore: to be started anew */       \
    X(TOO_LARGE, "TOO_LARGE")                                                                      \
    X(BAD_KEY, "BAD_KEY")                                                                          \
    X(BAD_REQUEST, "BAD_REQUEST")                                                                  \
    X(BAD_REQUEST_ID, "BAD_REQUEST_ID")                                                            \
    X(REQUEST_ID_EXPIRED, "REQUEST_ID_EXPIRED")                                                    \
    X(NO_METHOD, "NO_METHOD")                                                                      \
    X(COMPACTED, "COMPACTED")                                                                      \
    X(RESYNC, "RESYNC")     /* the state was replaced: what a stream has told does not go on */    \
    X(TOO_SLOW, "TOO_SLOW") /* the reader of a stream does not keep up */                          \
    X(EPOCH_REGRESSION, "EPOCH_REGRESSION")                                                        \
    /* between programs and the machine they run on */                                             \
    X(TIMEOUT, "TIMEOUT")                                                                          \
    X(CANCELLED, "CANCELLED")                                                                      \
    X(UNREACHABLE, "UNREACHABLE") /* nothing was sent, or the peer certainly did nothing */        \
    X(LOST, "LOST")               /* sent, and no answer came */                                   \
    X(PROTOCOL, "PROTOCOL")       /* the peer answered something that makes no sense */            \
    X(DENIED, "DENIED")           /* authentication or permission */                               \
    X(IN_USE, "IN_USE")           /* port, directory, name */                                      \
    X(IO, "IO")                                                                                    \
    X(CORRUPT, "CORRUPT")                                                                          \
    X(USAGE, "USAGE")                                                                              \
    X(INTERNAL, "INTERNAL")

enum err_code {
#define ERR_ENUM(name, word) ERR_##name,
    ERR_LIST(ERR_ENUM)
#undef ERR_ENUM
        ERR_CODES
};

/* A value, copied freely. The message says what to do; decisions look at the code only. */
struct err {
    enum err_code code;
    char message[256];
};

#define OK_ERR ((struct err){.code = ERR_OK})

struct err err_make(enum err_code code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The same code with "context: " in front of the message. */
struct err err_wrap(struct err e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
const char *err_word(enum err_code code);
static inline bool err_is(const struct err *e)
{
    return e->code != ERR_OK;
}
