/* Inside the etcd client. Everything here belongs to the client's thread, but for what etcd_call
 * and etcd_watch_open fill in before they hand it over. */
#pragma once
#include "common/io/etcd.h"
#include "common/base/queue.h"
#include <curl/curl.h>
#include <pthread.h>
#include <stdatomic.h>

struct etcd_endpoints {
    char *urls[ETCD_MAX_ENDPOINTS]; /* scheme://host:port, without a slash at the end */
    int count;
};
struct err etcd_endpoints_parse(struct etcd_endpoints *out, const char *list);
void etcd_endpoints_close(struct etcd_endpoints *e);

struct transfer;
struct h2_link;

/* What differs between a call and a stream. */
struct transfer_kind {
    const char *const *headers; /* of JSON */
    bool keeps_open; /* of gRPC: more may follow the request, and the answer has no end */
    /* Part of the answer; false gives the transfer up. */
    bool (*on_data)(struct transfer *t, const uint8_t *data, size_t len);
    /* Over: http_status 0 and why, or the status of a whole answer. Called once; may free t. */
    void (*on_over)(struct transfer *t, int http_status, struct err why);
};

/* One POST, sent at most once. Part of a call or a stream. */
struct transfer {
    const struct transfer_kind *kind;
    struct etcd_client *client;
    const char *path;
    struct buf request;
    int wanted;           /* endpoint or ETCD_ANY */
    _Atomic int endpoint; /* the one asked; -1: none yet. Any thread may look */
    int64_t until_ms;     /* 0: no limit */
    CURL *easy;           /* NULL: not running */
    struct curl_slist *headers;
    int sends;      /* how often curl was about to send: never again after the first */
    bool anonymous; /* needs no token: it is the one that asks for it */
    bool parked;    /* waits for a token; nothing was sent */
    uint64_t token; /* the number of the one that it carries; 0: none */
    int refused_tokens;
    struct buf json; /* the request, when it is in frames and its endpoint speaks JSON only */

    /* by gRPC */
    struct h2_link *link; /* NULL: it goes by curl */
    int32_t stream;       /* 0: waits for the link to open */
    size_t request_at;
    int64_t asked_ms;
    int http_status, grpc_status; /* grpc_status -1: none came; its message is `detail` */
    bool is_grpc, given_up;
    bool stream_over, stream_closed; /* the answer has ended; the request too */
    uint32_t stream_error;
    bool answered_in_grpc; /* said with on_over */

    char detail[CURL_ERROR_SIZE];
    struct transfer *prev, *next; /* running ones, or parked ones */
};

/* Starts it, or reports it over at once. */
void transfer_start(struct transfer *t);
/* Adds to what curl says what may be done about it. */
void transfer_explain(CURLcode rc, char detail[CURL_ERROR_SIZE]);
/* What all connections have in common. */
void transfer_set_connection(const struct etcd_client *c, CURL *easy, int64_t connect_ms);
void transfer_abort(struct transfer *t, struct err why); /* running or parked; reports it over */
void transfer_done(struct transfer *t, CURLcode rc);     /* curl says that it is over */
void transfer_close(struct transfer *t);                 /* not running; frees its parts, not t */

enum command_kind { COMMAND_CALL, COMMAND_OPEN, COMMAND_CLOSE, COMMAND_STOP };

struct etcd_client {
    char name[16];
    struct etcd_endpoints endpoints;
    int connect_timeout_ms;
    struct etcd_access access; /* borrowed; its endpoints are those above */
    CURLM *multi;
    struct queue *commands;
    pthread_t thread;
    /* The client's thread only: */
    int current;         /* for ETCD_ANY */
    uint64_t cluster_id; /* the first one seen; 0: none yet */
    bool stopping;
    struct transfer *running, *parked;
    struct transfer *logging_in[ETCD_MAX_ENDPOINTS];
    struct h2_link *links;
    struct curl_waitfd *fds;
    int64_t json_until_ms[ETCD_MAX_ENDPOINTS]; /* the endpoint did not speak gRPC lately */
    struct etcd_stream *streams;               /* all that were not closed */
};

void client_command(struct etcd_client *c, enum command_kind kind, void *what);
/* What an answer from this endpoint says about whom to ask next. */
void client_note(struct etcd_client *c, int endpoint, enum err_code code);
/* PROTOCOL when the header is of another cluster than those before. */
struct err client_check_cluster(struct etcd_client *c, const struct etcd_header *h);

/* Waits for a token, which is asked for; or reports it over at once. */
void auth_park(struct transfer *t);
void auth_fail(struct transfer *t, struct err why); /* parked; reports it over */
int64_t auth_expire(struct etcd_client *c); /* what has waited too long; when to come again */

void stream_start(struct etcd_stream *s);
void stream_close(struct etcd_stream *s); /* ends it if it did not end yet, and frees it */
