/* How the files of the library (client/baton_*.c) make calls, results and errors. What starts with
 * baton_ is exported: only what the header declares is called so, the rest is called api_.
 *
 * A call: encode the request, name its method, and say how its answer becomes a result:
 *
 *     struct buf body = {0};
 *     kv_encode_get(key, &body);
 *     static const struct client_request kind = {.path = KV_PATH_GET, .idempotent = true};
 *     struct baton_kvs *made = api_call(client, call, &kind, &body, &api_kvs, err);
 *
 * A stream: client_stream_open(client->calls, ...), on a thread of its own; see client_stream.h. */
#pragma once
#include "client/client.h"
#include "client/core/api_bytes.h"
#include "common/base/arena.h"

struct baton_client {
    struct client *calls;
    int64_t timeout_ms;
};

/* ---- errors ---- */

/* What an error says to users; a: the answer it came with, NULL: there was none. */
void api_error(const struct err *e, const struct rpc_answer *a, struct baton_error *out);
/* The same for a function that fails: err may be NULL. -1. */
int api_fail(const struct err *e, const struct rpc_answer *a, struct baton_error *err);

/* ---- results ---- */

/* Zeroed; for baton_result_free. */
void *api_result_new(size_t size);
/* What else the result shows lives here. */
struct arena *api_result_memory(void *result);

/* How an answer becomes a result. */
struct api_result {
    size_t size;
    struct err (*decode)(const struct rpc_answer *a, struct arena *memory, void *result);
};

/* ---- calls ---- */

/* Of a call that begins now; how may be NULL. */
int64_t api_deadline(const struct baton_client *client, const struct baton_call *how);
/* One call with all its attempts. kind says all but the body, which is used up, and the request id,
 * which is the caller's if how names one. NULL: it failed, err says why. */
void *api_call(struct baton_client *client, const struct baton_call *how,
               const struct client_request *kind, struct buf *body, const struct api_result *result,
               struct baton_error *err);
