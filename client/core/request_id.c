#include "client/core/request_id.h"
#include <inttypes.h>
#include <stdio.h>

void request_id_make(struct rng *r, int64_t revision, char out[REQUEST_ID_MAX])
{
    enum { DIGITS = 32 };
    rng_hex(r, out, DIGITS);
    if (revision > 0)
        snprintf(out + DIGITS, REQUEST_ID_MAX - DIGITS, "@%" PRId64, revision);
}
