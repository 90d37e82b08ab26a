/* Inside of the member service: service_member.c answers what every member answers,
 * service_member_lead.c what only a leader does, service_member_restore.c what follows a restore of
 * etcd. */
#pragma once
#include "baton/v1/member.pb-c.h"
#include "meta/board.h"
#include "meta/service_lead.h"
#include "meta/service_member.h"
#include <pthread.h>

struct candidate;

struct service_member {
    struct service_member_config cfg;
    struct state_streams *leaders; /* the open WatchLeader streams */
    pthread_mutex_t lock;
    struct candidate *candidate; /* under the lock, and only there; NULL: nobody leads here */
};

/* ---- service_member.c ---- */
void service_member_reply(struct rpc_call *call, const ProtobufCMessage *m);
/* Of what only a leader answers. */
void service_member_lead_reply(struct service_member *s, struct rpc_call *call, uint64_t epoch,
                               const ProtobufCMessage *m);
void service_member_bad_request(struct rpc_call *call);
/* What the list says of one member; the message borrows from info. */
void service_member_fill(struct service_member *s, const struct member_info *info,
                         const struct board_leader *leader, Baton__V1__Member *m);

/* The members as this one knows them; what the messages show lives in the list. */
struct service_member_list {
    struct board_leader leader;
    struct member_info *infos;
    Baton__V1__Member *items, **list;
    size_t count;
};
void service_member_list(struct service_member *s, struct service_member_list *out);
void service_member_list_close(struct service_member_list *l);

/* ---- service_member_lead.c: handlers ---- */
void service_member_transfer(struct rpc_call *call, void *ctx);
void service_member_remove(struct rpc_call *call, void *ctx);

/* ---- service_member_restore.c: handlers ---- */
void service_member_restore(struct rpc_call *call, void *ctx);
void service_member_recover(struct rpc_call *call, void *ctx);
