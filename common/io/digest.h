/* SHA-256 of what is given to it, piece by piece. */
#pragma once
#include "common/base/buf.h"

#define DIGEST_HEX_MAX 65 /* with the 0 behind it */

struct digest;

struct digest *digest_new(void);
void digest_free(struct digest *d);
void digest_add(struct digest *d, struct bytes piece);
/* Of everything added so far, in lowercase hexadecimal; begins anew. */
void digest_hex(struct digest *d, char out[DIGEST_HEX_MAX]);
