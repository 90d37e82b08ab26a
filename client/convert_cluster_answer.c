#include "client/convert_cluster.h"
#include "client/convert_item.h"
#include "client/convert_worker.h"

/* The answers to changes are all alike: the revision, and the worker as it is now, or was. */
static struct err take_one(int64_t revision, Baton__V1__Worker *worker, struct arena *memory,
                           struct baton_workers *out)
{
    out->revision = revision;
    out->count = 1;
    out->workers = worker_convert_all(&worker, 1, memory);
    return OK_ERR;
}

struct err cluster_decode_add(struct bytes message, struct arena *memory, struct baton_workers *out)
{
    Baton__V1__AddWorkerResponse *m =
        baton__v1__add_worker_response__unpack(NULL, message.len, message.data);
    struct err e = m && m->worker ? take_one(m->revision, m->worker, memory, out)
                                  : item_garbled("AddWorkerResponse");
    baton__v1__add_worker_response__free_unpacked(m, NULL);
    return e;
}

struct err cluster_decode_activate(struct bytes message, struct arena *memory,
                                   struct baton_workers *out)
{
    Baton__V1__ActivateWorkerResponse *m =
        baton__v1__activate_worker_response__unpack(NULL, message.len, message.data);
    struct err e = m && m->worker ? take_one(m->revision, m->worker, memory, out)
                                  : item_garbled("ActivateWorkerResponse");
    baton__v1__activate_worker_response__free_unpacked(m, NULL);
    return e;
}

struct err cluster_decode_update(struct bytes message, struct arena *memory,
                                 struct baton_workers *out)
{
    Baton__V1__UpdateWorkerResponse *m =
        baton__v1__update_worker_response__unpack(NULL, message.len, message.data);
    struct err e = m && m->worker ? take_one(m->revision, m->worker, memory, out)
                                  : item_garbled("UpdateWorkerResponse");
    baton__v1__update_worker_response__free_unpacked(m, NULL);
    return e;
}

struct err cluster_decode_delete(struct bytes message, struct arena *memory,
                                 struct baton_workers *out)
{
    Baton__V1__DeleteWorkerResponse *m =
        baton__v1__delete_worker_response__unpack(NULL, message.len, message.data);
    struct err e = m && m->worker ? take_one(m->revision, m->worker, memory, out)
                                  : item_garbled("DeleteWorkerResponse");
    baton__v1__delete_worker_response__free_unpacked(m, NULL);
    return e;
}

struct err cluster_decode_list(struct bytes message, struct arena *memory,
                               struct baton_workers *out)
{
    Baton__V1__ListWorkersResponse *m =
        baton__v1__list_workers_response__unpack(NULL, message.len, message.data);
    if (!m)
        return item_garbled("ListWorkersResponse");
    out->revision = m->revision;
    out->more = m->more;
    out->count = m->n_workers;
    out->workers = worker_convert_all(m->workers, m->n_workers, memory);
    baton__v1__list_workers_response__free_unpacked(m, NULL);
    return OK_ERR;
}

struct err cluster_decode_heartbeat(struct bytes message, struct baton_worker_beat *out)
{
    Baton__V1__HeartbeatResponse *m =
        baton__v1__heartbeat_response__unpack(NULL, message.len, message.data);
    if (!m)
        return item_garbled("HeartbeatResponse");
    *out = (struct baton_worker_beat){
        .ttl_ms = (int64_t)m->ttl_ms, .cordoned = m->cordoned, .draining = m->draining};
    baton__v1__heartbeat_response__free_unpacked(m, NULL);
    return OK_ERR;
}

static void take_types(const Baton__V1__GetClusterInfoResponse *m, struct arena *memory,
                       struct baton_cluster_info *out)
{
    struct baton_worker_type *types = arena_array(memory, m->n_worker_types, sizeof *types);
    for (size_t i = 0; i < m->n_worker_types; i++) {
        const Baton__V1__GetClusterInfoResponse__WorkerType *from = m->worker_types[i];
        types[i] = (struct baton_worker_type){.type = item_keep_text(from->type, memory),
                                              .starting = from->starting,
                                              .running = from->running,
                                              .expiring = from->expiring,
                                              .unschedulable = from->unschedulable,
                                              .slots = from->slots};
    }
    out->types = types;
    out->type_count = m->n_worker_types;
}

static void take_activity(const Baton__V1__GetClusterInfoResponse__Activity *from,
                          struct baton_cluster_info *out)
{
    out->commits = from->commits;
    out->writes = from->writes;
    out->reads = from->reads;
    out->heartbeats = from->heartbeats;
    out->streams = from->streams;
}

struct err cluster_decode_info(struct bytes message, struct arena *memory,
                               struct baton_cluster_info *out)
{
    Baton__V1__GetClusterInfoResponse *m =
        baton__v1__get_cluster_info_response__unpack(NULL, message.len, message.data);
    if (!m)
        return item_garbled("GetClusterInfoResponse");
    *out = (struct baton_cluster_info){.cluster_id = item_keep_text(m->cluster_id, memory),
                                       .leader_id = item_keep_text(m->leader_id, memory),
                                       .leader_addr = item_keep_text(m->leader_addr, memory),
                                       .revision = m->revision,
                                       .epoch = m->epoch,
                                       .keys = m->keys,
                                       .workers = m->workers,
                                       .members = m->members,
                                       .format_level = m->format_level};
    take_types(m, memory, out);
    if (m->activity)
        take_activity(m->activity, out);
    baton__v1__get_cluster_info_response__free_unpacked(m, NULL);
    return OK_ERR;
}
