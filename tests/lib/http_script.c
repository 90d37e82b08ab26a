#include "tests/lib/http_script.h"
#include "common/base/buf.h"
#include "common/base/check.h"
#include "common/base/mem.h"
#include "common/base/thread.h"
#include "tests/lib/loopback.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

struct http_script {
    int listener;
    _Atomic int connection; /* -1: none */
    char *url;
    pthread_t thread;
    const char *const *answers;
    _Atomic int requests;
    _Atomic bool stopping;
};

/* False when the client closed. */
static bool read_request(int fd)
{
    char text[65536];
    size_t len = 0, want = sizeof text;
    while (len < want) {
        ssize_t n = recv(fd, text + len, sizeof text - 1 - len, 0);
        if (n <= 0)
            return false;
        len += (size_t)n;
        text[len] = 0;
        const char *end = strstr(text, "\r\n\r\n"), *length = strcasestr(text, "content-length:");
        if (end)
            want = (size_t)(end + 4 - text) + (size_t)(length ? atoi(length + 15) : 0);
    }
    return true;
}

/* False when the connection is to be closed. */
static bool answer(int fd, const char *text)
{
    size_t len = strlen(text);
    char last = len ? text[len - 1] : 0;
    len -= last >= 1 && last <= 3;
    if (send(fd, text, len, MSG_NOSIGNAL) != (ssize_t)len || last == SCRIPT_CLOSE[0])
        return false;
    char more[65536];
    memset(more, 'x', sizeof more);
    while (last == SCRIPT_ENDLESS[0])
        if (send(fd, more, sizeof more, MSG_NOSIGNAL) <= 0)
            return false;
    while (last == SCRIPT_SILENT[0])
        if (recv(fd, more, sizeof more, 0) <= 0)
            return false;
    return true;
}

static void serve(struct http_script *s, int fd)
{
    while (read_request(fd)) {
        const char *text = *s->answers ? *s->answers : SCRIPT_SILENT;
        s->answers += *s->answers != NULL;
        s->requests++;
        if (!answer(fd, text))
            break;
    }
}

static void *run(void *arg)
{
    struct http_script *s = arg;
    while (!s->stopping) {
        int fd = accept(s->listener, NULL, NULL);
        s->connection = fd;
        if (fd < 0)
            continue;
        if (s->stopping)
            shutdown(fd, SHUT_RDWR);
        serve(s, fd);
        s->connection = -1;
        close(fd);
    }
    return NULL;
}

struct http_script *http_script_start(const char *const *answers)
{
    struct http_script *s = mem_alloc(sizeof *s);
    s->answers = answers;
    s->connection = -1;
    s->listener = loopback_listen(&s->url);
    s->thread = thread_start("http-script", run, s);
    return s;
}

void http_script_free(struct http_script *s)
{
    s->stopping = true;
    int fd = s->connection;
    if (fd >= 0)
        shutdown(fd, SHUT_RDWR);
    shutdown(s->listener, SHUT_RDWR);
    pthread_join(s->thread, NULL);
    close(s->listener);
    free(s->url);
    free(s);
}

const char *http_script_url(const struct http_script *s)
{
    return s->url;
}

int http_script_requests(const struct http_script *s)
{
    return s->requests;
}
