/* A bounded queue of pointers between threads. Any number of threads push; one pops. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct queue;

struct queue *queue_new(size_t limit);
void queue_free(struct queue *q); /* the items left are the caller's affair: pop them first */
/* false: full, the item stays the caller's. */
bool queue_push(struct queue *q, void *item);
/* For the few items that must never be lost (answers to what was asked): ignores the limit. */
void queue_push_always(struct queue *q, void *item);
/* Waits for room; false when there was none within wait_ms. */
bool queue_push_wait(struct queue *q, void *item, int64_t wait_ms);
/* The next item, or NULL when none came within wait_ms (0: do not wait, < 0: for ever). */
void *queue_pop(struct queue *q, int64_t wait_ms);
size_t queue_length(struct queue *q);
