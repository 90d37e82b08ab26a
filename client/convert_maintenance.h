/* Messages of the maintenance service <-> plain values. */
#pragma once
#include "client/convert_kv.h"

#define MAINTENANCE_PATH_EXPORT "/baton.v1.MaintenanceService/Export"
#define MAINTENANCE_PATH_RAISE "/baton.v1.MaintenanceService/RaiseEpoch"

enum maintenance_part_kind { MAINTENANCE_HEADER, MAINTENANCE_PAGE, MAINTENANCE_END };

/* A part of an export; its kind says which fields mean something. */
struct maintenance_part {
    enum maintenance_part_kind kind;
    const char *cluster; /* HEADER */
    uint64_t epoch, incarnation;
    int64_t revision;
    struct baton_kv *items; /* PAGE */
    size_t item_count;
    uint64_t keys; /* END: in all pages */
};

struct maintenance_raised {
    uint64_t epoch_floor, incarnation;
};

void maintenance_encode_raise(uint64_t above, struct buf *out); /* replaces what out held */

/* PROTOCOL when the bytes are no such message. What they point to lives in the arena. */
struct err maintenance_decode_part(struct bytes message, struct arena *memory,
                                   struct maintenance_part *out);
struct err maintenance_decode_raised(struct bytes message, struct maintenance_raised *out);
