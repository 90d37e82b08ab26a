/* Server streams from whoever leads. One attempt each: who wants to go on opens the next. */
#pragma once
#include "client/client.h"

struct client_stream;

/* Looks for the leader, and opens a stream of this method there. Errors: nobody was found, in one
 * round over all addresses or until deadline_ms; called again at once, it waits as long as it must.
 * What goes wrong later is told by client_stream_next. Freed before the client. */
struct err client_stream_open(struct client *c, const char *path, struct bytes body,
                              int64_t deadline_ms, struct client_stream **out);
/* As rpc_reader_next. At its end the client has learnt whether that leader is still to be asked. */
enum rpc_next client_stream_next(struct client_stream *s, int64_t deadline_ms, struct buf *out,
                                 struct err *e);
const struct rpc_answer *client_stream_answer(const struct client_stream *s); /* after its end */
const char *client_stream_addr(const struct client_stream *s);
/* What came on it is of a deposed leader, or makes no sense: the next one goes elsewhere, if there
 * is anybody else. */
void client_stream_distrust(struct client_stream *s);
/* Any thread; client_stream_next then says END, CANCELLED. */
void client_stream_cancel(struct client_stream *s);
void client_stream_free(struct client_stream *s); /* NULL is allowed */
