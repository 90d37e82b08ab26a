/* How the changes of a watch are shown. */
#pragma once
#include "client/cli/output.h"

/* A line for each event, and one that says that all known before is to be forgotten; at most `most`
 * events. How many there were. */
size_t watch_print(FILE *out, const struct baton_changes *changes, bool json, size_t most);
