#include "common/base/err.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct err err_make(enum err_code code, const char *fmt, ...)
{
    struct err e = {.code = code};
    va_list args;
    va_start(args, fmt);
    vsnprintf(e.message, sizeof e.message, fmt, args);
    va_end(args);
    return e;
}

struct err err_wrap(struct err e, const char *fmt, ...)
{
    struct err out = {.code = e.code};
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(out.message, sizeof out.message, fmt, args);
    va_end(args);
    if (n >= 0 && (size_t)n < sizeof out.message)
        snprintf(out.message + n, sizeof out.message - (size_t)n, ": %s", e.message);
    return out;
}

const char *err_word(enum err_code code)
{
    static const char *const words[] = {
#define ERR_WORD(name, word) word,
        ERR_LIST(ERR_WORD)
#undef ERR_WORD
    };
    return code >= 0 && code < ERR_CODES ? words[code] : "INTERNAL";
}
