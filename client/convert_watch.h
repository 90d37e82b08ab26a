/* Messages of watches <-> the library's values. */
#pragma once
#include "client/api_stream.h"

#define WATCH_PATH "/baton.v1.KvService/Watch"

/* Asks for the changes below the prefixes from where the last stream ended. Replaces what out held.
 */
void watch_encode(const struct baton_bytes *prefixes, size_t count, const struct stream_resume *r,
                  struct buf *out);
/* PROTOCOL when the bytes are no such message. out->said: a struct baton_changes in the arena. */
struct err watch_decode(struct bytes message, struct arena *memory, struct api_message *out);
