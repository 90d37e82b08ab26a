#include "meta/store_boot.h"
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

static void boot_path(char *out, size_t cap, const char *dir, const char *suffix)
{
    snprintf(out, cap, "%s/boot%s", dir, suffix);
}

static void format_line(char line[LINE_BYTES], const char *boot_id, bool closed)
{
    snprintf(line, LINE_BYTES, "%s %s\n", closed ? "closed" : "open", boot_id);
}

bool store_boot_trusts(const char *dir, const char *boot_id)
{
    char path[600], line[LINE_BYTES] = "", same_boot[LINE_BYTES];
    boot_path(path, sizeof path, dir, "");
    FILE *f = fopen(path, "re");
    if (!f)
        return false;
    bool read = fgets(line, sizeof line, f) != NULL;
    fclose(f);
    format_line(same_boot, boot_id, false);
    return read &&
           (strncmp(line, "closed ", 7) == 0 || (boot_id[0] && strcmp(line, same_boot) == 0));
}

static bool write_synced(const char *path, const char *line)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return false;
    size_t len = strlen(line);
    bool ok = write(fd, line, len) == (ssize_t)len && fsync(fd) == 0;
    return close(fd) == 0 && ok;
}

static bool sync_dir(const char *dir)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool ok = fsync(fd) == 0;
    close(fd);
    return ok;
}

struct err store_boot_mark(const char *dir, const char *boot_id, bool closed)
{
    char path[600], fresh[600], line[LINE_BYTES];
    boot_path(path, sizeof path, dir, "");
    boot_path(fresh, sizeof fresh, dir, ".new");
    format_line(line, boot_id, closed);
    if (!write_synced(fresh, line) || rename(fresh, path) != 0 || !sync_dir(dir))
        return err_make(errno == ENOSPC ? ERR_NO_SPACE : ERR_IO, "cannot write %s: %s", path,
                        strerror(errno));
    return OK_ERR;
}

void store_boot_distrust(const char *dir)
{
    char path[600];
    boot_path(path, sizeof path, dir, "");
    unlink(path);
    sync_dir(dir);
}
