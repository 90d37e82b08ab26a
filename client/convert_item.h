/* What the messages of more than one service have in common: keys with their values, and how they
 * are read and written. */
#pragma once
#include "client/include/baton/baton.h"
#include "common/base/arena.h"
#include "common/base/err.h"
#include <baton/v1/kv.pb-c.h>

/* Copies; m NULL: all zero. */
struct baton_kv item_convert(const Baton__V1__KeyValue *m, struct arena *memory);
struct baton_kv *item_convert_all(Baton__V1__KeyValue *const *all, size_t count,
                                  struct arena *memory);
struct baton_bytes item_keep(ProtobufCBinaryData d, struct arena *memory);
struct baton_bytes *item_keep_all(const struct baton_bytes *all, size_t count,
                                  struct arena *memory);
const char *item_keep_text(const char *text, struct arena *memory);
/* Changes of one commit, or keys that exist. */
struct baton_event *item_convert_events(Baton__V1__KeyEvent *const *all, size_t count,
                                        struct arena *memory);
/* Borrowed. */
static inline ProtobufCBinaryData item_data(struct baton_bytes b)
{
    return (ProtobufCBinaryData){.len = b.len, .data = (uint8_t *)b.data};
}
ProtobufCBinaryData *item_data_all(const struct baton_bytes *all, size_t count,
                                   struct arena *memory);
/* Replaces what out held. */
void item_pack(const ProtobufCMessage *m, struct buf *out);
/* The answer is no such message. */
struct err item_garbled(const char *message);
