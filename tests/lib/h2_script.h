/* A server for tests that speaks HTTP/2 byte by byte as a script says: one request on each
 * connection, connections side by side. */
#pragma once
#include "common/base/buf.h"

struct h2_script;

enum h2_script_end {
    H2_SCRIPT_SILENT, /* keeps the connection and says nothing more */
    H2_SCRIPT_CLOSE,
    H2_SCRIPT_HELD, /* waits with the answer until h2_script_release, then silent */
};

/* Of one connection. Bytes are borrowed. */
struct h2_script_step {
    struct bytes greeting; /* sent when the client's preface has come; empty: nothing */
    struct bytes answer;   /* sent when the headers and the body of a request have come */
    enum h2_script_end end;
};

struct h2_script *h2_script_start(const struct h2_script_step *steps, size_t count);
void h2_script_release(struct h2_script *s);
void h2_script_free(struct h2_script *s);
const char *h2_script_url(const struct h2_script *s);
int h2_script_requests(struct h2_script *s); /* whose headers have come */
int h2_script_resets(struct h2_script *s);   /* that the client gave up */

/* Frames, appended. Streams of a client are odd: its first is 1. */
void h2_frame(struct buf *out, uint8_t type, uint8_t flags, uint32_t stream, struct bytes payload);
void h2_settings(struct buf *out); /* and that the client's own were seen */
/* fields: name, value, name, value, …, NULL. */
void h2_headers(struct buf *out, bool end_stream, const char *const *fields);
void h2_data(struct buf *out, bool end_stream, struct bytes payload);
