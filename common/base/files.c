#include "common/base/files.h"
#include "common/base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The first error is the one to tell. */
static bool close_after(int fd, bool ok)
{
    int first = errno;
    if (close(fd) != 0 && ok)
        return false;
    errno = first;
    return ok;
}

bool file_sync_folder(const char *dir)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd >= 0 && close_after(fd, fsync(fd) == 0);
}

static bool write_all(int fd, struct bytes content)
{
    while (content.len) {
        ssize_t n = write(fd, content.data, content.len);
        if (n < 0 && errno != EINTR)
            return false;
        if (n > 0)
            content = bytes_of(content.data + n, content.len - (size_t)n);
    }
    return true;
}

static bool write_synced(const char *path, struct bytes content, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    return fd >= 0 && close_after(fd, write_all(fd, content) && fsync(fd) == 0);
}

bool file_replace(const char *dir, const char *name, struct bytes content, mode_t mode)
{
    char *path = mem_printf("%s/%s", dir, name), *fresh = mem_printf("%s.new", path);
    bool ok =
        write_synced(fresh, content, mode) && rename(fresh, path) == 0 && file_sync_folder(dir);
    int first = errno;
    free(fresh);
    free(path);
    errno = first;
    return ok;
}
