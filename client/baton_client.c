/* Clients, and how their calls are made. */
#include "client/baton_parts.h"
#include "common/base/clock.h"
#include "common/base/mem.h"
#include <stdlib.h>

#define TIMEOUT_MS 15000
#define ID_MIN 16
#define ID_MAX 64

const char *baton_version(void)
{
    return BATON_VERSION;
}

static struct err check_options(const struct baton_options *o)
{
    if (!o || !o->addresses)
        return err_make(ERR_USAGE, "a client needs addresses: host:port[,host:port...]");
    if (o->timeout_ms < 0 || o->attempts_max < 0)
        return err_make(ERR_USAGE, "neither timeout_ms nor attempts_max can be negative");
    return OK_ERR;
}

int baton_client_new(struct baton_client **out, const struct baton_options *options,
                     struct baton_error *err)
{
    struct client *calls;
    struct err e = check_options(options);
    *out = NULL;
    if (err_is(&e))
        return api_fail(&e, NULL, err);
    struct client_config cfg = {.addresses = options->addresses,
                                .attempts_max = options->attempts_max,
                                .guard = options->guard};
    e = client_new(&calls, &cfg);
    if (err_is(&e))
        return api_fail(&e, NULL, err);
    *out = mem_alloc(sizeof **out);
    **out = (struct baton_client){
        .calls = calls, .timeout_ms = options->timeout_ms ? options->timeout_ms : TIMEOUT_MS};
    return 0;
}

void baton_client_free(struct baton_client *client)
{
    if (!client)
        return;
    client_free(client->calls);
    free(client);
}

int64_t api_deadline(const struct baton_client *client, const struct baton_call *how)
{
    int64_t ms = how && how->timeout_ms ? how->timeout_ms : client->timeout_ms,
            now = clock_boot_ms();
    return ms < INT64_MAX - now ? now + ms : INT64_MAX;
}

static struct err check_call(const struct baton_call *how)
{
    if (how && how->timeout_ms < 0)
        return err_make(ERR_USAGE, "timeout_ms cannot be negative");
    if (!how || !how->request_id)
        return OK_ERR;
    size_t len = strnlen(how->request_id, ID_MAX + 1);
    bool good = len >= ID_MIN && len <= ID_MAX;
    for (size_t i = 0; good && i < len; i++)
        good = how->request_id[i] > ' ' && how->request_id[i] <= '~';
    return good ? OK_ERR
                : err_make(ERR_BAD_REQUEST_ID,
                           "a request id has %d to %d printable characters and no blanks", ID_MIN,
                           ID_MAX);
}

static struct err make_result(const struct rpc_answer *a, const struct api_result *result,
                              void **out)
{
    void *made = api_result_new(result->size);
    struct err e = result->decode(a, api_result_memory(made), made);
    if (err_is(&e))
        baton_result_free(made);
    else
        *out = made;
    return e;
}

void *api_call(struct baton_client *client, const struct baton_call *how,
               const struct client_request *kind, struct buf *body, const struct api_result *result,
               struct baton_error *err)
{
    void *made = NULL;
    struct rpc_answer a = {0};
    struct client_request req = *kind;
    struct err e = check_call(how);
    req.body = buf_view(body);
    req.request_id = how ? how->request_id : NULL;
    if (err_is(&e)) {
        api_fail(&e, NULL, err);
    } else {
        e = client_call(client->calls, &req, api_deadline(client, how), &a);
        if (!err_is(&e))
            e = make_result(&a, result, &made);
        if (err_is(&e))
            api_fail(&e, &a, err);
    }
    rpc_answer_close(&a);
    buf_close(body);
    return made;
}
