#include "common/io/digest.h"
#include "common/base/check.h"
#include "common/base/mem.h"
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>

struct digest {
    EVP_MD_CTX *ctx;
};

static void begin(struct digest *d)
{
    int ok = EVP_DigestInit_ex(d->ctx, EVP_sha256(), NULL);
    INVARIANT(ok == 1);
}

struct digest *digest_new(void)
{
    struct digest *d = mem_alloc(sizeof *d);
    d->ctx = EVP_MD_CTX_new();
    INVARIANT(d->ctx);
    begin(d);
    return d;
}

void digest_free(struct digest *d)
{
    if (!d)
        return;
    EVP_MD_CTX_free(d->ctx);
    free(d);
}

void digest_add(struct digest *d, struct bytes piece)
{
    int ok = EVP_DigestUpdate(d->ctx, piece.data, piece.len);
    INVARIANT(ok == 1);
}

void digest_hex(struct digest *d, char out[DIGEST_HEX_MAX])
{
    uint8_t sum[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    int ok = EVP_DigestFinal_ex(d->ctx, sum, &len);
    INVARIANT(ok == 1 && 2 * len < DIGEST_HEX_MAX);
    for (unsigned i = 0; i < len; i++)
        snprintf(out + (size_t)2 * i, 3, "%02x", sum[i]);
    begin(d);
}
