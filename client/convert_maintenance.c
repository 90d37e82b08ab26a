#include "client/convert_item.h"
#include "client/convert_maintenance.h"
#include <baton/v1/maintenance.pb-c.h>

void maintenance_encode_raise(uint64_t above, struct buf *out)
{
    Baton__V1__RaiseEpochRequest m = BATON__V1__RAISE_EPOCH_REQUEST__INIT;
    m.above = above;
    buf_clear(out);
    buf_reserve(out, baton__v1__raise_epoch_request__get_packed_size(&m));
    out->len = baton__v1__raise_epoch_request__pack(&m, out->data);
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
        out->item_count = m->page->n_kvs;
        out->items = item_convert_all(m->page->kvs, m->page->n_kvs, memory);
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
    return ok ? OK_ERR : item_garbled("ExportMessage");
}

struct err maintenance_decode_raised(struct bytes message, struct maintenance_raised *out)
{
    Baton__V1__RaiseEpochResponse *m =
        baton__v1__raise_epoch_response__unpack(NULL, message.len, message.data);
    if (!m)
        return item_garbled("RaiseEpochResponse");
    *out =
        (struct maintenance_raised){.epoch_floor = m->epoch_floor, .incarnation = m->incarnation};
    baton__v1__raise_epoch_response__free_unpacked(m, NULL);
    return OK_ERR;
}
