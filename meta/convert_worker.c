#include "meta/convert_worker.h"
#include "common/base/check.h"
#include "meta/convert_unpack.h"
#include <stdalign.h>

static struct err no_message(void)
{
    return err_make(ERR_BAD_REQUEST, "the request is no valid message of this method");
}

static void pack(const ProtobufCMessage *m, struct buf *out)
{
    buf_reserve(out, protobuf_c_message_get_packed_size(m));
    out->len += protobuf_c_message_pack(m, out->data + out->len);
}

/* ---- what is asked ---- */

#define LABELS(entries, count, memory, list)                                                       \
    struct worker_label *list = arena_array(memory, (count) + 1, sizeof *list);                    \
    for (size_t i = 0; i < (count); i++)                                                           \
        list[i] = (struct worker_label)                                                            \
        {                                                                                          \
            bytes_str((entries)[i]->key), bytes_str((entries)[i]->value)                           \
        }

#define RESOURCES(entries, count, memory, list)                                                    \
    struct worker_resource *list = arena_array(memory, (count) + 1, sizeof *list);                 \
    for (size_t i = 0; i < (count); i++)                                                           \
        list[i] = (struct worker_resource)                                                         \
        {                                                                                          \
            bytes_str((entries)[i]->key), (entries)[i]->value                                      \
        }

static struct bytes *names_of(char *const *names, size_t count, struct arena *memory)
{
    struct bytes *list = arena_array(memory, count + 1, sizeof *list);
    for (size_t i = 0; i < count; i++)
        list[i] = bytes_str(names[i]);
    return list;
}

static struct request_worker *begin(struct plan_request *out, enum request_method method)
{
    struct request_worker *w = arena_alloc(&out->memory, sizeof *w);
    out->method = method;
    out->worker = w;
    return w;
}

struct err convert_add_worker(struct bytes body, struct plan_request *out)
{
    const Baton__V1__AddWorkerRequest *m =
        (void *)convert_unpack(&baton__v1__add_worker_request__descriptor, body, &out->memory);
    if (!m)
        return no_message();
    LABELS(m->labels, m->n_labels, &out->memory, labels);
    RESOURCES(m->resources, m->n_resources, &out->memory, resources);
    *begin(out, REQUEST_ADD_WORKER) = (struct request_worker){.type = bytes_str(m->type),
                                                              .addr = bytes_str(m->addr),
                                                              .slot = m->slot,
                                                              .ttl_ms = m->ttl_ms,
                                                              .labels = labels,
                                                              .label_count = m->n_labels,
                                                              .resources = resources,
                                                              .resource_count = m->n_resources};
    return OK_ERR;
}

struct err convert_activate_worker(struct bytes body, struct plan_request *out)
{
    const Baton__V1__ActivateWorkerRequest *m =
        (void *)convert_unpack(&baton__v1__activate_worker_request__descriptor, body, &out->memory);
    if (!m)
        return no_message();
    *begin(out, REQUEST_ACTIVATE_WORKER) =
        (struct request_worker){.id = m->id, .incarnation = m->incarnation};
    return OK_ERR;
}

static bool toggle_of(Baton__V1__Toggle said, enum request_toggle *out)
{
    static const enum request_toggle all[] = {
        [BATON__V1__TOGGLE__TOGGLE_KEEP] = REQUEST_KEEP,
        [BATON__V1__TOGGLE__TOGGLE_ON] = REQUEST_ON,
        [BATON__V1__TOGGLE__TOGGLE_OFF] = REQUEST_OFF,
    };
    if ((size_t)said >= sizeof all / sizeof *all)
        return false;
    *out = all[said];
    return true;
}

