/* The contracts this server offers, looked up by file and by the names they declare: an index over
 * a serialised google.protobuf.FileDescriptorSet. Proto3 contracts declare no extensions of
 * messages, so those are found by name only. */
#pragma once
#include "common/base/arena.h"
#include "common/base/err.h"

enum descriptor_kind {
    DESCRIPTOR_FILE,
    DESCRIPTOR_MESSAGE,
    DESCRIPTOR_FIELD, /* or oneof, or extension */
    DESCRIPTOR_ENUM,
    DESCRIPTOR_VALUE, /* of an enum */
    DESCRIPTOR_SERVICE,
    DESCRIPTOR_METHOD,
};

struct descriptor_file {
    struct bytes name, content; /* content: a serialised FileDescriptorProto */
};

struct descriptor_symbol {
    struct bytes name; /* "baton.v1.KvService.Put" */
    size_t file;       /* index of the file that declares it */
    enum descriptor_kind kind;
};

/* Once loaded it never changes: any thread may look. */
struct descriptors {
    struct descriptor_file *files;
    struct descriptor_symbol *symbols; /* by name */
    size_t file_count, symbol_count;
    struct arena memory;
};

/* The set is borrowed until descriptors_close. CORRUPT: it makes no sense, or a file imports one
 * that is missing. */
struct err descriptors_load(struct descriptors *d, struct bytes set);
void descriptors_close(struct descriptors *d);

/* NULL when there is none. */
const struct descriptor_file *descriptors_find_file(const struct descriptors *d, struct bytes name);
const struct descriptor_symbol *descriptors_find_symbol(const struct descriptors *d,
                                                        struct bytes name);
/* Into out, with room for file_count: the file, then everything it imports, also indirectly, each
 * once. */
size_t descriptors_with_imports(const struct descriptors *d, const struct descriptor_file *file,
                                const struct descriptor_file **out);
