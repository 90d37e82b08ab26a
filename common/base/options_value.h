/* Inside of the option table: one value as a user types it, to and from what a program uses. */
#pragma once
#include "common/base/options.h"
#include <stdbool.h>

/* Stores the text in the row's target. USAGE errors name the option and what it wants. */
struct err option_set(const struct option_row *row, const char *text);
/* A bound or default in the unit a user would type: 5s, 64MiB, 12. */
void option_format(enum option_kind kind, int64_t value, char *out, size_t cap);
