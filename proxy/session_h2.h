/* What the files named session* share about the library; no other file includes this. */
#pragma once
#include "common/base/mem.h"
#include "proxy/header.h"
#include "proxy/session.h"
#include <nghttp2/nghttp2.h>

struct bytes header_bytes(nghttp2_rcbuf *b);
/* What a header counts in a list, as SETTINGS_MAX_HEADER_LIST_SIZE counts. */
static inline size_t header_size(struct bytes name, struct bytes value)
{
    return name.len + value.len + 32;
}
/* Takes references; nothing is copied. The size is the caller's to count: not every header is kept.
 */
void header_list_add(struct header_list *l, enum header_kind kind, nghttp2_rcbuf *name,
                     nghttp2_rcbuf *value, uint8_t flags);
/* The same list as the library wants it. Nothing is copied: names and values must live until the
 * frame was serialised or its stream was reset. */
void header_fill_nv(nghttp2_nv *out, const struct header *headers, size_t count);
#define HEADER_BLOCK_BYTES (256u << 10) /* more than any list within our limits needs */
#define HEADERS_ADDED_MAX 16            /* by the relay, to a list of HEADERS_MAX */
/* What the two sides do about the events of the library; each is its callback of that name. */
struct session_callbacks {
    nghttp2_on_begin_headers_callback begin_headers;
    nghttp2_on_header_callback2 header;
    nghttp2_on_frame_recv_callback frame_recv;
    nghttp2_on_data_chunk_recv_callback data_chunk;
    nghttp2_on_stream_close_callback stream_close;
    nghttp2_on_frame_send_callback frame_send;
    nghttp2_send_data_callback send_data;
};
enum session_side { SESSION_SERVER, SESSION_CLIENT };
/* With the options, memory and frame sizes that all sessions have in common. */
nghttp2_session *session_new_h2(struct worker *w, enum session_side side,
                                const struct session_callbacks *callbacks, void *arg);
/* SETTINGS of our side and the big window of the connection. */
void session_hello(struct session *s, const nghttp2_settings_entry *settings, size_t count);
#define SESSION_CONNECTION_WINDOW (64 << 20)
#define SESSION_FRAME_BYTES (64u << 10) /* the largest frame we take and make */
