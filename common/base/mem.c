#include "common/base/mem.h"
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *or_abort(void *p)
{
    if (!p) {
        fputs("out of memory\n", stderr);
        abort();
    }
    return p;
}

void *mem_alloc(size_t size)
{
    return or_abort(calloc(1, size ? size : 1));
}

void *mem_array(size_t count, size_t size)
{
    return or_abort(calloc(count ? count : 1, size ? size : 1));
}

void *mem_resize(void *old, size_t size)
{
    return or_abort(realloc(old, size ? size : 1));
}

char *mem_strdup(const char *s)
{
    return or_abort(strdup(s));
}

char *mem_strndup(const char *s, size_t n)
{
    return or_abort(strndup(s, n));
}

void *mem_dup(const void *p, size_t size)
{
    void *copy = or_abort(malloc(size ? size : 1));
    if (size)
        memcpy(copy, p, size);
    return copy;
}

char *mem_printf(const char *fmt, ...)
{
    char *out = NULL;
    va_list args;
    va_start(args, fmt);
    int n = vasprintf(&out, fmt, args);
    va_end(args);
    return or_abort(n < 0 ? NULL : out);
}
