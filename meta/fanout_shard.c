/* One thread of the fan-out: brings its streams from where each stands to the end of the ring. */
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/base/thread.h"
#include "meta/board.h"
#include "meta/fanout_parts.h"
#include "meta/metrics.h"
#include "meta/store.h"
#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

enum {
    TICK_MS = 500,
    PROGRESS_MS = 10000,
    COMMITS_A_VISIT = 1024, /* then others have their turn */
    PAGES_A_VISIT = 4,
    SNAPSHOTS_MAX = 32, /* open at once, of a shard: each keeps old pages of the store alive */
    SNAPSHOT_IDLE_MS = 5000,
    SNAPSHOT_LONGEST_MS = 120000,
};

/* What a round looks at: all of one moment. */
struct round {
    struct fanout_now now;
    struct fanout_view view;
    char cluster_id[CLUSTER_ID_MAX + 1];
    uint64_t leads; /* the epoch of this member's leadership; 0: it has none */
    struct err refused;
    uint64_t touched;
    int64_t now_ms;
};

/* How a visit ended. */
enum visit {
    VISIT_DONE,  /* there is nothing to send now, or its reader must take something first */
    VISIT_AGAIN, /* there is more to send */
    VISIT_OVER,  /* *why says why the stream ends */
};

/* ---- the mail ---- */

static void mail_locked(struct shard *s, struct sub *sub)
{
    if (sub->mailed)
        return;
    sub->mailed = true;
    sub->next_mail = NULL;
    *s->mail_tail = sub;
    s->mail_tail = &sub->next_mail;
    s->mail_count++;
}

static void mail(struct shard *s, struct sub *sub)
{
    pthread_mutex_lock(&s->lock);
    mail_locked(s, sub);
    pthread_cond_signal(&s->called);
    pthread_mutex_unlock(&s->lock);
}

static struct sub *pop_mail(struct shard *s)
{
    pthread_mutex_lock(&s->lock);
    struct sub *sub = s->mail;
    if (sub) {
        s->mail = sub->next_mail;
        s->mail_tail = s->mail ? s->mail_tail : &s->mail;
        s->mail_count--;
        sub->mailed = false;
    }
    pthread_mutex_unlock(&s->lock);
    return sub;
}

static void drop_mail(struct shard *s, struct sub *sub)
{
    pthread_mutex_lock(&s->lock);
    if (sub->mailed) {
        struct sub **at = &s->mail;
        while (*at != sub)
            at = &(*at)->next_mail;
        *at = sub->next_mail;
        s->mail_tail = *at ? s->mail_tail : at;
        s->mail_count--;
    }
    pthread_mutex_unlock(&s->lock);
}

void shard_wake(struct shard *s)
{
    if (!atomic_load(&s->count))
        return;
    pthread_mutex_lock(&s->lock);
    s->woken = true;
    pthread_cond_signal(&s->called);
    pthread_mutex_unlock(&s->lock);
}

/* Its events may have come before: what they said is looked at now. */
void shard_add(struct shard *s, struct sub *sub)
{
    atomic_fetch_add(&s->count, 1);
    pthread_mutex_lock(&s->lock);
    sub->opened = true;
    mail_locked(s, sub);
    pthread_cond_signal(&s->called);
    pthread_mutex_unlock(&s->lock);
}

/* Until the opener has let go of it, the stream must not come to its end. */
void shard_on_event(struct rpc_call *call, enum rpc_stream_event event, void *user)
{
    struct sub *sub = user;
    struct shard *s = sub->shard;
    if (event == RPC_STREAM_GONE)
        atomic_store(&sub->gone, true);
    else if (!atomic_exchange(&sub->owed, false))
        return;
    pthread_mutex_lock(&s->lock);
    if (sub->opened) {
        mail_locked(s, sub);
        pthread_cond_signal(&s->called);
    }
    pthread_mutex_unlock(&s->lock);
}

/* ---- sending ---- */

static const struct fanout_wire *wire_of(const struct sub *sub)
{
    return sub->shard->fanout->wire;
}

static bool has_room(const struct sub *sub)
{
    return wire_of(sub)->queued_bytes(sub->call) < FANOUT_QUEUED_BYTES;
}

/* If not, the stream is visited again once what is queued is written: it is owed that before the
 * look, so that nobody writes the last of it unseen. */
static bool may_send(struct sub *sub)
{
    atomic_store(&sub->owed, true);
    if (!has_room(sub))
        return false;
    atomic_store(&sub->owed, false);
    return true;
}

