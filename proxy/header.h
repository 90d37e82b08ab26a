/* Lists of headers as they came: the bytes stay where the HTTP/2 library decoded them, counted. */
#pragma once
#include "proxy/core/grpc_header.h"

struct header {
    struct bytes name, value;
    void *refs[2]; /* what keeps the bytes alive; NULL: they live long enough anyway */
    enum header_kind kind;
    bool never_index;
};

/* No list is longer: so many fit on the stack while a block is made. */
#define HEADERS_MAX 2048

struct header_list {
    struct header *items;
    uint32_t count, cap;
    size_t size; /* as SETTINGS_MAX_HEADER_LIST_SIZE counts */
};

void header_list_clear(struct header_list *l); /* keeps the memory of the list itself */
void header_list_close(struct header_list *l);
/* The first of that kind, or NULL. */
const struct header *header_list_find(const struct header_list *l, enum header_kind kind);

static inline struct header header_of(const char *name, struct bytes value)
{
    return (struct header){.name = bytes_str(name), .value = value};
}
