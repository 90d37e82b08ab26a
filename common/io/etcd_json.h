/* Reading etcd's JSON answers with json-c: for the etcd_decode files only. A reader remembers the
 * first field that made no sense, so decoders read straight on and look once at the end. */
#pragma once
#include "common/base/err.h"
#include "common/base/etcd_types.h"
#include <json-c/json.h>

struct reader {
    uint8_t *at, *end; /* where decoded base64 goes; it is at most 3/4 of the body */
    const char *bad;   /* the first field that made no sense; NULL: none yet */
};

/* An object that fills body but for white space, or NULL. Give it back with json_object_put. */
struct json_object *etcd_json_parse(struct bytes body);

/* Absent fields are zero, as etcd leaves them out. Numbers may be numbers or strings. */
int64_t read_int(struct reader *r, struct json_object *o, const char *name);
uint64_t read_uint(struct reader *r, struct json_object *o, const char *name);
bool read_bool(struct reader *r, struct json_object *o, const char *name);
struct bytes read_base64(struct reader *r, struct json_object *o, const char *name);
const char *read_string(struct reader *r, struct json_object *o,
                        const char *name); /* "" if absent */
struct json_object *read_object(struct reader *r, struct json_object *o, const char *name);
struct json_object *read_array(struct reader *r, struct json_object *o, const char *name);
size_t read_length(struct json_object *array); /* 0 for NULL */
struct etcd_header read_header(struct reader *r, struct json_object *o);
void read_kv(struct reader *r, struct json_object *o, struct etcd_kv *out);

/* One block: struct_bytes zeroed bytes for the caller's structs, then room for all base64 of body.
 */
void *reader_block(struct reader *r, size_t struct_bytes, struct bytes body);
/* PROTOCOL with the field, or the start of the body when it was no JSON object at all. */
struct err reader_error(const struct reader *r, struct bytes body, const char *what);

/* The answer to a txn that only wrote, read the fast way. False for any other: nothing to close
 * then. */
bool etcd_decode_writes(struct bytes body, struct etcd_txn_result *out);
