/* Prefixes of keys that somebody wants to hear of; none: of every key. */
#pragma once
#include "common/base/buf.h"

/* Sorts them and drops each that starts with another one, so that every key has at most one of
 * them; returns how many are left: 0 when one of them starts every key. */
size_t prefixes_tidy(struct bytes *prefixes, size_t count);
/* Whether a key starts with one of what prefixes_tidy left. */
bool prefixes_hold(const struct bytes *prefixes, size_t count, struct bytes key);