/* From message *from on; false: not all of it. */
static bool send_out(struct sub *sub, const struct round *r, const struct fanout_out *out,
                     size_t *from)
{
    size_t count = 0, bytes = 0;
    for (; *from < out->count && may_send(sub); ++*from) {
        struct rpc_shared *m = out->messages[*from];
        if (!wire_of(sub)->send(sub->call, m))
            break; /* its reader is gone, which is told */
        count++;
        bytes += rpc_shared_bytes(m).len;
    }
    if (count) {
        sub->sent_ms = sub->moved_ms = r->now_ms;
        meta_count_stream_sent(sub->kind->name, count, bytes);
    }
    return *from == out->count;
}

static bool send_own(struct sub *sub, const struct round *r)
{
    if (!send_out(sub, r, &sub->out, &sub->out.sent))
        return false;
    fanout_out_clear(&sub->out);
    return true;
}

static enum visit over(struct err *why, struct err e)
{
    *why = e;
    return VISIT_OVER;
}

static struct err leads_no_more(struct fanout *f)
{
    struct board_refusal known;
    board_refusal(f->cfg.board, &known);
    if (err_is(&known.err))
        return known.err;
    return err_make(ERR_NOT_LEADER, "this member leads no more: open it again");
}

static struct err too_slow(const struct sub *sub, const char *what)
{
    return err_make(ERR_TOO_SLOW, "%s: read faster, and resume behind revision %lld", what,
                    (long long)sub->told);
}

/* ---- snapshots ---- */

static void close_snapshot(struct sub *sub)
{
    struct shard *s = sub->shard;
    if (!sub->snap)
        return;
    store_snapshot_close(sub->snap);
    sub->snap = NULL;
    s->snapshots--;
    if (s->waiting)
        mail(s, s->waiting);
}

static void wait_for_snapshot(struct sub *sub)
{
    close_snapshot(sub);
    fanout_out_clear(&sub->out);
    sub->state = SUB_WAITS;
    sub->live = false;
    DL_APPEND2(sub->shard->waiting, sub, prev_waiting, next_waiting);
}

static void stop_waiting(struct sub *sub)
{
    DL_DELETE2(sub->shard->waiting, sub, prev_waiting, next_waiting);
}

/* Of a leader's stream it holds nothing that a later leader committed. */
static bool is_of_epoch(struct store_snapshot *snap, uint64_t epoch)
{
    struct record record;
    struct err e = record_decode(store_record(snap), &record);
    return !epoch || (!err_is(&e) && record.epoch <= epoch);
}

/* The generation was looked at before, and changes before the store does: a snapshot of a state
 * that is being listed is found out at its end, and one that holds nothing yet here. */
static enum visit begin_snapshot(struct sub *sub, const struct round *r, struct err *why)
{
    struct shard *s = sub->shard;
    if (!r->now.listed || s->snapshots >= SNAPSHOTS_MAX)
        return VISIT_DONE;
    struct store_snapshot *snap = store_snapshot_open(s->fanout->cfg.store);
    if (!store_revision(snap) || !is_of_epoch(snap, sub->epoch)) {
        bool empty = !store_revision(snap);
        store_snapshot_close(snap);
        return empty ? VISIT_DONE : over(why, leads_no_more(s->fanout));
    }
    stop_waiting(sub);
    s->snapshots++;
    sub->snap = snap;
    sub->generation = r->now.generation;
    sub->told = store_revision(snap);
    sub->last_page = false;
    sub->part = 0;
    buf_clear(&sub->cursor);
    sub->began_ms = sub->moved_ms = r->now_ms;
    sub->state = SUB_SNAPSHOT;
    meta_count_stream_snapshot();
    return VISIT_AGAIN;
}

static enum visit end_snapshot(struct sub *sub, struct err *why)
{
    uint64_t generation = sub->generation;
    close_snapshot(sub);
    if (!fanout_place_after(sub->shard->fanout, generation, sub->told, &sub->place))
        return over(why, too_slow(sub, "what came since the snapshot is not kept any more"));
    sub->state = SUB_TELLING;
    sub->live = false;
    sub->counted = sub->place;
    sub->waiting = 0;
    return VISIT_AGAIN;
}

static enum visit send_snapshot(struct sub *sub, const struct round *r, struct err *why)
{
    for (int pages = 0; pages < PAGES_A_VISIT; pages++) {
        if (!send_own(sub, r)) {
            bool idle = r->now_ms - sub->moved_ms >= SNAPSHOT_IDLE_MS;
            if (!idle && r->now_ms - sub->began_ms < SNAPSHOT_LONGEST_MS)
                return VISIT_DONE;
            return over(why, too_slow(sub, "the snapshot takes too long"));
        }
        if (sub->last_page)
            return end_snapshot(sub, why);
        sub->last_page = sub->kind->page(filter_decoded(sub->filter), &r->view, sub->snap,
                                         &sub->cursor, &sub->beside, &sub->out);
    }
    return VISIT_AGAIN;
}

