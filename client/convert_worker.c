#include "client/convert_item.h"
#include "client/convert_worker.h"
#include <stdlib.h>
#include <string.h>

static int by_label(const void *a, const void *b)
{
    return strcmp(((const struct baton_label *)a)->name, ((const struct baton_label *)b)->name);
}

static int by_resource(const void *a, const void *b)
{
    return strcmp(((const struct baton_resource *)a)->name,
                  ((const struct baton_resource *)b)->name);
}

static void take_labels(const Baton__V1__Worker *m, struct arena *memory,
                        struct baton_worker_info *out)
{
    struct baton_label *labels = arena_array(memory, m->n_labels, sizeof *labels);
    for (size_t i = 0; i < m->n_labels; i++)
        labels[i] = (struct baton_label){.name = item_keep_text(m->labels[i]->key, memory),
                                         .value = item_keep_text(m->labels[i]->value, memory)};
    qsort(labels, m->n_labels, sizeof *labels, by_label);
    out->labels = labels;
    out->label_count = m->n_labels;
}

static void take_resources(const Baton__V1__Worker *m, struct arena *memory,
                           struct baton_worker_info *out)
{
    struct baton_resource *all = arena_array(memory, m->n_resources, sizeof *all);
    for (size_t i = 0; i < m->n_resources; i++)
        all[i] = (struct baton_resource){.name = item_keep_text(m->resources[i]->key, memory),
                                         .amount = m->resources[i]->value};
    qsort(all, m->n_resources, sizeof *all, by_resource);
    out->resources = all;
    out->resource_count = m->n_resources;
}

/* A state that a newer member knows and this library does not is UNKNOWN. */
static enum baton_worker_state state_of(Baton__V1__WorkerState state)
{
    switch ((int)state) {
    case BATON__V1__WORKER_STATE__WORKER_STATE_STARTING:
        return BATON_WORKER_STARTING;
    case BATON__V1__WORKER_STATE__WORKER_STATE_RUNNING:
        return BATON_WORKER_RUNNING;
    case BATON__V1__WORKER_STATE__WORKER_STATE_EXPIRING:
        return BATON_WORKER_EXPIRING;
    default:
        return BATON_WORKER_UNKNOWN;
    }
}

struct baton_worker_info worker_convert(const Baton__V1__Worker *m, struct arena *memory)
{
    if (!m)
        return (struct baton_worker_info){.type = "", .addr = ""};
    struct baton_worker_info out = {.id = m->id,
                                    .incarnation = m->incarnation,
                                    .type = item_keep_text(m->type, memory),
                                    .addr = item_keep_text(m->addr, memory),
                                    .state = state_of(m->state),
                                    .cordoned = m->cordoned,
                                    .draining = m->draining,
                                    .has_slot = m->has_slot,
                                    .slot = m->slot,
                                    .slot_grant = m->slot_grant,
                                    .ttl_ms = (int64_t)m->ttl_ms,
                                    .silent_ms = m->silent_ms,
                                    .create_revision = m->create_revision,
                                    .mod_revision = m->mod_revision};
    take_labels(m, memory, &out);
    take_resources(m, memory, &out);
    return out;
}

struct baton_worker_info *worker_convert_all(Baton__V1__Worker *const *all, size_t count,
                                             struct arena *memory)
{
    struct baton_worker_info *out = arena_array(memory, count, sizeof *out);
    for (size_t i = 0; i < count; i++)
        out[i] = worker_convert(all[i], memory);
    return out;
}
