/* baton-proxy: one address for a Baton cluster. */
#include "common/base/log.h"
#include "proto/baton_desc.h"
#include "proxy/admin.h"
#include "proxy/metrics_rows.h"
#include "proxy/server.h"
#include <stdio.h>
#include <stdlib.h>

static struct err read_file(const char *path, struct buf *out)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return err_make(ERR_USAGE, "--descriptor-set %s: cannot be opened", path);
    char chunk[4096];
    size_t n;
    while ((n = fread(chunk, 1, sizeof chunk, f)) > 0)
        buf_append(out, chunk, n);
    bool failed = ferror(f);
    fclose(f);
    return failed ? err_make(ERR_USAGE, "--descriptor-set %s: cannot be read", path) : OK_ERR;
}

static void add_replay_methods(struct method_table *t, const char *list)
{
    while (*list) {
        size_t n = strcspn(list, ",");
        struct buf path = {0};
        if (*list != '/')
            buf_byte(&path, '/');
        buf_append(&path, list, n);
        struct method method = method_table_find(t, buf_view(&path));
        method.class = METHOD_READ;
        if (n)
            method_table_add(t, buf_view(&path), method);
        buf_close(&path);
        list += n + (list[n] == ',');
    }
}

static struct err load_methods(struct proxy_shared *shared)
{
    const struct proxy_options *o = &shared->options;
    struct err e =
        method_table_load(&shared->methods, bytes_of(baton_desc, baton_desc_len), "baton.v1");
    if (!err_is(&e) && o->descriptor_set[0]) {
        struct buf set = {0};
        e = read_file(o->descriptor_set, &set);
        if (!err_is(&e)) {
            e = method_table_load(&shared->methods, buf_view(&set), o->dedup_service);
            if (err_is(&e))
                e = err_wrap(e, "--descriptor-set %s", o->descriptor_set);
        }
        buf_close(&set);
    }
    add_replay_methods(&shared->methods, o->replay_methods);
    return e;
}

static void name_instance(struct proxy_shared *shared)
{
    struct rng rng;
    rng_seed_os(&rng);
    rng_hex(&rng, shared->instance, 16);
    snprintf(shared->via, sizeof shared->via, "baton %s", shared->instance);
}

static int complain(const struct err *e)
{
    if (e->code == ERR_USAGE) { /* to whoever typed it, no event of a running proxy */
        fprintf(stderr, "baton-proxy: %s\n", e->message);
        return 2;
    }
    log_error("%s", e->message);
    return 1;
}

static struct err serve(struct proxy_shared *shared)
{
    struct server *server;
    struct admin *admin;
    struct err e = server_start(shared, &server);
    if (err_is(&e))
        return e;
    e = admin_start(shared->options.http, server, shared, &admin);
    if (err_is(&e)) {
        server_stop(server);
    } else {
        bool drained = server_run(server);
        if (!drained)
            e = err_make(ERR_CANCELLED, "ended before its calls did");
        else
            log_info("ended");
    }
    admin_stop(admin);
    server_free(server);
    return e;
}

int main(int argc, char **argv)
{
    static struct proxy_shared shared;
    struct proxy_options *o = &shared.options;
    enum option_show show = OPTION_SHOW_NOTHING;
    enum log_level level = LOG_INFO;
    if (metrics_doc_asked(argc, argv, proxy_metrics, PROXY_METRICS))
        return 0;
    log_init("baton-proxy", LOG_INFO);
    struct err e = proxy_options_parse(o, &argc, argv, &show);
    if (err_is(&e))
        return complain(&e);
    if (show != OPTION_SHOW_NOTHING)
        return 0;
    log_level_parse(o->log_level, &level);
    log_init("baton-proxy", level);
    e = load_methods(&shared);
    if (err_is(&e))
        return complain(&e);
    name_instance(&shared);
    shared.first_window = proxy_options_first_window(o);
    shared.relay_limits = (struct relay_limits){.replay_attempts = (unsigned)o->replay_attempts,
                                                .replay_window_ms = o->replay_window_ms};
    e = serve(&shared);
    method_table_close(&shared.methods);
    return err_is(&e) ? complain(&e) : 0;
}
