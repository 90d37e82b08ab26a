/* The messages of a watch stream: one JSON object on each line. */
#include "common/io/etcd_json.h"
#include "common/io/etcd_codec.h"
#include "common/io/etcd_pb.h"
#include "common/base/mem.h"
#include <stdlib.h>

static void read_event(struct reader *r, struct json_object *o, struct etcd_event *out)
{
    if (!json_object_is_type(o, json_type_object)) {
        r->bad = "events";
        return;
    }
    const char *type = read_string(r, o, "type");
    out->deleted = strcmp(type, "DELETE") == 0;
    struct json_object *kv = read_object(r, o, "kv");
    if (kv)
        read_kv(r, kv, &out->kv);
    /* A kind of event that this program does not know must not pass for a put. */
    if (!kv || (!out->deleted && *type && strcmp(type, "PUT") != 0))
        r->bad = "events";
}

struct err etcd_why_canceled(const struct etcd_watch_line *l, const char *reason)
{
    if (!l->canceled)
        return OK_ERR;
    if (l->compact_revision)
        return err_make(ERR_COMPACTED, "etcd has compacted the revisions before %lld",
                        (long long)l->compact_revision);
    /* etcd puts the status of a refusal into the text only. */
    bool denied = strstr(reason, "PermissionDenied") || strstr(reason, "Unauthenticated");
    return err_make(denied ? ERR_DENIED : ERR_PROTOCOL, "etcd canceled the watch: %s",
                    *reason ? reason : "no reason given");
}

static void read_line(struct reader *r, struct json_object *o, struct bytes line,
                      struct etcd_watch_line *out)
{
    struct json_object *events = read_array(r, o, "events");
    out->header = read_header(r, o);
    out->watch_id = read_int(r, o, "watch_id");
    out->created = read_bool(r, o, "created");
    out->canceled = read_bool(r, o, "canceled");
    out->fragment = read_bool(r, o, "fragment");
    out->compact_revision = read_int(r, o, "compact_revision");
    out->err = etcd_why_canceled(out, read_string(r, o, "cancel_reason"));
    out->event_count = read_length(events);
    if (out->event_count == 0)
        return;
    out->events = reader_block(r, out->event_count * sizeof *out->events, line);
    for (size_t i = 0; i < out->event_count && !r->bad; i++)
        read_event(r, json_object_array_get_idx(events, i), &out->events[i]);
}

struct err etcd_decode_watch(struct bytes line, struct etcd_watch_line *out)
{
    *out = (struct etcd_watch_line){0};
    if (etcd_is_frame(line))
        return etcd_pb_decode_watch(line, out);
    struct reader r = {0};
    struct json_object *o = etcd_json_parse(line);
    struct json_object *result = o ? read_object(&r, o, "result") : NULL;
    if (result) {
        read_line(&r, result, line, out);
        if (out->header.cluster_id == 0 && !r.bad)
            r.bad = "header";
    } else if (o) {
        int code;
        out->err = etcd_decode_error(200, line, &code);
    }
    json_object_put(o);
    if (!r.bad && (result || (o && err_is(&out->err))))
        return OK_ERR;
    etcd_watch_line_close(out);
    return reader_error(&r, line, "watch line");
}

void etcd_watch_line_close(struct etcd_watch_line *l)
{
    free(l->events);
    *l = (struct etcd_watch_line){0};
}
