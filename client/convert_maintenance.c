#include "client/convert_maintenance.h"
#include <baton/v1/maintenance.pb-c.h>

static struct err garbled(const char *what)
{
    return err_make(ERR_PROTOCOL, "the answer is no %s; are both programs of one version?", what);
}

void maintenance_encode_raise(uint64_t above, struct buf *out)
{
    Baton__V1__RaiseEpochRequest m = BATON__V1__RAISE_EPOCH_REQUEST__INIT;
    m.above = above;
    buf_clear(out);
    buf_reserve(out, baton__v1__raise_epoch_request__get_packed_size(&m));
    out->len = baton__v1__raise_epoch_request__pack(&m, out->data);
}

static struct bytes keep(struct arena *memory, ProtobufCBinaryData b)
{
    return arena_copy(memory, bytes_of(b.data, b.len));
}

static void fill_page(const Baton__V1__ExportPage *from, struct arena *memory,
                      struct maintenance_part *out)
{
    out->item_count = from->n_kvs;
    out->items = arena_array(memory, from->n_kvs, sizeof *out->items);
    for (size_t i = 0; i < from->n_kvs; i++) {
        const Baton__V1__KeyValue *kv = from->kvs[i];
        out->items[i] = (struct kv_item){.key = keep(memory, kv->key),
                                         .value = keep(memory, kv->value),
                                         .create_revision = kv->create_revision,
                                         .mod_revision = kv->mod_revision,
                                         .version = kv->version};
    }
}

static bool fill_part(const Baton__V1__ExportMessage *m, struct arena *memory,
                      struct maintenance_part *out)
{
    switch (m->part_case) {
    case BATON__V1__EXPORT_MESSAGE__PART_HEADER:
        *out = (struct maintenance_part){
            .kind = MAINTENANCE_HEADER,
            .cluster = (const char *)arena_copy(memory, bytes_str(m->header->cluster_id)).data,
            .epoch = m->header->epoch,
            .incarnation = m->header->incarnation,
            .revision = m->header->revision};
        return true;
    case BATON__V1__EXPORT_MESSAGE__PART_PAGE:
        *out = (struct maintenance_part){.kind = MAINTENANCE_PAGE};
        fill_page(m->page, memory, out);
        return true;
    case BATON__V1__EXPORT_MESSAGE__PART_END:
        *out = (struct maintenance_part){.kind = MAINTENANCE_END, .keys = m->end->keys};
        return true;
    case BATON__V1__EXPORT_MESSAGE__PART__NOT_SET:
    case _BATON__V1__EXPORT_MESSAGE__PART__CASE_IS_INT_SIZE:
        break;
    }
    return false;
}

struct err maintenance_decode_part(struct bytes message, struct arena *memory,
                                   struct maintenance_part *out)
{
    Baton__V1__ExportMessage *m =
        baton__v1__export_message__unpack(NULL, message.len, message.data);
    bool ok = m && fill_part(m, memory, out);
    if (m)
        baton__v1__export_message__free_unpacked(m, NULL);
    return ok ? OK_ERR : garbled("ExportMessage");
}

struct err maintenance_decode_raised(struct bytes message, struct maintenance_raised *out)
{
    Baton__V1__RaiseEpochResponse *m =
        baton__v1__raise_epoch_response__unpack(NULL, message.len, message.data);
    if (!m)
        return garbled("RaiseEpochResponse");
    *out =
        (struct maintenance_raised){.epoch_floor = m->epoch_floor, .incarnation = m->incarnation};
    baton__v1__raise_epoch_response__free_unpacked(m, NULL);
    return OK_ERR;
}
