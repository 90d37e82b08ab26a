#include "tests/sim/event_heap.h"
#include "common/base/mem.h"
#include <stdlib.h>

static bool task_before(const struct task *a, const struct task *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->order < b->order;
}

void event_heap_push(struct event_heap *h, struct task t)
{
    t.order = h->next_order++;
    event_heap_push_again(h, t);
}

void event_heap_push_again(struct event_heap *h, struct task t)
{
    if (h->count == h->cap) {
        h->cap = h->cap ? h->cap * 2 : 256;
        h->tasks = mem_resize(h->tasks, h->cap * sizeof *h->tasks);
    }
    size_t i = h->count++;
    while (i > 0 && task_before(&t, &h->tasks[(i - 1) / 2])) {
        h->tasks[i] = h->tasks[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    h->tasks[i] = t;
}

bool event_heap_pop(struct event_heap *h, struct task *out)
{
    if (h->count == 0)
        return false;
    *out = h->tasks[0];
    struct task last = h->tasks[--h->count];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= h->count)
            break;
        if (child + 1 < h->count && task_before(&h->tasks[child + 1], &h->tasks[child]))
            child++;
        if (!task_before(&h->tasks[child], &last))
            break;
        h->tasks[i] = h->tasks[child];
        i = child;
    }
    h->tasks[i] = last;
    return true;
}

void event_heap_close(struct event_heap *h)
{
    for (size_t i = 0; i < h->count; i++) {
        if (h->tasks[i].drop)
            h->tasks[i].drop(h->tasks[i].arg);
    }
    free(h->tasks);
    *h = (struct event_heap){0};
}
