#include "client/convert_notification.h"
#include "client/convert_item.h"
#include "client/convert_member.h"
#include "client/convert_worker.h"
#include <baton/v1/notification.pb-c.h>

/* ---- requests ---- */

static const struct {
    enum baton_topic bit;
    Baton__V1__Topic topic;
} topics[] = {
    {BATON_MEMBERS, BATON__V1__TOPIC__TOPIC_MEMBERS},
    {BATON_LEADERS, BATON__V1__TOPIC__TOPIC_LEADER},
    {BATON_WORKERS, BATON__V1__TOPIC__TOPIC_WORKERS},
    {BATON_KEYS, BATON__V1__TOPIC__TOPIC_KEYS},
};
#define TOPICS (sizeof topics / sizeof *topics)

void notification_encode(const struct baton_subscribe_options *o, const struct stream_resume *r,
                         struct buf *out)
{
    struct arena memory = {0};
    Baton__V1__Topic wanted[TOPICS];
    Baton__V1__SubscribeRequest m = BATON__V1__SUBSCRIBE_REQUEST__INIT;
    m.kind = (char *)o->kind;
    m.topics = wanted;
    for (size_t i = 0; i < TOPICS; i++)
        if (o->topics & topics[i].bit)
            wanted[m.n_topics++] = topics[i].topic;
    m.prefixes = item_data_all(o->prefixes, o->prefix_count, &memory);
    m.n_prefixes = o->prefix_count;
    m.worker_types = (char **)o->worker_types;
    m.n_worker_types = o->worker_type_count;
    if (r->start == STREAM_FROM_TOKEN)
        m.resume_token = item_data(api_shown(buf_view(&r->token)));
    item_pack(&m.base, out);
    arena_close(&memory);
}

/* ---- notifications ---- */

static struct baton_worker_event *convert_workers(const Baton__V1__Notification *m,
                                                  struct arena *memory)
{
    struct baton_worker_event *out = arena_array(memory, m->n_workers, sizeof *out);
    for (size_t i = 0; i < m->n_workers; i++)
        out[i] =
            (struct baton_worker_event){.worker = worker_convert(m->workers[i]->worker, memory),
                                        .gone = m->workers[i]->gone,
                                        .expired = m->workers[i]->expired};
    return out;
}

static void convert_beside(const Baton__V1__Notification *m, struct arena *memory,
                           struct baton_notification *n)
{
    if (m->members) {
        struct baton_members *all = arena_alloc(memory, sizeof *all);
        member_convert_all(m->members->members, m->members->n_members, memory, all);
        all->cluster_id = n->cluster_id;
        n->members = all;
    }
    if (m->leader) {
        struct baton_leader *leader = arena_alloc(memory, sizeof *leader);
        member_convert_leader(m->leader, leader);
        n->leader = leader;
    }
}

/* What has nothing to do with a revision moves the place as progress does. */
static void place(const Baton__V1__Notification *m, const struct baton_notification *n,
                  struct stream_message *out)
{
    bool beside = m->progress || n->members || n->leader;
    bool changes = n->key_count || n->worker_count || !beside;
    *out = (struct stream_message){.kind = n->snapshot ? STREAM_SNAPSHOT
                                           : changes   ? STREAM_CHANGES
                                                       : STREAM_PROGRESS,
                                   .revision = n->version,
                                   .restart = n->restart,
                                   .more = n->more,
                                   .token = api_bytes(n->token),
                                   .items = {n->key_count, n->worker_count}};
}

static void convert(const Baton__V1__Notification *m, struct arena *memory, struct api_message *out)
{
    struct baton_notification *n = arena_alloc(memory, sizeof *n);
    *n = (struct baton_notification){.cluster_id = item_keep_text(m->cluster_id, memory),
                                     .epoch = m->epoch,
                                     .version = m->version,
                                     .snapshot = m->snapshot,
                                     .restart = m->snapshot && m->restart,
                                     .more = m->more,
                                     .keys = item_convert_events(m->keys, m->n_keys, memory),
                                     .key_count = m->n_keys,
                                     .workers = convert_workers(m, memory),
                                     .worker_count = m->n_workers,
                                     .token = item_keep(m->resume_token, memory)};
    convert_beside(m, memory, n);
    *out = (struct api_message){.cluster = n->cluster_id, .epoch = n->epoch, .said = n};
    place(m, n, &out->place);
}

struct err notification_decode(struct bytes message, struct arena *memory, struct api_message *out)
{
    Baton__V1__Notification *m = baton__v1__notification__unpack(NULL, message.len, message.data);
    if (!m)
        return item_garbled("Notification");
    convert(m, memory, out);
    baton__v1__notification__free_unpacked(m, NULL);
    return OK_ERR;
}
