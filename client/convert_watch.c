#include "client/convert_watch.h"
#include "client/convert_item.h"

void watch_encode(const struct baton_bytes *prefixes, size_t count, const struct stream_resume *r,
                  struct buf *out)
{
    struct arena memory = {0};
    Baton__V1__WatchRequest m = BATON__V1__WATCH_REQUEST__INIT;
    m.prefixes = item_data_all(prefixes, count, &memory);
    m.n_prefixes = count;
    if (r->start == STREAM_FROM_REVISION)
        m.start_revision = r->start_revision;
    if (r->start == STREAM_FROM_TOKEN)
        m.resume_token = item_data(api_shown(buf_view(&r->token)));
    m.snapshot = r->start != STREAM_FROM_NOW;
    item_pack(&m.base, out);
    arena_close(&memory);
}

static void convert(const Baton__V1__WatchResponse *m, struct arena *memory,
                    struct api_message *out)
{
    struct baton_changes *c = arena_alloc(memory, sizeof *c);
    bool snapshot = m->kind == BATON__V1__WATCH_KIND__WATCH_KIND_SNAPSHOT;
    bool progress = m->kind == BATON__V1__WATCH_KIND__WATCH_KIND_PROGRESS;
    *c = (struct baton_changes){.revision = m->revision,
                                .snapshot = snapshot,
                                .restart = snapshot && m->restart,
                                .more = m->more,
                                .events = item_convert_events(m->events, m->n_events, memory),
                                .count = m->n_events,
                                .token = item_keep(m->resume_token, memory),
                                .cluster_id = item_keep_text(m->cluster_id, memory),
                                .epoch = m->epoch};
    *out = (struct api_message){.place = {.kind = progress   ? STREAM_PROGRESS
                                                  : snapshot ? STREAM_SNAPSHOT
                                                             : STREAM_CHANGES,
                                          .revision = m->revision,
                                          .restart = c->restart,
                                          .more = m->more,
                                          .token = api_bytes(c->token),
                                          .items = {m->n_events}},
                                .cluster = c->cluster_id,
                                .epoch = m->epoch,
                                .said = c};
}

struct err watch_decode(struct bytes message, struct arena *memory, struct api_message *out)
{
    Baton__V1__WatchResponse *m =
        baton__v1__watch_response__unpack(NULL, message.len, message.data);
    if (!m)
        return item_garbled("WatchResponse");
    convert(m, memory, out);
    baton__v1__watch_response__free_unpacked(m, NULL);
    return OK_ERR;
}