struct err convert_update_worker(struct bytes body, struct plan_request *out)
{
    const Baton__V1__UpdateWorkerRequest *m =
        (void *)convert_unpack(&baton__v1__update_worker_request__descriptor, body, &out->memory);
    if (!m)
        return no_message();
    LABELS(m->set_labels, m->n_set_labels, &out->memory, labels);
    RESOURCES(m->set_resources, m->n_set_resources, &out->memory, resources);
    struct request_worker *w = begin(out, REQUEST_UPDATE_WORKER);
    *w = (struct request_worker){
        .id = m->id,
        .incarnation = m->incarnation,
        .labels = labels,
        .label_count = m->n_set_labels,
        .resources = resources,
        .resource_count = m->n_set_resources,
        .remove_labels = names_of(m->remove_labels, m->n_remove_labels, &out->memory),
        .remove_label_count = m->n_remove_labels,
        .remove_resources = names_of(m->remove_resources, m->n_remove_resources, &out->memory),
        .remove_resource_count = m->n_remove_resources,
    };
    if (!toggle_of(m->cordoned, &w->cordoned) || !toggle_of(m->draining, &w->draining))
        return err_make(ERR_BAD_REQUEST, "a toggle is KEEP (0), ON (1) or OFF (2)");
    return OK_ERR;
}

struct err convert_delete_worker(struct bytes body, struct plan_request *out)
{
    const Baton__V1__DeleteWorkerRequest *m =
        (void *)convert_unpack(&baton__v1__delete_worker_request__descriptor, body, &out->memory);
    if (!m)
        return no_message();
    *begin(out, REQUEST_DELETE_WORKER) =
        (struct request_worker){.id = m->id, .incarnation = m->incarnation};
    return OK_ERR;
}

/* ---- workers as messages ---- */

/* Decoded and unpacked text has a 0 behind it, see arena_copy. */
static char *text(struct bytes s)
{
    return s.data ? (char *)s.data : (char *)"";
}

static void add_labels(Baton__V1__Worker *m, const struct worker *w, struct arena *memory)
{
    Baton__V1__Worker__LabelsEntry *all = arena_array(memory, w->label_count + 1, sizeof *all);
    m->labels = arena_array(memory, w->label_count + 1, sizeof *m->labels);
    m->n_labels = w->label_count;
    for (size_t i = 0; i < w->label_count; i++) {
        baton__v1__worker__labels_entry__init(&all[i]);
        all[i].key = text(w->labels[i].name);
        all[i].value = text(w->labels[i].value);
        m->labels[i] = &all[i];
    }
}

static void add_resources(Baton__V1__Worker *m, const struct worker *w, struct arena *memory)
{
    Baton__V1__Worker__ResourcesEntry *all =
        arena_array(memory, w->resource_count + 1, sizeof *all);
    m->resources = arena_array(memory, w->resource_count + 1, sizeof *m->resources);
    m->n_resources = w->resource_count;
    for (size_t i = 0; i < w->resource_count; i++) {
        baton__v1__worker__resources_entry__init(&all[i]);
        all[i].key = text(w->resources[i].name);
        all[i].value = w->resources[i].amount;
        m->resources[i] = &all[i];
    }
}

Baton__V1__Worker *convert_worker(const struct worker *w, const struct etcd_kv *kv,
                                  struct arena *memory)
{
    Baton__V1__Worker *m = arena_alloc(memory, sizeof *m);
    baton__v1__worker__init(m);
    m->id = w->id;
    m->incarnation = w->incarnation;
    m->type = text(w->type);
    m->addr = text(w->addr);
    m->state = w->running ? BATON__V1__WORKER_STATE__WORKER_STATE_RUNNING
                          : BATON__V1__WORKER_STATE__WORKER_STATE_STARTING;
    m->cordoned = w->cordoned;
    m->draining = w->draining;
    m->has_slot = w->has_slot;
    m->slot = w->has_slot ? w->slot : 0;
    m->slot_grant = w->has_slot ? w->grant : 0;
    m->ttl_ms = w->ttl_ms;
    m->create_revision = kv->create_revision;
    m->mod_revision = kv->mod_revision;
    add_labels(m, w, memory);
    add_resources(m, w, memory);
    return m;
}

