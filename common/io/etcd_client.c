/* The client's thread: takes commands, drives curl, reports what is over. */
#include "common/io/etcd_h2.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/base/thread.h"
#include <stdlib.h>
#include <utlist.h>

enum { POLL_MAX_MS = 60000 };

struct command {
    enum command_kind kind;
    void *what;
};

void client_command(struct etcd_client *c, enum command_kind kind, void *what)
{
    struct command cmd = {kind, what};
    queue_push_always(c->commands, mem_dup(&cmd, sizeof cmd));
    curl_multi_wakeup(c->multi);
}

/* Another endpoint may do better with all but what etcd decided about this request. */
void client_note(struct etcd_client *c, int endpoint, enum err_code code)
{
    bool elsewhere =
        code == ERR_UNREACHABLE || code == ERR_LOST || code == ERR_PROTOCOL || code == ERR_CORRUPT;
    if (elsewhere && endpoint == c->current)
        c->current = (c->current + 1) % c->endpoints.count;
}

struct err client_check_cluster(struct etcd_client *c, const struct etcd_header *h)
{
    if (h->cluster_id == 0 || h->cluster_id == c->cluster_id)
        return OK_ERR;
    if (c->cluster_id == 0) {
        c->cluster_id = h->cluster_id;
        return OK_ERR;
    }
    return err_make(ERR_PROTOCOL,
                    "etcd cluster id changed from %llx to %llx: the endpoints belong to different "
                    "etcd clusters, or this one was made anew",
                    (unsigned long long)c->cluster_id, (unsigned long long)h->cluster_id);
}

static void run_command(struct etcd_client *c, const struct command *cmd)
{
    switch (cmd->kind) {
    case COMMAND_CALL:
        transfer_start(cmd->what);
        break;
    case COMMAND_OPEN:
        stream_start(cmd->what);
        break;
    case COMMAND_CLOSE:
        stream_close(cmd->what);
        break;
    case COMMAND_STOP:
        c->stopping = true;
        while (c->running || c->parked)
            transfer_abort(c->running ? c->running : c->parked,
                           err_make(ERR_CANCELLED, "the etcd client is being stopped"));
        break;
    }
}

static void take_commands(struct etcd_client *c)
{
    struct command *cmd;
    while ((cmd = queue_pop(c->commands, 0))) {
        run_command(c, cmd);
        free(cmd);
    }
}

static void reap(struct etcd_client *c)
{
    CURLMsg *msg;
    int left;
    while ((msg = curl_multi_info_read(c->multi, &left))) {
        struct transfer *t;
        if (msg->msg != CURLMSG_DONE)
            continue;
        CURLcode rc = msg->data.result;
        if (h2_connected(c, msg->easy_handle, rc))
            continue;
        curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, &t);
        transfer_done(t, rc);
    }
}

static int wait_ms(struct etcd_client *c)
{
    int64_t next_ms = auth_expire(c), late_ms = h2_turn(c), now_ms = clock_boot_ms();
    if (late_ms < next_ms)
        next_ms = late_ms;
    if (next_ms <= now_ms)
        return 0;
    return next_ms - now_ms < POLL_MAX_MS ? (int)(next_ms - now_ms) : POLL_MAX_MS;
}

static void *run(void *arg)
{
    struct etcd_client *c = arg;
    for (;;) {
        int busy;
        take_commands(c);
        if (c->stopping)
            return NULL; /* nothing runs, nothing is queued, and no callback is left to queue more
                          */
        curl_multi_perform(c->multi, &busy);
        reap(c);
        int for_ms = wait_ms(c);
        unsigned fds = h2_poll(c);
        curl_multi_poll(c->multi, c->fds, fds, for_ms,
                        NULL); /* or a wakeup, or curl's own timers */
        h2_read(c);
    }
}

static void start_curl(void)
{
    POST(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK);
}

struct err etcd_client_new(struct etcd_client **out, const struct etcd_config *cfg)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct etcd_endpoints endpoints;
    PRE(strlen(cfg->name) < 16);
    pthread_once(&once, start_curl);
    struct err e = etcd_endpoints_parse(&endpoints, cfg->access.endpoints);
    *out = NULL;
    if (err_is(&e))
        return e;
    struct etcd_client *c = mem_alloc(sizeof *c);
    memcpy(c->name, cfg->name, strlen(cfg->name) + 1);
    c->endpoints = endpoints;
    c->connect_timeout_ms = cfg->connect_timeout_ms ? cfg->connect_timeout_ms : 1000;
    c->access = cfg->access;
    c->commands = queue_new(SIZE_MAX);
    c->multi = curl_multi_init();
    POST(c->multi);
    /* One for each endpoint stays open, whatever streams and late answers come between. */
    curl_multi_setopt(c->multi, CURLMOPT_MAXCONNECTS, 2L * ETCD_MAX_ENDPOINTS);
    c->thread = thread_start(cfg->name, run, c);
    *out = c;
    return OK_ERR;
}

void etcd_client_free(struct etcd_client *c)
{
    if (!c)
        return;
    PRE(!pthread_equal(pthread_self(), c->thread));
    client_command(c, COMMAND_STOP, NULL);
    pthread_join(c->thread, NULL);
    while (c->streams)
        stream_close(c->streams);
    h2_close(c);
    curl_multi_cleanup(c->multi);
    queue_free(c->commands);
    etcd_endpoints_close(&c->endpoints);
    free(c);
}

int etcd_endpoint_count(const struct etcd_client *c)
{
    return c->endpoints.count;
}

const char *etcd_endpoint_url(const struct etcd_client *c, int endpoint)
{
    PRE(endpoint >= 0 && endpoint < c->endpoints.count);
    return c->endpoints.urls[endpoint];
}
