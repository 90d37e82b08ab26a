#include "meta/store_boot.h"
#include "common/base/files.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LINE_BYTES = 128 };

void store_boot_id(char out[64])
{
    out[0] = 0;
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (!f)
        return;
    if (!fgets(out, 64, f))
        out[0] = 0;
    out[strcspn(out, "\n")] = 0;
    fclose(f);
}

static void boot_path(char *out, size_t cap, const char *dir)
{
    snprintf(out, cap, "%s/boot", dir);
}

static void format_line(char line[LINE_BYTES], const char *boot_id, bool closed)
{
    snprintf(line, LINE_BYTES, "%s %s\n", closed ? "closed" : "open", boot_id);
}

bool store_boot_trusts(const char *dir, const char *boot_id)
{
    char path[600], line[LINE_BYTES] = "", same_boot[LINE_BYTES];
    boot_path(path, sizeof path, dir);
    FILE *f = fopen(path, "re");
    if (!f)
        return false;
    bool read = fgets(line, sizeof line, f) != NULL;
    fclose(f);
    format_line(same_boot, boot_id, false);
    return read &&
           (strncmp(line, "closed ", 7) == 0 || (boot_id[0] && strcmp(line, same_boot) == 0));
}

struct err store_boot_mark(const char *dir, const char *boot_id, bool closed)
{
    char line[LINE_BYTES];
    format_line(line, boot_id, closed);
    if (!file_replace(dir, "boot", bytes_str(line), 0600))
        return err_make(errno == ENOSPC ? ERR_NO_SPACE : ERR_IO, "cannot write %s/boot: %s", dir,
                        strerror(errno));
    return OK_ERR;
}

void store_boot_distrust(const char *dir)
{
    char path[600];
    boot_path(path, sizeof path, dir);
    unlink(path);
    file_sync_folder(dir);
}
