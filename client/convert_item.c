#include "client/convert_item.h"

struct baton_bytes item_keep(ProtobufCBinaryData d, struct arena *memory)
{
    struct bytes kept = arena_copy(memory, bytes_of(d.data, d.len));
    return (struct baton_bytes){.data = kept.data, .len = kept.len};
}

struct baton_bytes *item_keep_all(const struct baton_bytes *all, size_t count, struct arena *memory)
{
    struct baton_bytes *out = arena_array(memory, count, sizeof *out);
    for (size_t i = 0; i < count; i++)
        out[i] = item_keep(item_data(all[i]), memory);
    return out;
}

struct baton_kv item_convert(const Baton__V1__KeyValue *m, struct arena *memory)
{
    if (!m)
        return (struct baton_kv){0};
    return (struct baton_kv){.key = item_keep(m->key, memory),
                             .value = item_keep(m->value, memory),
                             .create_revision = m->create_revision,
                             .mod_revision = m->mod_revision,
                             .version = m->version};
}

struct baton_kv *item_convert_all(Baton__V1__KeyValue *const *all, size_t count,
                                  struct arena *memory)
{
    struct baton_kv *out = arena_array(memory, count, sizeof *out);
    for (size_t i = 0; i < count; i++)
        out[i] = item_convert(all[i], memory);
    return out;
}

struct baton_event *item_convert_events(Baton__V1__KeyEvent *const *all, size_t count,
                                        struct arena *memory)
{
    struct baton_event *out = arena_array(memory, count, sizeof *out);
    for (size_t i = 0; i < count; i++)
        out[i] = (struct baton_event){.kv = item_convert(all[i]->kv, memory),
                                      .deleted = all[i]->deleted};
    return out;
}

ProtobufCBinaryData *item_data_all(const struct baton_bytes *all, size_t count,
                                   struct arena *memory)
{
    ProtobufCBinaryData *out = arena_array(memory, count, sizeof *out);
    for (size_t i = 0; i < count; i++)
        out[i] = item_data(all[i]);
    return out;
}

struct err item_garbled(const char *message)
{
    return err_make(ERR_PROTOCOL, "the answer is no %s; are both programs of one version?",
                    message);
}

const char *item_keep_text(const char *text, struct arena *memory)
{
    return (const char *)arena_copy(memory, bytes_str(text)).data;
}

void item_pack(const ProtobufCMessage *m, struct buf *out)
{
    buf_clear(out);
    buf_reserve(out, protobuf_c_message_get_packed_size(m));
    out->len = protobuf_c_message_pack(m, out->data);
}
