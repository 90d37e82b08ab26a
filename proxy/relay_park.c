#include "proxy/relay.h"
#include "common/base/check.h"

void parking_init(struct parking *p)
{
    *p = (struct parking){.last = &p->first};
}

void parking_add(struct parking *p, struct call *c)
{
    PRE(!c->park_link);
    c->park_next = NULL;
    c->park_link = p->last;
    *p->last = c;
    p->last = &c->park_next;
    p->count++;
}

void parking_remove(struct parking *p, struct call *c)
{
    if (!c->park_link)
        return;
    *c->park_link = c->park_next;
    if (c->park_next)
        c->park_next->park_link = c->park_link;
    else
        p->last = c->park_link;
    c->park_link = NULL;
    p->count--;
}