/* The four responses look alike on the wire; each is packed by its own name all the same. */
static void pack_answer(enum request_method method, int64_t revision, Baton__V1__Worker *worker,
                        struct buf *out)
{
    Baton__V1__AddWorkerResponse add = BATON__V1__ADD_WORKER_RESPONSE__INIT;
    Baton__V1__ActivateWorkerResponse activate = BATON__V1__ACTIVATE_WORKER_RESPONSE__INIT;
    Baton__V1__UpdateWorkerResponse update = BATON__V1__UPDATE_WORKER_RESPONSE__INIT;
    Baton__V1__DeleteWorkerResponse gone = BATON__V1__DELETE_WORKER_RESPONSE__INIT;
    add.revision = activate.revision = update.revision = gone.revision = revision;
    add.worker = activate.worker = update.worker = gone.worker = worker;
    if (method == REQUEST_ADD_WORKER)
        pack(&add.base, out);
    else if (method == REQUEST_ACTIVATE_WORKER)
        pack(&activate.base, out);
    else if (method == REQUEST_UPDATE_WORKER)
        pack(&update.base, out);
    else
        pack(&gone.base, out);
}

void convert_worker_answer(const struct plan_answer *answer, struct buf *out)
{
    PRE(answer->code == ERR_OK && answer->result_count == 1 && answer->results[0].kv_count == 1);
    struct arena memory = {0};
    struct worker w;
    const struct etcd_kv *kv = &answer->results[0].kvs[0];
    struct err e = worker_decode(kv->value, &memory, &w);
    INVARIANT(!err_is(&e)); /* it was encoded by a member */
    pack_answer(answer->method, answer->revision, convert_worker(&w, kv, &memory), out);
    arena_close(&memory);
}

/* ---- reads ---- */

struct err convert_list_workers(struct bytes body, struct arena *memory, struct worker_filter *out)
{
    enum { LIMIT_DEFAULT = 1000, LIMIT_MAX = 10000 };
    const Baton__V1__ListWorkersRequest *m =
        (void *)convert_unpack(&baton__v1__list_workers_request__descriptor, body, memory);
    if (!m)
        return no_message();
    if ((unsigned)m->state > BATON__V1__WORKER_STATE__WORKER_STATE_EXPIRING)
        return err_make(ERR_BAD_REQUEST, "state %d is not known to this member", (int)m->state);
    LABELS(m->labels, m->n_labels, memory, labels);
    static const int states[] = {
        [BATON__V1__WORKER_STATE__WORKER_STATE_UNSPECIFIED] = WORKERS_ALL,
        [BATON__V1__WORKER_STATE__WORKER_STATE_STARTING] = WORKERS_STARTING,
        [BATON__V1__WORKER_STATE__WORKER_STATE_RUNNING] = WORKERS_RUNNING,
        [BATON__V1__WORKER_STATE__WORKER_STATE_EXPIRING] = WORKERS_EXPIRING,
    };
    *out = (struct worker_filter){.type = bytes_str(m->type),
                                  .labels = labels,
                                  .label_count = m->n_labels,
                                  .state = states[m->state],
                                  .schedulable = m->schedulable_only,
                                  .after_id = m->after_id,
                                  .limit = m->limit ? m->limit : LIMIT_DEFAULT};
    if (out->limit > LIMIT_MAX)
        out->limit = LIMIT_MAX;
    return worker_check_labels(out->labels, out->label_count);
}

struct err convert_heartbeat(struct bytes body, struct heartbeat *out)
{
    alignas(max_align_t) uint8_t room[128];
    struct arena memory = {0};
    arena_use(&memory, room, sizeof room);
    const Baton__V1__HeartbeatRequest *m =
        (void *)convert_unpack(&baton__v1__heartbeat_request__descriptor, body, &memory);
    struct err e = m ? OK_ERR : no_message();
    if (m)
        *out = (struct heartbeat){m->id, m->incarnation};
    if (m && (m->id == 0 || m->incarnation == 0))
        e = err_make(ERR_BAD_WORKER,
                     "id and incarnation are what AddWorker answered; neither is 0");
    arena_close(&memory);
    return e;
}

void convert_heartbeat_answer(uint64_t id, uint64_t ttl_ms, bool cordoned, bool draining,
                              const char *reason, struct buf *out)
{
    Baton__V1__HeartbeatResponse m = BATON__V1__HEARTBEAT_RESPONSE__INIT;
    m.id = id;
    m.ttl_ms = ttl_ms;
    m.cordoned = cordoned;
    m.draining = draining;
    m.reason = reason ? (char *)reason : (char *)"";
    pack(&m.base, out);
}
