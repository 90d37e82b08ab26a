/* One value, shown as JSON or as a table for people. */
#pragma once
#include "client/cli/cli.h"
#include <json-c/json.h>
#include <stdio.h>

enum column_kind { COLUMN_PLAIN, COLUMN_TIME /* milliseconds since 1970 */ };

struct column {
    const char *title, *key;
    enum column_kind kind;
};

/* Bytes that are no UTF-8 go under NAME_base64 instead of NAME. */
void output_add_bytes(struct json_object *to, const char *name, struct baton_bytes value);
/* In base64, whatever they are. */
void output_add_base64(struct json_object *to, const char *name, struct baton_bytes value);
/* Of that text, into memory: whole groups of four, of which the last one may end in one or two '='.
 * false: it is none. */
bool output_unbase64(struct bytes text, struct arena *memory, struct bytes *out);
/* What output_add_bytes has put there, into memory; false: it is not there or makes no sense. */
bool output_get_bytes(struct json_object *from, const char *name, struct arena *memory,
                      struct baton_bytes *out);
void output_add_text(struct json_object *to, const char *name, const char *value);
void output_add_number(struct json_object *to, const char *name, int64_t value);
void output_add_flag(struct json_object *to, const char *name, bool value);

/* One line of JSON, on stdout or elsewhere; consumes the value. */
void output_json(struct json_object *value);
void output_json_to(FILE *out, struct json_object *value);
/* An array of objects as lines: titles, then a line for each, in columns. */
void output_table(struct json_object *list, const struct column *columns, size_t count,
                  struct buf *out);
/* An array of objects as JSON, or with these columns as a table; consumes it. */
void output_list(const struct cli *cli, struct json_object *list, const struct column *columns,
                 size_t count);
/* An object as JSON, or a line for each of these fields; consumes it. */
void output_object(const struct cli *cli, struct json_object *object, const struct column *columns,
                   size_t count);
