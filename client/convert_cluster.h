/* Messages of the service of the workers <-> the library's values. */
#pragma once
#include "client/include/baton/baton.h"
#include "common/base/arena.h"
#include "common/base/err.h"

#define CLUSTER_PATH_ADD "/baton.v1.ClusterService/AddWorker"
#define CLUSTER_PATH_ACTIVATE "/baton.v1.ClusterService/ActivateWorker"
#define CLUSTER_PATH_UPDATE "/baton.v1.ClusterService/UpdateWorker"
#define CLUSTER_PATH_DELETE "/baton.v1.ClusterService/DeleteWorker"
#define CLUSTER_PATH_LIST "/baton.v1.ClusterService/ListWorkers"
#define CLUSTER_PATH_HEARTBEAT "/baton.v1.ClusterService/Heartbeat"
#define CLUSTER_PATH_INFO "/baton.v1.ClusterService/GetClusterInfo"

/* Encoded messages replace what out held. Texts are not NULL, enumerators are in range, and no time
 * is negative. */
void cluster_encode_add(const struct baton_worker_spec *spec, struct buf *out);
void cluster_encode_activate(uint64_t id, uint64_t incarnation, struct buf *out);
void cluster_encode_update(const struct baton_worker_change *change, struct buf *out);
void cluster_encode_delete(uint64_t id, uint64_t incarnation, struct buf *out);
void cluster_encode_list(const struct baton_worker_filter *filter, struct buf *out);
void cluster_encode_heartbeat(uint64_t id, uint64_t incarnation, struct buf *out);

/* PROTOCOL when the bytes are no such message. What they point to lives in the arena. */
struct err cluster_decode_add(struct bytes message, struct arena *memory,
                              struct baton_workers *out);
struct err cluster_decode_activate(struct bytes message, struct arena *memory,
                                   struct baton_workers *out);
struct err cluster_decode_update(struct bytes message, struct arena *memory,
                                 struct baton_workers *out);
struct err cluster_decode_delete(struct bytes message, struct arena *memory,
                                 struct baton_workers *out);
struct err cluster_decode_list(struct bytes message, struct arena *memory,
                               struct baton_workers *out);
struct err cluster_decode_heartbeat(struct bytes message, struct baton_worker_beat *out);
struct err cluster_decode_info(struct bytes message, struct arena *memory,
                               struct baton_cluster_info *out);
