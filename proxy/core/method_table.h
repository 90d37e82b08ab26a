/* What the proxy knows of methods: may they be repeated after they were sent, do they keep request
 * ids. Filled at start out of descriptor sets and options, read by all workers afterwards. */
#pragma once
#include "common/base/buf.h"
#include "common/base/err.h"

enum method_class {
    METHOD_OTHER,    /* nothing known: never repeated once it was sent */
    METHOD_READ,     /* an idempotency level, or named by --replay-methods */
    METHOD_MUTATION, /* unary of a service that keeps request ids: repeated under one id */
};
#define METHOD_CLASSES 3

struct method {
    enum method_class class;
    bool unary; /* one request and one answer, for certain: a descriptor set says so */
};

struct method_row {
    struct bytes path; /* "/pkg.Service/Method" */
    struct method method;
};

/* Open addressing, at most half full. */
struct method_table {
    struct method_row *rows;
    size_t cap, count;
};

/* Adds the methods of a serialised FileDescriptorSet. Those without idempotency level count as
 * mutations when unary and of a package or service in keeps_ids ("pkg" or "pkg.Service", parted by
 * commas). */
struct err method_table_load(struct method_table *t, struct bytes descriptor_set,
                             const char *keeps_ids);
/* path is copied; a later entry replaces an earlier one. */
void method_table_add(struct method_table *t, struct bytes path, struct method method);
struct method method_table_find(const struct method_table *t, struct bytes path);
void method_table_close(struct method_table *t);
