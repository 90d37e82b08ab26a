/* Keys and values. */
#include "client/baton_parts.h"
#include "client/convert_kv.h"

/* ---- what comes back ---- */

typedef struct err decode_kvs(struct bytes message, struct arena *memory, struct baton_kvs *out);

static struct err take(decode_kvs *decode, const struct rpc_answer *a, struct arena *memory,
                       struct baton_kvs *out)
{
    out->epoch = a->epoch;
    out->replayed = a->replayed;
    return decode(buf_view(&a->message), memory, out);
}

static struct err take_get(const struct rpc_answer *a, struct arena *memory, void *result)
{
    return take(kv_decode_get, a, memory, result);
}

static struct err take_range(const struct rpc_answer *a, struct arena *memory, void *result)
{
    return take(kv_decode_range, a, memory, result);
}

static struct err take_put(const struct rpc_answer *a, struct arena *memory, void *result)
{
    return take(kv_decode_put, a, memory, result);
}

static struct err take_delete(const struct rpc_answer *a, struct arena *memory, void *result)
{
    return take(kv_decode_delete, a, memory, result);
}

static struct err take_txn(const struct rpc_answer *a, struct arena *memory, void *result)
{
    struct baton_txn_result *out = result;
    out->epoch = a->epoch;
    out->replayed = a->replayed;
    return kv_decode_txn(buf_view(&a->message), memory, out);
}

static int give(struct baton_client *client, struct baton_kvs *made, struct baton_kvs **out)
{
    if (made)
        client_saw_revision(client->calls, made->revision);
    if (out)
        *out = made;
    else
        baton_result_free(made);
    return made ? 0 : -1;
}

/* ---- what is asked ---- */

/* Nothing was called yet: *out and err say so. */
static int refuse(const char *what, struct baton_error *err)
{
    struct err e = err_make(ERR_BAD_REQUEST, "%s", what);
    return api_fail(&e, NULL, err);
}

static bool is_read(const struct baton_read *read)
{
    return !read || (unsigned)read->consistency <= BATON_STALE;
}

static bool are_ops(const struct baton_op *ops, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if ((unsigned)ops[i].kind > BATON_OP_DELETE_PREFIX)
            return false;
    return true;
}

static bool are_compares(const struct baton_compare *all, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if ((unsigned)all[i].target > BATON_TARGET_MOD_REVISION ||
            (unsigned)all[i].relation > BATON_GREATER)
            return false;
    return true;
}

static struct client_request a_read(const char *path, const struct baton_read *read)
{
    return (struct client_request){
        .path = path, .idempotent = true, .as_addressed = read && read->consistency == BATON_STALE};
}

int baton_get(struct baton_client *client, const struct baton_call *call, struct baton_bytes key,
              const struct baton_read *read, struct baton_kvs **out, struct baton_error *err)
{
    static const struct api_result result = {sizeof(struct baton_kvs), take_get};
    struct client_request kind = a_read(KV_PATH_GET, read);
    struct buf body = {0};
    if (out)
        *out = NULL;
    if (!is_read(read))
        return refuse("no such consistency", err);
    kv_encode_get(key, read, &body);
    return give(client, api_call(client, call, &kind, &body, &result, err), out);
}

int baton_range(struct baton_client *client, const struct baton_call *call,
                const struct baton_range *range, const struct baton_read *read,
                struct baton_kvs **out, struct baton_error *err)
{
    static const struct api_result result = {sizeof(struct baton_kvs), take_range};
    struct client_request kind = a_read(KV_PATH_RANGE, read);
    struct buf body = {0};
    if (out)
        *out = NULL;
    if (!is_read(read))
        return refuse("no such consistency", err);
    kv_encode_range(range, read, &body);
    return give(client, api_call(client, call, &kind, &body, &result, err), out);
}

int baton_put(struct baton_client *client, const struct baton_call *call, struct baton_bytes key,
              struct baton_bytes value, struct baton_kvs **out, struct baton_error *err)
{
    static const struct api_result result = {sizeof(struct baton_kvs), take_put};
    static const struct client_request kind = {.path = KV_PATH_PUT, .keeps_ids = true};
    struct buf body = {0};
    kv_encode_put(key, value, &body);
    return give(client, api_call(client, call, &kind, &body, &result, err), out);
}

static int delete_keys(struct baton_client *client, const struct baton_call *call,
                       struct baton_bytes key, bool prefix, struct baton_kvs **out,
                       struct baton_error *err)
{
    static const struct api_result result = {sizeof(struct baton_kvs), take_delete};
    static const struct client_request kind = {.path = KV_PATH_DELETE, .keeps_ids = true};
    struct buf body = {0};
    kv_encode_delete(key, prefix, &body);
    return give(client, api_call(client, call, &kind, &body, &result, err), out);
}

int baton_delete(struct baton_client *client, const struct baton_call *call, struct baton_bytes key,
                 struct baton_kvs **out, struct baton_error *err)
{
    return delete_keys(client, call, key, false, out, err);
}

int baton_delete_prefix(struct baton_client *client, const struct baton_call *call,
                        struct baton_bytes prefix, struct baton_kvs **out, struct baton_error *err)
{
    return delete_keys(client, call, prefix, true, out, err);
}

int baton_txn(struct baton_client *client, const struct baton_call *call,
              const struct baton_txn *txn, struct baton_txn_result **out, struct baton_error *err)
{
    static const struct api_result result = {sizeof(struct baton_txn_result), take_txn};
    static const struct client_request kind = {.path = KV_PATH_TXN, .keeps_ids = true};
    struct buf body = {0};
    if (out)
        *out = NULL;
    if (!are_compares(txn->compares, txn->compare_count) ||
        !are_ops(txn->then_ops, txn->then_count) || !are_ops(txn->else_ops, txn->else_count))
        return refuse("no such target, relation or kind of operation", err);
    kv_encode_txn(txn, &body);
    struct baton_txn_result *made = api_call(client, call, &kind, &body, &result, err);
    if (made)
        client_saw_revision(client->calls, made->revision);
    if (out)
        *out = made;
    else
        baton_result_free(made);
    return made ? 0 : -1;
}
