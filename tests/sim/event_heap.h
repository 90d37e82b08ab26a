/* What is going to happen, ordered by virtual time; among equals, by when it was put in. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct world;

/* One thing that happens. `run` is called once, or `drop` when the world ends or the thread that it
 * was meant for is gone; both own arg. */
struct task {
    int64_t at_us;
    uint64_t order;
    int member;    /* -1: nobody's; else which member's thread runs it */
    int thread;    /* enum sim_thread */
    unsigned life; /* the member's life that it belongs to */
    bool deferred; /* it has waited for its thread */
    void (*run)(struct world *w, void *arg);
    void (*drop)(void *arg);
    void *arg;
};

struct event_heap {
    struct task *tasks;
    size_t count, cap;
    uint64_t next_order;
};

void event_heap_push(struct event_heap *h, struct task t);       /* sets t.order */
void event_heap_push_again(struct event_heap *h, struct task t); /* keeps it */
bool event_heap_pop(struct event_heap *h, struct task *out);
void event_heap_close(struct event_heap *h); /* drops what is left */
