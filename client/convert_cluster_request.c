#include "client/convert_cluster.h"
#include "client/convert_item.h"
#include <assert.h>
#include <baton/v1/cluster.pb-c.h>

/* A map is a list of entries, of a type for each map, though those of one kind are laid out alike:
 * they are all written as those of the message Worker. */
#define SAME_LAYOUT(a, b)                                                                          \
    static_assert(sizeof(a) == sizeof(b) && offsetof(a, key) == offsetof(b, key) &&                \
                      offsetof(a, value) == offsetof(b, value),                                    \
                  "entries of maps of one kind differ")
SAME_LAYOUT(Baton__V1__Worker__LabelsEntry, Baton__V1__AddWorkerRequest__LabelsEntry);
SAME_LAYOUT(Baton__V1__Worker__LabelsEntry, Baton__V1__ListWorkersRequest__LabelsEntry);
SAME_LAYOUT(Baton__V1__Worker__LabelsEntry, Baton__V1__UpdateWorkerRequest__SetLabelsEntry);
SAME_LAYOUT(Baton__V1__Worker__ResourcesEntry, Baton__V1__AddWorkerRequest__ResourcesEntry);
SAME_LAYOUT(Baton__V1__Worker__ResourcesEntry, Baton__V1__UpdateWorkerRequest__SetResourcesEntry);

static void *label_entries(const ProtobufCMessageDescriptor *type, const struct baton_label *from,
                           size_t count, struct arena *memory)
{
    Baton__V1__Worker__LabelsEntry **out = arena_array(memory, count, sizeof *out);
    for (size_t i = 0; i < count; i++) {
        out[i] = arena_alloc(memory, sizeof *out[i]);
        protobuf_c_message_init(type, &out[i]->base);
        out[i]->key = (char *)from[i].name;
        out[i]->value = (char *)from[i].value;
    }
    return out;
}

static void *resource_entries(const ProtobufCMessageDescriptor *type,
                              const struct baton_resource *from, size_t count, struct arena *memory)
{
    Baton__V1__Worker__ResourcesEntry **out = arena_array(memory, count, sizeof *out);
    for (size_t i = 0; i < count; i++) {
        out[i] = arena_alloc(memory, sizeof *out[i]);
        protobuf_c_message_init(type, &out[i]->base);
        out[i]->key = (char *)from[i].name;
        out[i]->value = from[i].amount;
    }
    return out;
}

void cluster_encode_add(const struct baton_worker_spec *spec, struct buf *out)
{
    struct arena memory = {0};
    Baton__V1__AddWorkerRequest m = BATON__V1__ADD_WORKER_REQUEST__INIT;
    m.type = (char *)spec->type;
    m.addr = (char *)spec->addr;
    m.n_labels = spec->label_count;
    m.labels = label_entries(&baton__v1__add_worker_request__labels_entry__descriptor, spec->labels,
                             spec->label_count, &memory);
    m.n_resources = spec->resource_count;
    m.resources = resource_entries(&baton__v1__add_worker_request__resources_entry__descriptor,
                                   spec->resources, spec->resource_count, &memory);
    m.slot = spec->slot;
    m.ttl_ms = (uint64_t)spec->ttl_ms;
    item_pack(&m.base, out);
    arena_close(&memory);
}

void cluster_encode_activate(uint64_t id, uint64_t incarnation, struct buf *out)
{
    Baton__V1__ActivateWorkerRequest m = BATON__V1__ACTIVATE_WORKER_REQUEST__INIT;
    m.id = id;
    m.incarnation = incarnation;
    item_pack(&m.base, out);
}

static Baton__V1__Toggle toggle_of(enum baton_toggle toggle)
{
    static const Baton__V1__Toggle all[] = {
        [BATON_KEEP] = BATON__V1__TOGGLE__TOGGLE_KEEP,
        [BATON_ON] = BATON__V1__TOGGLE__TOGGLE_ON,
        [BATON_OFF] = BATON__V1__TOGGLE__TOGGLE_OFF,
    };
    return all[toggle];
}

void cluster_encode_update(const struct baton_worker_change *change, struct buf *out)
{
    struct arena memory = {0};
    Baton__V1__UpdateWorkerRequest m = BATON__V1__UPDATE_WORKER_REQUEST__INIT;
    m.id = change->id;
    m.incarnation = change->incarnation;
    m.n_set_labels = change->set_label_count;
    m.set_labels = label_entries(&baton__v1__update_worker_request__set_labels_entry__descriptor,
                                 change->set_labels, change->set_label_count, &memory);
    m.n_remove_labels = change->remove_label_count;
    m.remove_labels = (char **)change->remove_labels;
    m.n_set_resources = change->set_resource_count;
    m.set_resources =
        resource_entries(&baton__v1__update_worker_request__set_resources_entry__descriptor,
                         change->set_resources, change->set_resource_count, &memory);
    m.n_remove_resources = change->remove_resource_count;
    m.remove_resources = (char **)change->remove_resources;
    m.cordoned = toggle_of(change->cordoned);
    m.draining = toggle_of(change->draining);
    item_pack(&m.base, out);
    arena_close(&memory);
}

void cluster_encode_delete(uint64_t id, uint64_t incarnation, struct buf *out)
{
    Baton__V1__DeleteWorkerRequest m = BATON__V1__DELETE_WORKER_REQUEST__INIT;
    m.id = id;
    m.incarnation = incarnation;
    item_pack(&m.base, out);
}

static Baton__V1__WorkerState state_of(enum baton_worker_state state)
{
    static const Baton__V1__WorkerState all[] = {
        [BATON_WORKER_UNKNOWN] = BATON__V1__WORKER_STATE__WORKER_STATE_UNSPECIFIED,
        [BATON_WORKER_STARTING] = BATON__V1__WORKER_STATE__WORKER_STATE_STARTING,
        [BATON_WORKER_RUNNING] = BATON__V1__WORKER_STATE__WORKER_STATE_RUNNING,
        [BATON_WORKER_EXPIRING] = BATON__V1__WORKER_STATE__WORKER_STATE_EXPIRING,
    };
    return all[state];
}

void cluster_encode_list(const struct baton_worker_filter *filter, struct buf *out)
{
    struct arena memory = {0};
    Baton__V1__ListWorkersRequest m = BATON__V1__LIST_WORKERS_REQUEST__INIT;
    if (filter->type)
        m.type = (char *)filter->type;
    m.n_labels = filter->label_count;
    m.labels = label_entries(&baton__v1__list_workers_request__labels_entry__descriptor,
                             filter->labels, filter->label_count, &memory);
    m.state = state_of(filter->state);
    m.schedulable_only = filter->schedulable_only;
    m.after_id = filter->after_id;
    m.limit = filter->limit;
    item_pack(&m.base, out);
    arena_close(&memory);
}

void cluster_encode_heartbeat(uint64_t id, uint64_t incarnation, struct buf *out)
{
    Baton__V1__HeartbeatRequest m = BATON__V1__HEARTBEAT_REQUEST__INIT;
    m.id = id;
    m.incarnation = incarnation;
    item_pack(&m.base, out);
}
