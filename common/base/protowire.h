/* Reads protobuf's wire format field by field, for messages that no generated code knows. */
#pragma once
#include "common/base/buf.h"

/* {.in = a message}; the bytes are borrowed. */
struct protowire {
    struct bytes in; /* what is left */
    bool broken;     /* it made no sense */
};

struct protowire_field {
    uint32_t number;
    uint64_t value;     /* of a varint */
    struct bytes bytes; /* of a length-delimited field */
};

/* False at the end, and at bytes that make no sense. Numbers of fixed size are passed over: they
 * come with neither value nor bytes. */
bool protowire_next(struct protowire *w, struct protowire_field *f);
