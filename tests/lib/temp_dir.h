/* A directory for one test, gone with everything in it afterwards. */
#pragma once
#include "common/base/mem.h"
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline char *temp_dir_new(void)
{
    const char *base = getenv("TMPDIR");
    char *path = mem_printf("%s/baton-test-XXXXXX", base ? base : "/tmp");
    if (!mkdtemp(path)) {
        perror(path);
        abort();
    }
    return path;
}

static inline int temp_dir_remove_one(const char *path, const struct stat *st, int type,
                                      struct FTW *ftw)
{
    return remove(path);
}

static inline void temp_dir_free(char *path)
{
    nftw(path, temp_dir_remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(path);
}
