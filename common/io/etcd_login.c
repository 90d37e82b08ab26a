#include "common/io/etcd_login_parts.h"
#include "common/base/backoff.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/mem.h"
#include "common/io/etcd_codec.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    PASSWORD_MAX = 1024,
    REFUSED_MIN_MS = 500, /* from a refusal to the next try */
    REFUSED_MAX_MS = 5000,
    UNHEARD_MAX = 3, /* requests without an answer that make a token doubtful */
    RENEW_MS = 5000, /* but it is not replaced more often than this for that */
};

struct etcd_login {
    struct etcd_login_config cfg;
    pthread_mutex_t lock;
    char token[ETCD_TOKEN_MAX]; /* "": none */
    uint64_t number;            /* of the newest token; grows */
    bool not_asked;
    int unheard;
    int64_t got_ms;
    struct err refusal; /* the last answer; OK: not refused */
    int64_t not_before_ms;
    struct backoff backoff;
    struct rng rng;
};

struct etcd_login *etcd_login_new(const struct etcd_login_config *cfg)
{
    struct etcd_login *l = mem_alloc(sizeof *l);
    l->cfg = *cfg;
    pthread_mutex_init(&l->lock, NULL);
    l->backoff = (struct backoff){.min_ms = REFUSED_MIN_MS, .max_ms = REFUSED_MAX_MS};
    rng_seed_os(&l->rng);
    return l;
}

void etcd_login_free(struct etcd_login *l)
{
    if (!l)
        return;
    pthread_mutex_destroy(&l->lock);
    explicit_bzero(l->token, sizeof l->token);
    free(l);
}

/* ---- the token ---- */

static void take(struct etcd_login *l, const char *token)
{
    size_t len = strlen(token);
    if (len >= sizeof l->token)
        return;
    pthread_mutex_lock(&l->lock);
    memcpy(l->token, token, len + 1);
    l->number++;
    l->not_asked = false;
    l->unheard = 0;
    l->got_ms = clock_boot_ms();
    l->refusal = OK_ERR;
    backoff_reset(&l->backoff);
    pthread_mutex_unlock(&l->lock);
}

void etcd_login_hand_over(struct etcd_login *l, const char *token)
{
    take(l, token);
}

void login_got(struct etcd_login *l, const char *token)
{
    take(l, token);
    if (l->cfg.on_token)
        l->cfg.on_token(l->cfg.arg, token);
}

bool login_token(struct etcd_login *l, char room[ETCD_TOKEN_MAX], uint64_t *number)
{
    pthread_mutex_lock(&l->lock);
    bool ready = l->token[0] || l->not_asked;
    memcpy(room, l->token, strlen(l->token) + 1);
    *number = l->token[0] ? l->number : 0;
    pthread_mutex_unlock(&l->lock);
    return ready;
}

void login_drop(struct etcd_login *l, uint64_t number)
{
    pthread_mutex_lock(&l->lock);
    if (number == 0)
        l->not_asked = false;
    else if (number == l->number)
        l->token[0] = 0;
    pthread_mutex_unlock(&l->lock);
}

void login_heard(struct etcd_login *l, uint64_t number)
{
    pthread_mutex_lock(&l->lock);
    if (number == l->number)
        l->unheard = 0;
    pthread_mutex_unlock(&l->lock);
}

void login_not_heard(struct etcd_login *l, uint64_t number)
{
    pthread_mutex_lock(&l->lock);
    if (number && number == l->number && ++l->unheard >= UNHEARD_MAX &&
        clock_boot_ms() - l->got_ms >= RENEW_MS)
        l->token[0] = 0;
    pthread_mutex_unlock(&l->lock);
}

/* ---- authenticating ---- */

/* Without the line's end that editors put behind it. */
static struct err read_password(const char *path, char room[PASSWORD_MAX + 1])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, room, PASSWORD_MAX + 1);
    int failed = errno;
    if (fd >= 0)
        close(fd);
    if (n < 0)
        return err_make(ERR_USAGE, "--etcd-password-file %s: %s", path, strerror(failed));
    if (n > PASSWORD_MAX)
        return err_make(ERR_USAGE, "--etcd-password-file %s: longer than %d bytes", path,
                        PASSWORD_MAX);
    while (n > 0 && (room[n - 1] == '\n' || room[n - 1] == '\r'))
        n--;
    room[n] = 0;
    if (n == 0 || strlen(room) != (size_t)n)
        return err_make(ERR_USAGE, "--etcd-password-file %s: holds no password", path);
    return OK_ERR;
}

struct err etcd_login_check(const struct etcd_login_config *cfg)
{
    char password[PASSWORD_MAX + 1];
    struct err e = read_password(cfg->password_file, password);
    explicit_bzero(password, sizeof password);
    return e;
}

struct err login_request(struct etcd_login *l, struct buf *body)
{
    char password[PASSWORD_MAX + 1];
    pthread_mutex_lock(&l->lock);
    struct err e = l->refusal;
    if (clock_boot_ms() >= l->not_before_ms)
        e = OK_ERR;
    pthread_mutex_unlock(&l->lock);
    if (err_is(&e))
        return e;
    e = read_password(l->cfg.password_file, password);
    if (err_is(&e)) {
        e.code = ERR_DENIED;
        login_refused(l, &e);
    } else {
        etcd_encode_authenticate(body, l->cfg.user, password);
    }
    explicit_bzero(password, sizeof password);
    return e;
}

void login_refused(struct etcd_login *l, const struct err *why)
{
    pthread_mutex_lock(&l->lock);
    l->refusal = *why;
    l->not_before_ms = clock_boot_ms() + backoff_next_ms(&l->backoff, &l->rng);
    pthread_mutex_unlock(&l->lock);
}

void login_not_asked(struct etcd_login *l)
{
    pthread_mutex_lock(&l->lock);
    bool told = l->not_asked;
    l->not_asked = true;
    l->token[0] = 0;
    l->refusal = OK_ERR;
    pthread_mutex_unlock(&l->lock);
    if (!told)
        log_warn("etcd asks for no user (its authentication is off): --etcd-user %s is not used",
                 l->cfg.user);
}
