#include "meta/reporter.h"
#include "baton/v1/member.pb-c.h"
#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/base/queue.h"
#include "common/base/thread.h"
#include "common/io/rpc_client.h"
#include "meta/board.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { EVERY_MS = 1000, AGAIN_MS = 100, TIMEOUT_MS = 800 };

struct reporter {
    struct board *board;
    const char *member_id;
    pthread_t thread;
    struct queue *wakes;
    _Atomic bool stopping;
    struct rpc_channel *channel; /* to the leader of the last report */
};

static void connect_to(struct reporter *r, const char *addr)
{
    if (r->channel && strcmp(rpc_channel_addr(r->channel), addr) == 0)
        return;
    if (r->channel)
        rpc_channel_free(r->channel);
    r->channel = rpc_channel_new(addr);
}

static struct err report(struct reporter *r, const struct board_leader *leader)
{
    Baton__V1__ReportRequest m = BATON__V1__REPORT_REQUEST__INIT;
    m.member_id = (char *)r->member_id;
    m.applied_revision = leader->revision;
    m.epoch = leader->epoch;
    struct buf body = {0};
    struct rpc_answer answer = {0};
    buf_reserve(&body, baton__v1__report_request__get_packed_size(&m));
    body.len = baton__v1__report_request__pack(&m, body.data);
    connect_to(r, leader->addr);
    struct err e =
        rpc_channel_call(r->channel, "/baton.v1.ClusterMemberService/Report", buf_view(&body), NULL,
                         0, clock_boot_ms() + TIMEOUT_MS, &answer);
    rpc_answer_close(&answer);
    buf_close(&body);
    return e;
}

static void *reporter_run(void *arg)
{
    struct reporter *r = arg;
    while (!atomic_load(&r->stopping)) {
        struct board_leader leader;
        struct err e = OK_ERR;
        board_leader(r->board, &leader);
        if (leader.known && strcmp(leader.id, r->member_id) != 0)
            e = report(r, &leader);
        queue_pop(r->wakes, err_is(&e) ? AGAIN_MS : EVERY_MS); /* it may be activating */
    }
    if (r->channel)
        rpc_channel_free(r->channel);
    return NULL;
}

struct reporter *reporter_start(struct board *board, const char *member_id)
{
    struct reporter *r = mem_alloc(sizeof *r);
    r->board = board;
    r->member_id = member_id;
    r->wakes = queue_new(4);
    r->thread = thread_start("reporter", reporter_run, r);
    return r;
}

void reporter_stop(struct reporter *r)
{
    if (!r)
        return;
    atomic_store(&r->stopping, true);
    queue_push_always(r->wakes, r);
    pthread_join(r->thread, NULL);
    queue_free(r->wakes);
    free(r);
}
