#include "client/guard_file.h"
#include "common/base/files.h"
#include "common/base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#define FILE_MAX 256

struct baton_guard {
    pthread_mutex_t lock;
    struct guard seen;
    char *dir, *name; /* NULL: in memory */
    int lock_fd;      /* of another file, which is never replaced; -1: none */
};

static struct err cannot(const char *verb, const char *path)
{
    return err_make(ERR_IO, "cannot %s the guard file %s: %s", verb, path, strerror(errno));
}

static void split_path(struct baton_guard *g, const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        g->dir = mem_strdup(".");
    else
        g->dir = slash == path ? mem_strdup("/") : mem_strndup(path, (size_t)(slash - path));
    g->name = mem_strdup(slash ? slash + 1 : path);
}

static struct err take_lock(struct baton_guard *g, const char *path)
{
    char *other = mem_printf("%s.lock", path);
    g->lock_fd = open(other, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    free(other);
    if (g->lock_fd < 0)
        return cannot("lock", path);
    if (flock(g->lock_fd, LOCK_EX | LOCK_NB) == 0)
        return OK_ERR;
    if (errno != EWOULDBLOCK)
        return cannot("lock", path);
    return err_make(ERR_IN_USE, "the guard file %s is in use: each guard has a file of its own",
                    path);
}

/* No file: nothing was seen yet. */
static struct err read_file(struct baton_guard *g, const char *path)
{
    uint8_t content[FILE_MAX];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? OK_ERR : cannot("read", path);
    ssize_t len = read(fd, content, sizeof content);
    struct err e =
        len < 0 ? cannot("read", path) : guard_decode(bytes_of(content, (size_t)len), &g->seen);
    close(fd);
    if (e.code == ERR_CORRUPT)
        e = err_make(ERR_CORRUPT, "guard file %s: %s", path, e.message);
    return e;
}

struct err guard_open(struct baton_guard **out, const char *path)
{
    struct baton_guard *g = mem_alloc(sizeof *g);
    struct err e = OK_ERR;
    pthread_mutex_init(&g->lock, NULL);
    g->lock_fd = -1;
    if (path) {
        split_path(g, path);
        e = take_lock(g, path);
    }
    if (path && !err_is(&e))
        e = read_file(g, path);
    if (err_is(&e))
        guard_close(g);
    else
        *out = g;
    return e;
}

void guard_close(struct baton_guard *g)
{
    if (!g)
        return;
    if (g->lock_fd >= 0)
        close(g->lock_fd);
    pthread_mutex_destroy(&g->lock);
    free(g->dir);
    free(g->name);
    free(g);
}

/* On disk first: a guard that forgot would admit what it had rejected. */
static struct err raise_to(struct baton_guard *g, const char *cluster, uint64_t epoch)
{
    struct guard next = g->seen;
    struct buf text = {0};
    guard_raise(&next, cluster, epoch);
    guard_encode(&next, &text);
    bool kept = !g->name || file_replace(g->dir, g->name, buf_view(&text), 0600);
    struct err e = kept ? OK_ERR : cannot("write", g->name);
    buf_close(&text);
    if (kept)
        g->seen = next;
    return e;
}

static struct err judge(struct baton_guard *g, const char *cluster, uint64_t epoch)
{
    if (!*cluster || strlen(cluster) >= GUARD_CLUSTER_MAX || strpbrk(cluster, " \n"))
        return err_make(ERR_USAGE, "'%.80s' is no cluster id", cluster);
    switch (guard_judge(&g->seen, cluster, epoch)) {
    case GUARD_SAME:
        return OK_ERR;
    case GUARD_HIGHER:
        return raise_to(g, cluster, epoch);
    case GUARD_STALE:
        return err_make(ERR_STALE_EPOCH, "epoch %" PRIu64 " was deposed: %" PRIu64 " was seen",
                        epoch, g->seen.epoch);
    case GUARD_OTHER_CLUSTER:
        break;
    }
    return err_make(ERR_OTHER_CLUSTER, "this is of cluster %s, the epochs known are of cluster %s",
                    cluster, g->seen.cluster);
}

struct err guard_admit(struct baton_guard *g, const char *cluster, uint64_t epoch)
{
    pthread_mutex_lock(&g->lock);
    struct err e = judge(g, cluster, epoch);
    pthread_mutex_unlock(&g->lock);
    return e;
}

struct guard guard_seen(struct baton_guard *g)
{
    pthread_mutex_lock(&g->lock);
    struct guard seen = g->seen;
    pthread_mutex_unlock(&g->lock);
    return seen;
}
