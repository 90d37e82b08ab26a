/* "name=value name=value …": one line of text that people can read. Values are escaped as %XX where
 * they hold spaces, '%' or anything that is not printable ASCII. */
#pragma once
#include "common/base/buf.h"
#include "common/base/err.h"

void field_put_str(struct buf *out, const char *name, const char *value);
void field_put_u64(struct buf *out, const char *name, uint64_t value);
void field_put_i64(struct buf *out, const char *name, int64_t value);

/* Reads fields out of a line in any order; `bad` names the first one that was asked for and is
 * missing, too long or not a number within its bounds. */
struct field_reader {
    struct bytes text;
    const char *bad;
};
/* Into out[cap], with a 0. A value shorter than min characters is bad; min 0 allows it to be
 * missing. */
void field_str(struct field_reader *r, const char *name, char *out, size_t cap, size_t min);
/* Exactly `digits` hexadecimal digits in lower case; digits + 1 characters of room. */
void field_hex(struct field_reader *r, const char *name, char *out, size_t digits);
uint64_t field_u64(struct field_reader *r, const char *name, uint64_t min, uint64_t max);
int64_t field_i64(struct field_reader *r, const char *name, int64_t min, int64_t max);
/* OK, or CORRUPT, which names `bad`; what: "cluster's value", as it stands in etcd. */
struct err field_verdict(const struct field_reader *r, const char *what);
/* Takes the next field, name and value as they stand there, from the front; false at the end. */
bool field_next(struct bytes *rest, struct bytes *field);
/* Whether there is one, good or bad. */
bool field_is_there(struct bytes text, const char *name);
/* All fields but the known ones, as they stand there, into out[cap] with a 0; false when they do
 * not fit or a byte of them is 0. */
bool field_others(struct bytes text, const char *const *known, size_t count, char *out, size_t cap);
