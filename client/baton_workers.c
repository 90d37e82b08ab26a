/* The workers of a cluster, one call at a time; and the cluster at a glance. */
#include "client/baton_parts.h"
#include "client/convert_cluster.h"

/* ---- what comes back ---- */

static struct err take_add(const struct rpc_answer *a, struct arena *memory, void *result)
{
    return cluster_decode_add(buf_view(&a->message), memory, result);
}

static struct err take_activate(const struct rpc_answer *a, struct arena *memory, void *result)
{
    return cluster_decode_activate(buf_view(&a->message), memory, result);
}

static struct err take_update(const struct rpc_answer *a, struct arena *memory, void *result)
{
    return cluster_decode_update(buf_view(&a->message), memory, result);
}

static struct err take_delete(const struct rpc_answer *a, struct arena *memory, void *result)
{
    return cluster_decode_delete(buf_view(&a->message), memory, result);
}

static struct err take_list(const struct rpc_answer *a, struct arena *memory, void *result)
{
    return cluster_decode_list(buf_view(&a->message), memory, result);
}

static struct err take_beat(const struct rpc_answer *a, struct arena *memory, void *result)
{
    return cluster_decode_heartbeat(buf_view(&a->message), result);
}

static struct err take_info(const struct rpc_answer *a, struct arena *memory, void *result)
{
    return cluster_decode_info(buf_view(&a->message), memory, result);
}

/* ---- what is asked ---- */

/* Nothing was called yet: *out and err say so. */
static int refuse(struct baton_workers **out, const char *what, struct baton_error *err)
{
    struct err e = err_make(ERR_BAD_REQUEST, "%s", what);
    if (out)
        *out = NULL;
    return api_fail(&e, NULL, err);
}

/* A call that answers with workers; body is used up. */
static int ask(struct baton_client *client, const struct baton_call *call,
               const struct client_request *kind, struct buf *body,
               struct err (*take)(const struct rpc_answer *, struct arena *, void *),
               struct baton_workers **out, struct baton_error *err)
{
    struct api_result result = {sizeof(struct baton_workers), take};
    struct baton_workers *made = api_call(client, call, kind, body, &result, err);
    if (made)
        client_saw_revision(client->calls, made->revision);
    if (out)
        *out = made;
    else
        baton_result_free(made);
    return made ? 0 : -1;
}

static bool are_named(const struct baton_label *labels, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!labels[i].name || !labels[i].value)
            return false;
    return true;
}

static bool are_counted(const struct baton_resource *resources, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!resources[i].name)
            return false;
    return true;
}

static bool are_texts(const char *const *all, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!all[i])
            return false;
    return true;
}

int baton_worker_add(struct baton_client *client, const struct baton_call *call,
                     const struct baton_worker_spec *spec, struct baton_workers **out,
                     struct baton_error *err)
{
    static const struct client_request kind = {.path = CLUSTER_PATH_ADD, .keeps_ids = true};
    struct buf body = {0};
    if (!spec->type || !spec->addr)
        return refuse(out, "a worker needs a type and an addr", err);
    if (spec->ttl_ms < 0)
        return refuse(out, "ttl_ms cannot be negative", err);
    if (!are_named(spec->labels, spec->label_count) ||
        !are_counted(spec->resources, spec->resource_count))
        return refuse(out, "a label needs a name and a value, a resource a name", err);
    cluster_encode_add(spec, &body);
    return ask(client, call, &kind, &body, take_add, out, err);
}

int baton_worker_activate(struct baton_client *client, const struct baton_call *call, uint64_t id,
                          uint64_t incarnation, struct baton_workers **out, struct baton_error *err)
{
    static const struct client_request kind = {.path = CLUSTER_PATH_ACTIVATE, .keeps_ids = true};
    struct buf body = {0};
    cluster_encode_activate(id, incarnation, &body);
    return ask(client, call, &kind, &body, take_activate, out, err);
}

int baton_worker_update(struct baton_client *client, const struct baton_call *call,
                        const struct baton_worker_change *change, struct baton_workers **out,
                        struct baton_error *err)
{
    static const struct client_request kind = {.path = CLUSTER_PATH_UPDATE, .keeps_ids = true};
    struct buf body = {0};
    if ((unsigned)change->cordoned > BATON_OFF || (unsigned)change->draining > BATON_OFF)
        return refuse(out, "no such toggle", err);
    if (!are_named(change->set_labels, change->set_label_count) ||
        !are_counted(change->set_resources, change->set_resource_count) ||
        !are_texts(change->remove_labels, change->remove_label_count) ||
        !are_texts(change->remove_resources, change->remove_resource_count))
        return refuse(out, "a label needs a name and a value, a resource a name", err);
    cluster_encode_update(change, &body);
    return ask(client, call, &kind, &body, take_update, out, err);
}

int baton_worker_delete(struct baton_client *client, const struct baton_call *call, uint64_t id,
                        uint64_t incarnation, struct baton_workers **out, struct baton_error *err)
{
    static const struct client_request kind = {.path = CLUSTER_PATH_DELETE, .keeps_ids = true};
    struct buf body = {0};
    cluster_encode_delete(id, incarnation, &body);
    return ask(client, call, &kind, &body, take_delete, out, err);
}

int baton_worker_list(struct baton_client *client, const struct baton_call *call,
                      const struct baton_worker_filter *filter, struct baton_workers **out,
                      struct baton_error *err)
{
    static const struct client_request kind = {.path = CLUSTER_PATH_LIST, .idempotent = true};
    static const struct baton_worker_filter all = {0};
    struct buf body = {0};
    if (!filter)
        filter = &all;
    if ((unsigned)filter->state > BATON_WORKER_EXPIRING)
        return refuse(out, "no such state", err);
    if (!are_named(filter->labels, filter->label_count))
        return refuse(out, "a label needs a name and a value", err);
    cluster_encode_list(filter, &body);
    return ask(client, call, &kind, &body, take_list, out, err);
}

int baton_worker_heartbeat(struct baton_client *client, const struct baton_call *call, uint64_t id,
                           uint64_t incarnation, struct baton_worker_beat *out,
                           struct baton_error *err)
{
    static const struct client_request kind = {.path = CLUSTER_PATH_HEARTBEAT, .idempotent = true};
    static const struct api_result result = {sizeof(struct baton_worker_beat), take_beat};
    struct buf body = {0};
    cluster_encode_heartbeat(id, incarnation, &body);
    struct baton_worker_beat *made = api_call(client, call, &kind, &body, &result, err);
    if (made && out)
        *out = *made;
    baton_result_free(made);
    return made ? 0 : -1;
}

int baton_cluster_info(struct baton_client *client, const struct baton_call *call,
                       struct baton_cluster_info **out, struct baton_error *err)
{
    static const struct client_request kind = {.path = CLUSTER_PATH_INFO, .idempotent = true};
    static const struct api_result result = {sizeof(struct baton_cluster_info), take_info};
    struct buf body = {0};
    *out = api_call(client, call, &kind, &body, &result, err);
    if (*out)
        client_saw_revision(client->calls, (*out)->revision);
    return *out ? 0 : -1;
}
