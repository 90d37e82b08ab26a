/* How keys and values are shown. */
#pragma once
#include "client/cli/output.h"

void kv_add(struct json_object *to, const struct baton_kv *item, bool with_value);
struct json_object *kv_json(const struct baton_kv *item, bool with_value);
/* As they are, to stdout. */
void print_bytes(struct baton_bytes b);
