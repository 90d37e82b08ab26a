#include "meta/convert_watch.h"
#include "baton/v1/kv.pb-c.h"
#include "common/base/arena.h"
#include "meta/convert_unpack.h"
#include "meta/core/prefixes.h"
#include "meta/core/request.h"

static struct err take_prefixes(const Baton__V1__WatchRequest *m, struct arena *memory,
                                struct watch_request *out)
{
    if (m->n_prefixes > WATCH_PREFIXES_MAX)
        return err_make(ERR_BAD_REQUEST, "%zu prefixes: a watch has at most %d", m->n_prefixes,
                        WATCH_PREFIXES_MAX);
    out->prefixes = arena_array(memory, m->n_prefixes, sizeof *out->prefixes);
    for (size_t i = 0; i < m->n_prefixes; i++) {
        if (m->prefixes[i].len > REQUEST_KEY_MAX)
            return err_make(ERR_BAD_KEY, "a prefix of %zu bytes: keys have at most %d",
                            m->prefixes[i].len, REQUEST_KEY_MAX);
        out->prefixes[i] = bytes_of(m->prefixes[i].data, m->prefixes[i].len);
    }
    out->prefix_count = prefixes_tidy(out->prefixes, m->n_prefixes);
    return OK_ERR;
}

struct err convert_watch(struct bytes body, struct arena *memory, struct watch_request *out)
{
    const Baton__V1__WatchRequest *m =
        (void *)convert_unpack(&baton__v1__watch_request__descriptor, body, memory);
    *out = (struct watch_request){0};
    if (!m)
        return err_make(ERR_BAD_REQUEST, "the request is no valid message of this method");
    out->start_revision = m->start_revision;
    out->resume_token = bytes_of(m->resume_token.data, m->resume_token.len);
    out->snapshot = m->snapshot;
    if (m->start_revision < 0)
        return err_make(ERR_BAD_REQUEST, "start_revision is %lld: revisions are not negative",
                        (long long)m->start_revision);
    if (m->start_revision && m->resume_token.len)
        return err_make(ERR_BAD_REQUEST,
                        "start_revision and resume_token are both given: give one of them");
    return take_prefixes(m, memory, out);
}

static ProtobufCBinaryData data_of(struct bytes s)
{
    return (ProtobufCBinaryData){.len = s.len, .data = (uint8_t *)s.data};
}

static Baton__V1__KeyEvent **events_in(const struct watch_message *w, struct arena *memory)
{
    Baton__V1__KeyEvent **list = arena_raw(memory, w->count * sizeof *list);
    Baton__V1__KeyEvent *all = arena_raw(memory, w->count * sizeof *all);
    Baton__V1__KeyValue *kvs = arena_raw(memory, w->count * sizeof *kvs);
    for (size_t i = 0; i < w->count; i++) {
        const struct etcd_event *e = &w->events[i];
        baton__v1__key_event__init(&all[i]);
        baton__v1__key_value__init(&kvs[i]);
        kvs[i].key = data_of(e->kv.key);
        kvs[i].value = data_of(e->kv.value);
        kvs[i].create_revision = e->kv.create_revision;
        kvs[i].mod_revision = e->kv.mod_revision;
        kvs[i].version = e->kv.version;
        all[i].kv = &kvs[i];
        all[i].deleted = e->deleted;
        list[i] = &all[i];
    }
    return list;
}

void convert_watch_message(const struct fanout_view *v, const struct watch_message *w,
                           struct arena *memory, struct buf *out)
{
    static const Baton__V1__WatchKind kinds[] = {
        [WATCH_EVENTS] = BATON__V1__WATCH_KIND__WATCH_KIND_EVENTS,
        [WATCH_SNAPSHOT] = BATON__V1__WATCH_KIND__WATCH_KIND_SNAPSHOT,
        [WATCH_PROGRESS] = BATON__V1__WATCH_KIND__WATCH_KIND_PROGRESS,
    };
    Baton__V1__WatchResponse m = BATON__V1__WATCH_RESPONSE__INIT;
    struct buf token = {0};
    if (!w->more)
        fanout_token(v, w->revision, &token);
    m.kind = kinds[w->kind];
    m.revision = w->revision;
    m.n_events = w->count;
    m.events = events_in(w, memory);
    m.restart = w->restart;
    m.more = w->more;
    m.resume_token = data_of(buf_view(&token));
    m.cluster_id = (char *)v->cluster_id;
    m.epoch = v->epoch;
    buf_reserve(out, baton__v1__watch_response__get_packed_size(&m));
    out->len += baton__v1__watch_response__pack(&m, out->data + out->len);
    buf_close(&token);
}
