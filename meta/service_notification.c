#include "common/base/mem.h"
#include "meta/board.h"
#include "meta/convert_notification.h"
#include "meta/metrics.h"
#include "meta/service_lead.h"
#include "meta/service_notification_parts.h"
#include <stdlib.h>

static void run_subscribe(struct rpc_call *call, void *ctx, uint64_t confirmed);

static void open_stream(struct service_notification *s, struct rpc_call *call,
                        const struct subscription *what, const struct resume *resume,
                        uint64_t epoch)
{
    struct buf wishes = {0};
    subscription_encode(what, &wishes);
    fanout_open(s->cfg.fanout,
                &(struct fanout_request){
                    .kind = &s->kind,
                    .filter = buf_view(&wishes),
                    .start = what->token.len ? FANOUT_RESUME : FANOUT_SNAPSHOT,
                    .resume = *resume,
                    .snapshot = true,
                    .epoch = epoch,
                    .user = meta_count_subscriber((const char *)what->kind.data),
                },
                call);
    buf_close(&wishes);
}

static struct err decode(struct rpc_call *call, struct arena *memory, struct subscription *what,
                         struct resume *resume)
{
    struct err e = convert_subscribe(rpc_call_body(call), memory, what);
    if (!err_is(&e) && what->token.len)
        e = resume_decode(what->token, resume);
    return e;
}

static void run_subscribe(struct rpc_call *call, void *ctx, uint64_t confirmed)
{
    struct service_notification *s = ctx;
    struct arena memory = {0};
    struct subscription what;
    struct resume resume = {0};
    if (!lead_check_epoch(s->cfg.lead, call, confirmed, run_subscribe, s))
        return;
    uint64_t epoch = confirmed ? confirmed : board_read_epoch(s->cfg.board);
    struct err e = decode(call, &memory, &what, &resume);
    if (err_is(&e))
        lead_fail(s->cfg.lead, call, &e);
    else if (!epoch)
        lead_confirm_or_refuse(s->cfg.lead, call, run_subscribe, s);
    else
        open_stream(s, call, &what, &resume, epoch);
    arena_close(&memory);
}

static void handle_subscribe(struct rpc_call *call, void *ctx)
{
    run_subscribe(call, ctx, 0);
}

void service_notification_changed(struct service_notification *s)
{
    if (!s)
        return;
    atomic_store(&s->table_old, true);
    fanout_touch(s->cfg.fanout);
}

void service_notification_methods(struct service_notification *s,
                                  struct rpc_method methods[SERVICE_NOTIFICATION_METHODS])
{
    methods[0] = (struct rpc_method){"/baton.v1.NotificationService/Subscribe", RPC_SERVER_STREAM,
                                     handle_subscribe, s};
}

struct service_notification *service_notification_new(const struct service_notification_config *cfg)
{
    struct service_notification *s = mem_alloc(sizeof *s);
    s->cfg = *cfg;
    s->table_old = true;
    pthread_mutex_init(&s->lock, NULL);
    notification_kind_fill(s);
    return s;
}

void service_notification_free(struct service_notification *s)
{
    if (!s)
        return;
    member_table_close(&s->table);
    pthread_mutex_destroy(&s->lock);
    free(s);
}
