#include "proxy/core/wheel.h"
#include <string.h>

/* The first step at whose end at_ms has passed. */
static int64_t step_of(int64_t at_ms)
{
    return at_ms / WHEEL_STEP_MS + 1;
}

void wheel_init(struct wheel *w, int64_t now_ms)
{
    memset(w, 0, sizeof *w);
    w->step = now_ms / WHEEL_STEP_MS;
}

void wheel_clear(struct wheel *w, struct wheel_entry *e)
{
    if (!e->link)
        return;
    *e->link = e->next;
    if (e->next)
        e->next->link = e->link;
    e->link = NULL;
    w->count--;
}

void wheel_set(struct wheel *w, struct wheel_entry *e, int64_t at_ms)
{
    wheel_clear(w, e);
    e->at_ms = at_ms;
    int64_t step = step_of(at_ms);
    if (step <= w->step)
        step = w->step + 1;
    struct wheel_entry **head = &w->buckets[step % WHEEL_BUCKETS];
    e->next = *head;
    if (e->next)
        e->next->link = &e->next;
    e->link = head;
    *head = e;
    w->count++;
}

/* An entry of a later round of the wheel stays in its bucket. */
static struct wheel_entry *due_in(struct wheel *w, int64_t step)
{
    for (struct wheel_entry *e = w->buckets[step % WHEEL_BUCKETS]; e; e = e->next)
        if (step_of(e->at_ms) <= step) {
            wheel_clear(w, e);
            return e;
        }
    return NULL;
}

struct wheel_entry *wheel_pop(struct wheel *w, int64_t now_ms)
{
    int64_t now = now_ms / WHEEL_STEP_MS;
    if (w->count == 0 || now - w->step > 2 * WHEEL_BUCKETS)
        w->step = w->count == 0 ? now : now - WHEEL_BUCKETS;
    for (; w->step < now; w->step++) {
        struct wheel_entry *e = due_in(w, w->step + 1);
        if (e)
            return e;
    }
    return NULL;
}
