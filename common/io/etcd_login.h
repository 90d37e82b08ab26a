/* The user as which a process speaks to etcd, and the newest token that etcd gave it, shared by all
 * its clients: authenticating costs etcd some 65 ms of CPU. Any thread. The password is read from
 * its file each time one authenticates and is kept nowhere. */
#pragma once
#include "common/base/err.h"

struct etcd_login;

enum {
    ETCD_TOKEN_MAX = 2048
}; /* with its end; simple tokens are short, signed ones a few hundred */

struct etcd_login_config {
    const char *user, *password_file; /* borrowed for as long as the login lives */
    /* Each new token, on the thread of the client that got it; NULL: nobody wants it. */
    void (*on_token)(void *arg, const char *token);
    void *arg;
};

struct etcd_login *etcd_login_new(const struct etcd_login_config *cfg);
/* After all clients that use it; NULL is allowed. */
void etcd_login_free(struct etcd_login *l);
/* A token that another process of the same user got. */
void etcd_login_hand_over(struct etcd_login *l, const char *token);

/* Whether the password can be read; USAGE names the file. */
struct err etcd_login_check(const struct etcd_login_config *cfg);
