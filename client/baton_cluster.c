/* Who leads, who is there, who led, and what operators do about it. */
#include "client/baton_parts.h"
#include "client/convert_member.h"
#include "client/calls.h"
#include <stdio.h>

static struct err take_members(const struct rpc_answer *a, struct arena *memory, void *result)
{
    return member_decode_list(buf_view(&a->message), memory, result);
}

static struct err take_removed(const struct rpc_answer *a, struct arena *memory, void *result)
{
    return member_decode_removed(buf_view(&a->message), memory, result);
}

static struct err take_history(const struct rpc_answer *a, struct arena *memory, void *result)
{
    return member_decode_history(buf_view(&a->message), memory, result);
}

static struct err take_transfer(const struct rpc_answer *a, struct arena *memory, void *result)
{
    return member_decode_transfer(buf_view(&a->message), result);
}

int baton_leader(struct baton_client *client, const struct baton_call *call,
                 struct baton_leader *out, struct baton_error *err)
{
    struct member_leader said;
    struct err e = client_leader(client->calls, api_deadline(client, call), &said);
    if (err_is(&e))
        return api_fail(&e, NULL, err);
    *out = (struct baton_leader){
        .known = said.known, .epoch = said.epoch, .age_ms = (int64_t)said.age_ms};
    snprintf(out->cluster_id, sizeof out->cluster_id, "%s", said.cluster);
    snprintf(out->id, sizeof out->id, "%s", said.id);
    snprintf(out->addr, sizeof out->addr, "%s", said.addr);
    return 0;
}

int baton_members(struct baton_client *client, const struct baton_call *call,
                  struct baton_members **out, struct baton_error *err)
{
    static const struct api_result result = {sizeof(struct baton_members), take_members};
    static const struct client_request kind = {
        .path = MEMBER_LIST, .idempotent = true, .any_member = true};
    struct buf body = {0};
    *out = api_call(client, call, &kind, &body, &result, err);
    return *out ? 0 : -1;
}

int baton_history(struct baton_client *client, const struct baton_call *call, unsigned limit,
                  struct baton_history **out, struct baton_error *err)
{
    static const struct api_result result = {sizeof(struct baton_history), take_history};
    static const struct client_request kind = {
        .path = MEMBER_HISTORY, .idempotent = true, .any_member = true};
    struct buf body = {0};
    member_encode_history(limit, &body);
    *out = api_call(client, call, &kind, &body, &result, err);
    return *out ? 0 : -1;
}

int baton_transfer(struct baton_client *client, const struct baton_call *call, const char *target,
                   struct baton_transferred *out, struct baton_error *err)
{
    static const struct api_result result = {sizeof(struct baton_transferred), take_transfer};
    static const struct client_request kind = {.path = MEMBER_TRANSFER};
    struct buf body = {0};
    member_encode_transfer(target ? target : "", &body);
    struct baton_transferred *made = api_call(client, call, &kind, &body, &result, err);
    if (made && out)
        *out = *made;
    baton_result_free(made);
    return made ? 0 : -1;
}

int baton_remove_member(struct baton_client *client, const struct baton_call *call, const char *id,
                        struct baton_members **out, struct baton_error *err)
{
    static const struct api_result result = {sizeof(struct baton_members), take_removed};
    static const struct client_request kind = {.path = MEMBER_REMOVE};
    struct buf body = {0};
    member_encode_remove(id, &body);
    struct baton_members *made = api_call(client, call, &kind, &body, &result, err);
    if (out)
        *out = made;
    else
        baton_result_free(made);
    return made ? 0 : -1;
}
