#include "meta/convert_notification.h"
#include "meta/convert_unpack.h"
#include "meta/core/wire.h"

/* ---- the request ---- */

/* Topics that the contract does not know give a bit that subscription_check refuses. */
static unsigned topics_of(const Baton__V1__SubscribeRequest *m)
{
    unsigned topics = 0;
    for (size_t i = 0; i < m->n_topics; i++)
        topics |= m->topics[i] > 0 && m->topics[i] < 31 ? 1u << m->topics[i] : 1u;
    return topics;
}

struct err convert_subscribe(struct bytes body, struct arena *memory, struct subscription *out)
{
    Baton__V1__SubscribeRequest *m = (Baton__V1__SubscribeRequest *)convert_unpack(
        &baton__v1__subscribe_request__descriptor, body, memory);
    if (!m)
        return err_make(ERR_BAD_REQUEST, "the request is no valid message of this method");
    *out = (struct subscription){
        .kind = bytes_str(m->kind),
        .topics = topics_of(m),
        .prefixes = arena_array(memory, m->n_prefixes, sizeof *out->prefixes),
        .prefix_count = m->n_prefixes,
        .types = arena_array(memory, m->n_worker_types, sizeof *out->types),
        .type_count = m->n_worker_types,
        .token = bytes_of(m->resume_token.data, m->resume_token.len),
    };
    for (size_t i = 0; i < m->n_prefixes; i++)
        out->prefixes[i] = bytes_of(m->prefixes[i].data, m->prefixes[i].len);
    for (size_t i = 0; i < m->n_worker_types; i++)
        out->types[i] = bytes_str(m->worker_types[i]);
    return subscription_check(out);
}

/* ---- notifications ----
 *
 * A message is its fields one behind the other, so it is written piece by piece, and what all of
 * them say comes last. */

enum { WIRE_LENGTH_DELIMITED = 2 };
enum { FIELD_KEYS = 7, FIELD_WORKERS = 8, FIELD_MEMBERS = 9, FIELD_LEADER = 10 };

static void put_fields(struct notification *n, const ProtobufCMessage *m)
{
    buf_reserve(&n->body, protobuf_c_message_get_packed_size(m));
    n->body.len += protobuf_c_message_pack(m, n->body.data + n->body.len);
}

static void put_length(struct notification *n, unsigned field, size_t len)
{
    wire_put_number(&n->body, field << 3 | WIRE_LENGTH_DELIMITED);
    wire_put_number(&n->body, len);
}

static void put_message(struct notification *n, unsigned field, const ProtobufCMessage *m)
{
    put_length(n, field, protobuf_c_message_get_packed_size(m));
    put_fields(n, m);
}

static void finish(struct notification *n, bool more, struct bytes token)
{
    Baton__V1__Notification m = BATON__V1__NOTIFICATION__INIT;
    m.cluster_id = (char *)n->head.cluster_id;
    m.epoch = n->head.epoch;
    m.version = n->head.version;
    m.snapshot = n->head.snapshot;
    m.restart = n->head.restart;
    m.more = more;
    m.progress = !n->has_news && !n->head.snapshot;
    m.resume_token = (ProtobufCBinaryData){.data = (uint8_t *)token.data, .len = token.len};
    put_fields(n, &m.base);
    n->sink(n->arg, buf_view(&n->body));
    buf_clear(&n->body);
    n->head.restart = false;
}

/* Something of this size comes: a message that is full goes out before. */
static void make_room(struct notification *n, size_t bytes)
{
    if (n->body.len && n->body.len + bytes > NOTIFICATION_BYTES)
        finish(n, true, BYTES_NONE);
    n->has_news = true;
}

void notification_key(struct notification *n, const struct etcd_kv *kv, bool deleted)
{
    Baton__V1__KeyValue value = BATON__V1__KEY_VALUE__INIT;
    Baton__V1__KeyEvent m = BATON__V1__KEY_EVENT__INIT;
    value.key = (ProtobufCBinaryData){.data = (uint8_t *)kv->key.data, .len = kv->key.len};
    value.mod_revision = kv->mod_revision;
    if (!deleted) {
        value.value =
            (ProtobufCBinaryData){.data = (uint8_t *)kv->value.data, .len = kv->value.len};
        value.create_revision = kv->create_revision;
        value.version = kv->version;
    }
    m.kv = &value;
    m.deleted = deleted;
    make_room(n, baton__v1__key_event__get_packed_size(&m));
    put_message(n, FIELD_KEYS, &m.base);
}

void notification_worker(struct notification *n, Baton__V1__Worker *worker, bool gone, bool expired)
{
    Baton__V1__WorkerEvent m = BATON__V1__WORKER_EVENT__INIT;
    m.worker = worker;
    m.gone = gone;
    m.expired = expired;
    make_room(n, baton__v1__worker_event__get_packed_size(&m));
    put_message(n, FIELD_WORKERS, &m.base);
}

void notification_members(struct notification *n, struct bytes table)
{
    make_room(n, table.len);
    put_length(n, FIELD_MEMBERS, table.len);
    buf_bytes(&n->body, table);
}

void notification_leader(struct notification *n, const Baton__V1__LeaderState *leader)
{
    make_room(n, baton__v1__leader_state__get_packed_size(leader));
    put_message(n, FIELD_LEADER, &leader->base);
}

void notification_end(struct notification *n, struct bytes token)
{
    finish(n, token.len == 0, token);
    buf_close(&n->body);
}