/* ---- commits ---- */

static struct filter_entry *entry_at(struct sub *sub, uint64_t place)
{
    struct filter_entry *e = filter_entry_at(sub->filter, place);
    if (e->made)
        return e;
    struct ring_commit *c = fanout_commit_at(sub->shard->fanout, place);
    if (!c)
        return NULL;
    filter_entry_make(&sub->shard->filters, sub->filter, e, place, c);
    return e;
}

/* What waits for a reader that has kept up until now, behind the commit that is on its way: that
 * one may be of any size. */
static enum visit count_waiting(struct sub *sub, const struct round *r, struct err *why)
{
    size_t most = sub->shard->fanout->cfg.buffer_bytes;
    if (!sub->live || sub->generation != r->now.generation)
        return VISIT_DONE;
    size_t on_its_way = 0;
    for (uint64_t p = sub->place; p < r->now.end; p = p < sub->counted ? sub->counted : p + 1) {
        const struct filter_entry *e = entry_at(sub, p);
        if (!e)
            return over(why, too_slow(sub, "changes went out of --watch-history unread"));
        on_its_way = p == sub->place ? e->weight : on_its_way;
        if (p == sub->counted) {
            sub->waiting += e->weight;
            sub->counted++;
        }
        if (sub->waiting > most + on_its_way)
            return over(why, too_slow(sub, "more waits than --watch-buffer-bytes"));
    }
    return VISIT_DONE;
}

static void pass(struct sub *sub, const struct filter_entry *e)
{
    if (sub->place < sub->counted)
        sub->waiting -= e->weight;
    sub->told = e->revision > sub->told ? e->revision : sub->told;
    sub->part = 0;
    sub->place++;
    sub->counted = sub->counted < sub->place ? sub->place : sub->counted;
}

static enum visit send_commits(struct sub *sub, const struct round *r, struct err *why)
{
    for (int n = 0; sub->place < r->now.end; n++) {
        if (n == COMMITS_A_VISIT)
            return VISIT_AGAIN;
        struct filter_entry *e = entry_at(sub, sub->place);
        if (!e)
            return over(why, too_slow(sub, "changes went out of --watch-history unread"));
        if (sub->epoch && e->epoch > sub->epoch)
            return over(why, leads_no_more(sub->shard->fanout));
        if (e->weight && e->revision > sub->told) {
            filter_entry_encode(sub->filter, e, &r->view);
            if (!send_out(sub, r, &e->out, &sub->part))
                return count_waiting(sub, r, why);
        }
        pass(sub, e);
    }
    sub->live = true;
    sub->told = r->now.last > sub->told ? r->now.last : sub->told;
    return VISIT_DONE;
}

static bool progress_due(const struct sub *sub, const struct round *r)
{
    return !sub->sent_ms || r->now_ms - sub->sent_ms >= PROGRESS_MS - TICK_MS;
}

static enum visit tell(struct sub *sub, const struct round *r, struct err *why)
{
    enum visit v = send_commits(sub, r, why);
    if (v == VISIT_DONE && sub->place == r->now.end && progress_due(sub, r)) {
        sub->kind->progress(filter_decoded(sub->filter), &r->view, sub->told, &sub->out);
        send_own(sub, r);
    }
    return v;
}

/* ---- one stream ---- */

/* Whether it may go on at all. */
static enum visit check(struct sub *sub, const struct round *r, struct err *why)
{
    if (atomic_load(&sub->gone))
        return over(why, err_make(ERR_CANCELLED, "its reader went away"));
    if (err_is(&r->refused))
        return over(why, r->refused);
    if (sub->epoch && (r->leads != sub->epoch || r->now.epoch > sub->epoch))
        return over(why, leads_no_more(sub->shard->fanout));
    if (sub->generation == r->now.generation || !r->now.listed || sub->state == SUB_WAITS)
        return VISIT_DONE;
    if (!sub->snapshot)
        return over(why, err_make(ERR_RESYNC, "this member has listed its state anew: begin with a "
                                              "snapshot, or resume at another member"));
    wait_for_snapshot(sub);
    return VISIT_DONE;
}

/* Not between the messages of one commit. */
static void say_beside(struct sub *sub, const struct round *r)
{
    bool between = sub->state == SUB_TELLING && sub->generation == r->now.generation && !sub->part;
    if (!sub->kind->beside || sub->touched == r->touched || !between)
        return;
    sub->touched = r->touched;
    sub->kind->beside(filter_decoded(sub->filter), &r->view, sub->told, &sub->beside, &sub->out);
}

