/* Results: each has its memory in front of it, so one function frees them all. */
#include "client/baton_parts.h"
#include "common/base/check.h"
#include "common/base/mem.h"
#include <stdalign.h>
#include <stdlib.h>

#define RESULT_MAGIC 0x62746e72u

struct head {
    alignas(max_align_t) struct arena memory;
    unsigned magic;
};

void *api_result_new(size_t size)
{
    struct head *h = mem_alloc(sizeof *h + size);
    h->magic = RESULT_MAGIC;
    return h + 1;
}

static struct head *head_of(void *result)
{
    struct head *h = (struct head *)result - 1;
    PRE(h->magic == RESULT_MAGIC);
    return h;
}

struct arena *api_result_memory(void *result)
{
    return &head_of(result)->memory;
}

void baton_result_free(void *result)
{
    if (!result)
        return;
    struct head *h = head_of(result);
    h->magic = 0;
    arena_close(&h->memory);
    free(h);
}
