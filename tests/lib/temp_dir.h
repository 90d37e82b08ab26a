/* A directory for one test, gone with everything in it afterwards. */
#pragma once
#include "common/base/check.h"
#include "common/base/mem.h"
#include <dirent.h>
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

/* Copies the plain files of a directory into another one. */
static inline void temp_dir_copy(const char *from, const char *to)
{
    DIR *dir = opendir(from);
    PRE(dir);
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        if (entry->d_type != DT_REG)
            continue;
        char *source = mem_printf("%s/%s", from, entry->d_name), block[4096];
        char *target = mem_printf("%s/%s", to, entry->d_name);
        FILE *in = fopen(source, "rb"), *out = fopen(target, "wb");
        PRE(in && out);
        for (size_t n; (n = fread(block, 1, sizeof block, in)) > 0;)
            PRE(fwrite(block, 1, n, out) == n);
        fclose(in);
        PRE(fclose(out) == 0);
        free(source);
        free(target);
    }
    closedir(dir);
}
