#include "meta/waiting.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/base/queue.h"
#include "common/base/thread.h"
#include "meta/board.h"
#include "meta/replica.h"
#include <stdatomic.h>
#include <stdlib.h>

/* An answer should reach the caller before its own clock ends the call. */
enum { EARLY_MAX_MS = 100, EARLY_PART = 8 };
enum { EXPIRE_STEP_MS = 10 }; /* deadlines are looked at no more often */

enum note_kind {
    NOTE_ADD,
    NOTE_CONFIRMED,
    NOTE_APPLIED,
    NOTE_ROLE,
    NOTE_CANCEL,
    NOTE_DRAIN,
    NOTE_STOP
};

struct note {
    enum note_kind kind;
    struct waiter *waiter;
    uint64_t epoch, ticket, id;
    int64_t revision;
};

struct list {
    struct waiter *head, **tail;
};

struct waiting {
    struct board *board;
    struct replica *replica;
    struct queue *notes;
    pthread_t thread;
    _Atomic size_t count;
    _Atomic uint64_t last_id;
    _Atomic bool closed;
    _Atomic int64_t least; /* revision that anybody waits for; INT64_MAX: nobody does */

    /* of the thread */
    struct list for_leader; /* in the order of their tickets */
    struct list for_revision;
    int64_t next_ms; /* no deadline is earlier; INT64_MAX: none */
};

static void push(struct waiting *w, struct note note)
{
    queue_push_always(w->notes, mem_dup(&note, sizeof note));
}

/* ---- what others say ---- */

static struct err draining(void)
{
    return err_make(ERR_DRAINING, "this member is shutting down: ask another one");
}

struct err waiting_add(struct waiting *w, struct waiter *waiter)
{
    if (atomic_load(&w->closed))
        return draining();
    if (atomic_fetch_add(&w->count, 1) >= WAITING_MAX) {
        atomic_fetch_sub(&w->count, 1);
        return err_make(ERR_OVERLOADED, "%d reads wait already: slow down", WAITING_MAX);
    }
    push(w, (struct note){.kind = NOTE_ADD, .waiter = waiter});
    return OK_ERR;
}

uint64_t waiting_new_id(struct waiting *w)
{
    return atomic_fetch_add(&w->last_id, 1) + 1;
}

void waiting_cancel(struct waiting *w, uint64_t id)
{
    push(w, (struct note){.kind = NOTE_CANCEL, .id = id});
}

void waiting_on_confirmed(struct waiting *w, uint64_t epoch, uint64_t ticket)
{
    if (w)
        push(w, (struct note){.kind = NOTE_CONFIRMED, .epoch = epoch, .ticket = ticket});
}

void waiting_on_applied(struct waiting *w, int64_t revision)
{
    if (w && revision >= atomic_load(&w->least))
        push(w, (struct note){.kind = NOTE_APPLIED, .revision = revision});
}

void waiting_on_role(struct waiting *w)
{
    if (w && atomic_load(&w->count))
        push(w, (struct note){.kind = NOTE_ROLE});
}

/* ---- on the thread ---- */

static void append(struct list *l, struct waiter *waiter)
{
    waiter->next = NULL;
    *l->tail = waiter;
    l->tail = &waiter->next;
}

/* Resumes the one that stands at *at; the next one stands there then. */
static void resume_at(struct waiting *w, struct list *l, struct waiter **at, const struct err *err,
                      uint64_t epoch)
{
    struct waiter *waiter = *at;
    *at = waiter->next;
    if (!*at)
        l->tail = at;
    atomic_fetch_sub(&w->count, 1);
    waiter->resume(waiter, err, epoch);
}

static struct err gone(void)
{
    return err_make(ERR_CANCELLED, "the caller waits no more");
}

static struct err no_leader(void)
{
    return err_make(ERR_NOT_LEADER, "this member leads no more: ask again");
}

static bool leads(struct waiting *w)
{
    struct board_self self;
    board_self(w->board, &self);
    return self.role == ROLE_LEADER;
}

static int64_t least_of(const struct list *l)
{
    int64_t least = INT64_MAX;
    for (const struct waiter *waiter = l->head; waiter; waiter = waiter->next)
        least = waiter->revision < least ? waiter->revision : least;
    return least;
}

/* The state may have come there between the caller's look and now: after `least` is set, whoever
 * applies says so. */
static void resume_reached(struct waiting *w)
{
    struct list *l = &w->for_revision;
    for (;;) {
        int64_t least = least_of(l);
        atomic_store(&w->least, least);
        int64_t applied = replica_applied(w->replica);
        if (applied < least)
            return;
        for (struct waiter **at = &l->head; *at;) {
            if ((*at)->revision <= applied)
                resume_at(w, l, at, &OK_ERR, 0);
            else
                at = &(*at)->next;
        }
    }
}

static int64_t until(const struct waiter *waiter)
{
    int64_t now_ms = clock_boot_ms();
    if (waiter->deadline_ms == INT64_MAX)
        return waiter->revision ? now_ms + WAITING_LONGEST_MS : INT64_MAX;
    int64_t early = (waiter->deadline_ms - now_ms) / EARLY_PART;
    early = early > EARLY_MAX_MS ? EARLY_MAX_MS : early < 0 ? 0 : early;
    return waiter->deadline_ms - early;
}

static void resume_confirmed(struct waiting *w, uint64_t epoch, uint64_t ticket)
{
    struct list *l = &w->for_leader;
    while (l->head && l->head->ticket <= ticket)
        resume_at(w, l, &l->head, &OK_ERR, epoch);
}