static enum visit visit(struct sub *sub, const struct round *r, struct err *why)
{
    if (check(sub, r, why) == VISIT_OVER)
        return VISIT_OVER;
    if (sub->state == SUB_SNAPSHOT)
        return send_snapshot(sub, r, why);
    if (!send_own(sub, r))
        return count_waiting(sub, r, why);
    say_beside(sub, r);
    if (!send_own(sub, r))
        return count_waiting(sub, r, why);
    if (sub->state == SUB_WAITS)
        return begin_snapshot(sub, r, why);
    return sub->generation == r->now.generation ? tell(sub, r, why) : VISIT_DONE;
}

static void end_sub(struct shard *s, struct sub *sub, const struct err *why)
{
    if (sub->state == SUB_WAITS)
        stop_waiting(sub);
    close_snapshot(sub);
    DL_DELETE(s->subs, sub);
    fanout_end(s->fanout, sub, why); /* no event comes behind it */
    drop_mail(s, sub);
    atomic_fetch_sub(&s->count, 1);
    filter_give(&s->filters, sub->filter);
    fanout_out_close(&sub->out);
    buf_close(&sub->beside);
    buf_close(&sub->cursor);
    free((void *)sub->filter_bytes.data);
    free(sub);
}

static void list_sub(struct shard *s, struct sub *sub)
{
    sub->listed = true;
    sub->filter = filter_take(&s->filters, sub->kind, sub->filter_bytes);
    DL_APPEND(s->subs, sub);
    if (sub->state == SUB_WAITS)
        DL_APPEND2(s->waiting, sub, prev_waiting, next_waiting);
}

static void attend(struct shard *s, struct sub *sub, const struct round *r)
{
    struct err why = OK_ERR;
    if (!sub->listed)
        list_sub(s, sub);
    switch (visit(sub, r, &why)) {
    case VISIT_DONE:
        break;
    case VISIT_AGAIN:
        mail(s, sub);
        break;
    case VISIT_OVER:
        end_sub(s, sub, &why);
        break;
    }
}

/* ---- the thread ---- */

/* true: everybody is to be looked at, not only who is in the mail. */
static bool wait_for_call(struct shard *s, int64_t *tick_ms, size_t *mails, bool *stopping)
{
    struct timespec until = clock_mono_after(TICK_MS);
    bool late = clock_boot_ms() >= *tick_ms;
    pthread_mutex_lock(&s->lock);
    while (!s->woken && !s->mail && !s->stopping && !late)
        late = pthread_cond_timedwait(&s->called, &s->lock, &until) != 0;
    bool all = s->woken || late;
    s->woken = false;
    *mails = s->mail_count;
    *stopping = s->stopping;
    pthread_mutex_unlock(&s->lock);
    if (late)
        *tick_ms = clock_boot_ms() + TICK_MS;
    return all;
}

/* The role before the ring: a stream of a leadership that has ended since is told at most what that
 * leadership committed, for each commit says whose it is. */
static void begin_round(struct shard *s, struct round *r)
{
    struct fanout *f = s->fanout;
    struct board_self self;
    *r = (struct round){.now_ms = clock_boot_ms(), .touched = atomic_load(&f->touched)};
    board_self(f->cfg.board, &self);
    r->leads = self.role == ROLE_LEADER ? self.epoch : 0;
    r->refused = board_refused(f->cfg.board);
    board_cluster_id(f->cfg.board, r->cluster_id);
    fanout_now(f, &r->now);
    r->view = (struct fanout_view){
        .cluster_id = r->cluster_id, .incarnation = r->now.incarnation, .epoch = r->now.epoch};
}

static void *shard_run(void *arg)
{
    struct shard *s = arg;
    int64_t tick_ms = 0;
    for (;;) {
        size_t mails;
        bool stopping;
        struct round r;
        struct sub *sub, *next;
        bool all = wait_for_call(s, &tick_ms, &mails, &stopping);
        if (stopping)
            return NULL;
        begin_round(s, &r);
        for (; mails > 0 && (sub = pop_mail(s)); mails--)
            attend(s, sub, &r);
        if (all)
            DL_FOREACH_SAFE(s->subs, sub, next)
        attend(s, sub, &r);
        filters_forget(&s->filters);
    }
}

void shard_start(struct shard *s, struct fanout *f, int number)
{
    char name[16];
    snprintf(name, sizeof name, "fan-out-%d", number);
    s->fanout = f;
    s->mail_tail = &s->mail;
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&s->called, &attr);
    pthread_condattr_destroy(&attr);
    s->thread = thread_start(name, shard_run, s);
}

void shard_stop(struct shard *s)
{
    pthread_mutex_lock(&s->lock);
    s->stopping = true;
    pthread_cond_signal(&s->called);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    INVARIANT(!s->subs && !s->mail);
    pthread_cond_destroy(&s->called);
    pthread_mutex_destroy(&s->lock);
}
