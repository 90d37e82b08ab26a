/* Server streams that tell a state: each reader gets the newest one when it has changed, and a slow
 * reader misses states between but never the newest. One thread does all the sending. */
#pragma once
#include "common/io/rpc_server.h"

struct state_streams;

struct state_streams_config {
    const char *thread_name;
    /* Appends the present state for this topic (what the stream was opened for) to out. */
    void (*message)(void *ctx, const char *topic, struct buf *out);
    void *ctx;
    int64_t keepalive_ms; /* repeats an unchanged state that often; 0: never */
};

struct state_streams *state_streams_start(const struct state_streams_config *cfg);
/* After the RPC server is freed: no stream is left by then. */
void state_streams_stop(struct state_streams *s);

/* From the handler of a stream. */
void state_streams_open(struct state_streams *s, struct rpc_call *call, const char *topic);
/* Something may have changed: sends soon. Any thread, also under a lock. */
void state_streams_changed(struct state_streams *s);
