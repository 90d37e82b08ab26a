#include "common/base/check.h"
#include <stdio.h>
#include <stdlib.h>

void check_failed(const char *kind, const char *expr, const char *file, int line)
{
    fprintf(stderr, "%s:%d: %s does not hold: %s\n", file, line, kind, expr);
    abort();
}
