/* How keys and values are shown. */
#pragma once
#include "client/cli/output.h"

struct json_object *kv_item_json(const struct kv_item *item, bool with_value);
/* As they are, to stdout. */
void print_bytes(struct bytes b);