static void end_all(struct waiting *w, const struct err *why, bool only_leaders)
{
    while (w->for_leader.head)
        resume_at(w, &w->for_leader, &w->for_leader.head, why, 0);
    for (struct waiter **at = &w->for_revision.head; *at;) {
        if ((*at)->needs_leader || !only_leaders)
            resume_at(w, &w->for_revision, at, why, 0);
        else
            at = &(*at)->next;
    }
}

static void refuse_new(struct waiting *w, struct waiter *waiter, struct err why)
{
    atomic_fetch_sub(&w->count, 1);
    waiter->resume(waiter, &why, 0);
}

static void add(struct waiting *w, struct waiter *waiter)
{
    if (atomic_load(&w->closed)) {
        refuse_new(w, waiter, draining());
        return;
    }
    if (waiter->needs_leader && !leads(w)) {
        refuse_new(w, waiter, no_leader());
        return;
    }
    if (waiter->is_gone && waiter->is_gone(waiter)) { /* its cancellation may have come before */
        refuse_new(w, waiter, gone());
        return;
    }
    waiter->until_ms = until(waiter);
    w->next_ms = waiter->until_ms < w->next_ms ? waiter->until_ms : w->next_ms;
    if (waiter->revision) {
        append(&w->for_revision, waiter);
        resume_reached(w);
    } else {
        append(&w->for_leader, waiter);
        waiter->ticket = replica_ask(w->replica);
    }
}

static void cancel_in(struct waiting *w, struct list *l, uint64_t id)
{
    struct err e = gone();
    struct waiter **at = &l->head;
    while (*at && (*at)->id != id)
        at = &(*at)->next;
    if (*at)
        resume_at(w, l, at, &e, 0);
}

static struct err out_of_time(struct waiting *w, const struct waiter *waiter)
{
    if (!waiter->revision)
        return err_make(ERR_TIMEOUT, "the leadership was not confirmed before the deadline: etcd "
                                     "does not answer");
    return err_make(ERR_TIMEOUT,
                    "the state holds revision %lld and did not come to min_revision %lld in time",
                    (long long)replica_applied(w->replica), (long long)waiter->revision);
}

static void expire_in(struct waiting *w, struct list *l, int64_t now_ms, int64_t *next_ms)
{
    for (struct waiter **at = &l->head; *at;) {
        if ((*at)->until_ms <= now_ms) {
            struct err e = out_of_time(w, *at);
            resume_at(w, l, at, &e, 0);
            continue;
        }
        *next_ms = (*at)->until_ms < *next_ms ? (*at)->until_ms : *next_ms;
        at = &(*at)->next;
    }
}

static void expire(struct waiting *w, int64_t now_ms)
{
    int64_t next_ms = INT64_MAX;
    expire_in(w, &w->for_leader, now_ms, &next_ms);
    expire_in(w, &w->for_revision, now_ms, &next_ms);
    bool soon = next_ms != INT64_MAX && next_ms < now_ms + EXPIRE_STEP_MS;
    w->next_ms = soon ? now_ms + EXPIRE_STEP_MS : next_ms;
}

static void drain(struct waiting *w)
{
    struct err e = draining();
    end_all(w, &e, false);
}

/* false: it was the last one. */
static bool handle(struct waiting *w, const struct note *note)
{
    switch (note->kind) {
    case NOTE_ADD:
        add(w, note->waiter);
        break;
    case NOTE_CONFIRMED:
        resume_confirmed(w, note->epoch, note->ticket);
        break;
    case NOTE_APPLIED:
        resume_reached(w);
        break;
    case NOTE_ROLE:
        if (!leads(w)) {
            struct err e = no_leader();
            end_all(w, &e, true);
        }
        break;
    case NOTE_CANCEL:
        cancel_in(w, &w->for_leader, note->id);
        cancel_in(w, &w->for_revision, note->id);
        break;
    case NOTE_DRAIN:
        drain(w);
        break;
    case NOTE_STOP:
        drain(w);
        return false;
    }
    return true;
}

static void *waiting_run(void *arg)
{
    struct waiting *w = arg;
    for (bool on = true; on;) {
        int64_t wait_ms = -1;
        if (w->next_ms != INT64_MAX) {
            int64_t left = w->next_ms - clock_boot_ms();
            wait_ms = left > 0 ? left : 0;
        }
        struct note *note = queue_pop(w->notes, wait_ms);
        if (note)
            on = handle(w, note);
        free(note);
        int64_t now_ms = clock_boot_ms();
        if (now_ms >= w->next_ms)
            expire(w, now_ms);
    }
    return NULL;
}

struct waiting *waiting_start(struct board *board, struct replica *replica)
{
    struct waiting *w = mem_alloc(sizeof *w);
    w->board = board;
    w->replica = replica;
    w->notes = queue_new(1);
    w->least = w->next_ms = INT64_MAX;
    w->for_leader.tail = &w->for_leader.head;
    w->for_revision.tail = &w->for_revision.head;
    w->thread = thread_start("waiting-reads", waiting_run, w);
    return w;
}

void waiting_drain(struct waiting *w)
{
    if (!w)
        return;
    atomic_store(&w->closed, true);
    push(w, (struct note){.kind = NOTE_DRAIN});
}

void waiting_stop(struct waiting *w)
{
    if (!w)
        return;
    waiting_drain(w);
    push(w, (struct note){.kind = NOTE_STOP});
    pthread_join(w->thread, NULL);
    INVARIANT(atomic_load(&w->count) == 0);
    queue_free(w->notes);
    free(w);
}
