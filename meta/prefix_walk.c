#include "meta/prefix_walk.h"
#include "meta/store.h"

struct walk {
    struct buf *from;
    bool (*visit)(void *arg, const struct etcd_kv *kv);
    void *arg;
    bool stopped;
};

static bool step(void *arg, const struct etcd_kv *kv)
{
    struct walk *w = arg;
    if (w->visit(w->arg, kv))
        return true;
    w->stopped = true;
    buf_clear(w->from);
    buf_bytes(w->from, kv->key);
    return false;
}

static void walk_prefix(struct walk *w, struct store_snapshot *snap, struct bytes prefix)
{
    struct buf start = {0}, end = {0};
    struct bytes from = buf_view(w->from);
    buf_bytes(&start, bytes_compare(from, prefix) > 0 ? from : prefix);
    if (!bytes_prefix_end(prefix, &end) || bytes_compare(buf_view(&start), buf_view(&end)) < 0)
        store_range(snap, buf_view(&start), buf_view(&end), step, w);
    buf_close(&start);
    buf_close(&end);
}

bool prefix_walk(struct store_snapshot *snap, const struct bytes *prefixes, size_t count,
                 struct buf *from, bool (*visit)(void *arg, const struct etcd_kv *kv), void *arg)
{
    struct walk w = {.from = from, .visit = visit, .arg = arg};
    if (!count)
        walk_prefix(&w, snap, BYTES_NONE);
    for (size_t i = 0; i < count && !w.stopped; i++)
        walk_prefix(&w, snap, prefixes[i]);
    return !w.stopped;
}
