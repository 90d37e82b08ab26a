#include "meta/marks.h"
#include "common/base/clock.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/base/thread.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { PATH_BYTES = 600, LINE_BYTES = 2048, LAZY_MS = 5000 };

struct marks {
    char dir[512];
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool stopping;
    struct marks_status status;
    bool accepted; /* in this life */
    bool urgent, dirty;
    struct log_limit trouble_limit;
};

/* ---- the file ---- */

static struct err trouble(const struct marks *m, const char *what)
{
    enum err_code code = errno == EACCES || errno == EPERM ? ERR_DENIED : ERR_IO;
    return err_make(code, "data directory %s: cannot %s what it has seen: %s", m->dir, what,
                    strerror(errno));
}

static struct err read_file(struct marks *m)
{
    char path[PATH_BYTES], line[LINE_BYTES];
    snprintf(path, sizeof path, "%s/seen", m->dir);
    restore_mark_init(&m->status.mark);
    FILE *f = fopen(path, "re");
    if (!f)
        return errno == ENOENT ? OK_ERR : trouble(m, "read");
    size_t len = fread(line, 1, sizeof line, f);
    bool bad = ferror(f) != 0;
    fclose(f);
    if (bad)
        return trouble(m, "read");
    if (len < 1 || len == sizeof line || line[len - 1] != '\n')
        return err_make(ERR_CORRUPT,
                        "%s/seen is cut short; remove it only if etcd was not restored since",
                        m->dir);
    struct err e = restore_mark_decode(bytes_of(line, len - 1), &m->status.mark);
    if (err_is(&e))
        return err_make(ERR_CORRUPT, "%s/seen: %s; remove it only if etcd was not restored since",
                        m->dir, e.message);
    return OK_ERR;
}

static bool write_file(struct marks *m, const struct restore_mark *mark)
{
    struct buf line = {0};
    restore_mark_encode(mark, &line);
    buf_byte(&line, '\n');
    bool ok = file_replace(m->dir, "seen", buf_view(&line), 0666);
    buf_close(&line);
    return ok;
}

/* ---- the thread that writes it ---- */

/* Under the lock, which is let go while the disk works. */
static void save(struct marks *m)
{
    struct restore_mark mark = m->status.mark;
    m->urgent = m->dirty = false;
    pthread_mutex_unlock(&m->lock);
    bool ok = write_file(m, &mark);
    struct err e = ok ? OK_ERR : trouble(m, "write");
    pthread_mutex_lock(&m->lock);
    if (ok)
        return;
    log_limited(&m->trouble_limit, LOG_ERROR, "%s", e.message);
    m->dirty = true;
}

static void *run(void *arg)
{
    struct marks *m = arg;
    pthread_mutex_lock(&m->lock);
    while (!m->stopping) {
        struct timespec until = clock_mono_after(LAZY_MS);
        while (!m->stopping && !m->urgent &&
               pthread_cond_timedwait(&m->changed, &m->lock, &until) != ETIMEDOUT)
            ;
        if (m->urgent || m->dirty)
            save(m);
    }
    pthread_mutex_unlock(&m->lock);
    return NULL;
}

/* Under the lock. */
static void note(struct marks *m, bool urgent)
{
    m->dirty = true;
    if (urgent && !m->urgent) {
        m->urgent = true;
        pthread_cond_signal(&m->changed);
    }
}

struct err marks_open(struct marks **out, const char *dir, const char *cluster_id,
                      const char *etcd_cluster_id)
{
    struct marks *m = mem_alloc(sizeof *m);
    pthread_condattr_t attr;
    snprintf(m->dir, sizeof m->dir, "%s", dir);
    m->status.started_unix_ms = clock_unix_ms();
    struct err e = read_file(m);
    if (err_is(&e)) {
        free(m);
        return e;
    }
    struct restore_mark *mark = &m->status.mark;
    if (!mark->cluster.id[0])
        snprintf(mark->cluster.id, sizeof mark->cluster.id, "%s", cluster_id);
    if (!mark->etcd)
        mark->etcd = strtoull(etcd_cluster_id, NULL, 10);
    pthread_mutex_init(&m->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&m->changed, &attr);
    pthread_condattr_destroy(&attr);
    m->thread = thread_start("marks", run, m);
    *out = m;
    return OK_ERR;
}

void marks_close(struct marks *m)
{
    if (!m)
        return;
    pthread_mutex_lock(&m->lock);
    m->stopping = true;
    pthread_cond_signal(&m->changed);
    pthread_mutex_unlock(&m->lock);
    pthread_join(m->thread, NULL);
    pthread_mutex_lock(&m->lock);
    if (m->dirty)
        save(m);
    pthread_mutex_unlock(&m->lock);
    pthread_cond_destroy(&m->changed);
    pthread_mutex_destroy(&m->lock);
    free(m);
}

/* ---- what was seen ---- */

void marks_see(struct marks *m, const struct record *record, int64_t revision)
{
    pthread_mutex_lock(&m->lock);
    if (!err_is(&m->status.refused))
        note(m, restore_mark_see(&m->status.mark, record, revision));
    pthread_mutex_unlock(&m->lock);
}

void marks_get(struct marks *m, struct restore_mark *out)
{
    pthread_mutex_lock(&m->lock);
    *out = m->status.mark;
    pthread_mutex_unlock(&m->lock);
}

void marks_status(struct marks *m, struct marks_status *out)
{
    pthread_mutex_lock(&m->lock);
    *out = m->status;
    pthread_mutex_unlock(&m->lock);
}

/* ---- verdicts ---- */

void marks_accept(struct marks *m, const struct cluster *cluster, uint64_t etcd)
{
    pthread_mutex_lock(&m->lock);
    struct marks_status *s = &m->status;
    bool news = s->mark.etcd != etcd || !cluster_equal(&s->mark.cluster, cluster);
    s->mark.cluster = *cluster;
    s->mark.etcd = etcd;
    s->refused = OK_ERR;
    s->ran_before = false;
    m->accepted = true;
    if (news)
        note(m, true);
    pthread_mutex_unlock(&m->lock);
}

void marks_begin(struct marks *m, const struct restore_view *v)
{
    pthread_mutex_lock(&m->lock);
    restore_mark_begin(&m->status.mark, v);
    note(m, true);
    pthread_mutex_unlock(&m->lock);
}

void marks_refuse(struct marks *m, const struct err *why)
{
    pthread_mutex_lock(&m->lock);
    if (!err_is(&m->status.refused)) {
        m->status.ran_before = m->accepted;
        note(m, true);
    }
    m->status.refused = *why;
    pthread_mutex_unlock(&m->lock);
}
