#include "meta/service_notification_members.h"
#include "baton/v1/notification.pb-c.h"
#include "meta/service_member_parts.h"

static void put_fields(struct buf *out, const Baton__V1__MemberTable *m)
{
    buf_reserve(out, baton__v1__member_table__get_packed_size(m));
    out->len += baton__v1__member_table__pack(m, out->data + out->len);
}

/* How far a member is changes all the time, and nobody is told for that alone. */
static void put_what_counts(struct buf *out, struct service_member_list *all,
                            const Baton__V1__MemberTable *m)
{
    for (size_t i = 0; i < all->count; i++) {
        all->items[i].applied_revision = all->items[i].lag = 0;
        all->items[i].epoch = 0;
    }
    put_fields(out, m);
}

void member_table_look(struct member_table *t, struct service_member *members)
{
    struct service_member_list all;
    struct buf now = {0};
    Baton__V1__MemberTable m = BATON__V1__MEMBER_TABLE__INIT;
    service_member_list(members, &all);
    t->epoch = all.leader.epoch;
    m.n_members = all.count;
    m.members = all.list;
    buf_clear(&t->message);
    put_fields(&t->message, &m);
    put_what_counts(&now, &all, &m);
    service_member_list_close(&all);
    bool changed = !t->version || !bytes_equal(buf_view(&now), buf_view(&t->seen));
    buf_close(&t->seen);
    t->seen = now;
    t->version += changed;
    m.version = t->version;
    m.n_members = 0;
    put_fields(&t->message, &m); /* behind its members */
}

void member_table_close(struct member_table *t)
{
    buf_close(&t->message);
    buf_close(&t->seen);
}
