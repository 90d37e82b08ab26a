/* Identifiers of intended effects: 32 random hex digits, and the revision their maker had seen, by
 * which members know an id that is too old to be remembered. */
#pragma once
#include "common/base/rng.h"

#define REQUEST_ID_MAX 64

/* A terminated string into out. revision 0: none was seen, and none is named. */
void request_id_make(struct rng *r, int64_t revision, char out[REQUEST_ID_MAX]);
