#include "tests/unit/meta_core/election_kit.h"
#include "common/base/check.h"
#include <stdlib.h>

struct election_config drive_config(void)
{
    struct election_config c = {
        .etcd_cluster_id = KIT_CLUSTER, .ttl_ms = 5000, .endpoints = 3, .seed = 4};
    snprintf(c.prefix, sizeof c.prefix, KIT_PREFIX);
    snprintf(c.self.id, sizeof c.self.id, "m1");
    snprintf(c.self.addr, sizeof c.self.addr, "h1:7000");
    snprintf(c.self.instance, sizeof c.self.instance, KIT_INSTANCE);
    snprintf(c.self.start, sizeof c.self.start, KIT_START);
    snprintf(c.former_starts, sizeof c.former_starts, KIT_START "," KIT_OTHER);
    return c;
}

struct drive *drive_new(const struct election_config *config)
{
    struct election_config usual = drive_config();
    struct drive *d = mem_alloc(sizeof *d);
    d->now_ms = 1000;
    d->e = election_new(config ? config : &usual, d->now_ms);
    drive_tick(d, d->now_ms);
    return d;
}

void drive_free(struct drive *d)
{
    fence_txn_close(&d->asked);
    election_free(d->e);
    free(d);
}

/* The last call of the step, with a copy of its txn: it is to be encoded before the next step. */
static void take_calls(struct drive *d)
{
    d->calls = 0;
    for (size_t i = 0; i < d->out.count; i++) {
        if (d->out.actions[i].kind != ELECTION_CALL)
            continue;
        d->calls++;
        d->call = d->out.actions[i].call;
        fence_txn_close(&d->asked);
        if (d->call.kind == CALL_TXN)
            fence_txn_own(&d->asked, d->call.txn);
    }
}

void drive_event(struct drive *d, struct election_event event)
{
    event.now_ms = d->now_ms;
    election_step(d->e, &event, &d->out);
    take_calls(d);
}

void drive_tick(struct drive *d, int64_t now_ms)
{
    d->now_ms = now_ms;
    drive_event(d, (struct election_event){.kind = ELECTION_TICK});
}

static void answer(struct drive *d, struct err err, const struct etcd_txn_result *result,
                   int64_t ttl_ms)
{
    drive_event(d, (struct election_event){.kind = ELECTION_ANSWERED,
                                           .call = d->call.id,
                                           .err = err,
                                           .result = result,
                                           .lease = d->call.lease,
                                           .ttl_ms = ttl_ms});
}

void drive_error(struct drive *d, enum err_code code)
{
    answer(d, err_make(code, "test"), NULL, 0);
}

void drive_granted(struct drive *d, int64_t ttl_ms)
{
    PRE(d->call.kind == CALL_GRANT);
    answer(d, OK_ERR, NULL, ttl_ms);
}

void drive_succeeded(struct drive *d, int64_t revision)
{
    struct kit_answer a;
    kit_succeeded(&a, revision);
    answer(d, OK_ERR, &a.result, 0);
}

static bool find_key(struct drive *d, struct bytes key, struct buf *released, char own[KEY_MAX],
                     struct etcd_kv *kv)
{
    char room[KEY_MAX];
    struct bytes mine = keys_election(own, KIT_PREFIX, election_lease(d->e));
    *kv = (struct etcd_kv){.key = key, .mod_revision = 15};
    if (bytes_equal(key, mine)) {
        kv->create_revision = d->own_revision;
        return d->own_revision != 0;
    }
    if (bytes_equal(key, keys_commit(room, KIT_PREFIX))) {
        kv->value = record_view(&d->commit);
        return d->commit.len != 0;
    }
    if (bytes_equal(key, keys_cluster(room, KIT_PREFIX))) {
        kv->value = record_view(&d->cluster);
        return d->cluster.len != 0;
    }
    if (bytes_equal(key, keys_released(room, KIT_PREFIX))) {
        if (d->released.epoch)
            released_encode(&d->released, released);
        kv->value = buf_view(released);
        return d->released.epoch != 0;
    }
    if (bytes_equal(key, keys_elections(room, KIT_PREFIX))) {
        static const uint8_t other[] = KIT_PREFIX "live/election/1";
        kv->key = d->first ? mine : bytes_of(other, sizeof other - 1);
        return true;
    }
    return false;
}

static void answer_ops(struct drive *d, const struct etcd_op *ops, size_t count, bool succeeded)
{
    struct kit_answer a;
    struct buf released = {0};
    char own[KEY_MAX];
    PRE(count <= 5);
    kit_failed(&a, count);
    a.result.succeeded = succeeded;
    for (size_t i = 0; i < count; i++) {
        struct etcd_kv kv;
        if (find_key(d, ops[i].key, &released, own, &kv))
            kit_found(&a, i, kv);
    }
    answer(d, OK_ERR, &a.result, 0);
    buf_close(&released);
}

void drive_failed(struct drive *d)
{
    answer_ops(d, d->asked.txn.failure, d->asked.txn.failure_count, false);
}

void drive_read(struct drive *d)
{
    answer_ops(d, d->asked.txn.success, d->asked.txn.success_count, true);
}

void drive_to_queue(struct drive *d)
{
    drive_granted(d, 5000);
    drive_succeeded(d, 10);
    drive_event(d, (struct election_event){.kind = ELECTION_CAUGHT_UP, .flag = true});
    drive_succeeded(d, 12);
    d->own_revision = 12;
    d->first = true;
}

void drive_to_lead(struct drive *d)
{
    drive_to_queue(d);
    drive_read(d);
    drive_succeeded(d, 20);
}

int drive_position(const struct drive *d, enum election_action_kind kind)
{
    for (size_t i = 0; i < d->out.count; i++) {
        if (d->out.actions[i].kind == kind)
            return (int)i;
    }
    return -1;
}

const struct election_action *drive_action(const struct drive *d, enum election_action_kind kind)
{
    int i = drive_position(d, kind);
    return i < 0 ? NULL : &d->out.actions[i];
}

bool drive_asks(const struct drive *d, const char *key_below)
{
    if (d->calls == 0 || d->call.kind != CALL_TXN)
        return false;
    for (size_t i = 0; i < d->asked.txn.success_count; i++) {
        const struct etcd_op *op = &d->asked.txn.success[i];
        if (op->kind != ETCD_OP_RANGE && bytes_starts_with(op->key, bytes_str(key_below)))
            return true;
    }
    return false;
}

struct record drive_takeover(const struct drive *d)
{
    struct record r = {0};
    for (size_t i = 0; i < d->asked.txn.success_count; i++) {
        if (bytes_equal(d->asked.txn.success[i].key, bytes_str(KIT_PREFIX "state/commit")))
            record_decode(d->asked.txn.success[i].value, &r);
    }
    return r;
}

void drive_see(struct drive *d, const struct record_bytes *bytes, int64_t received_ms)
{
    drive_event(d, (struct election_event){
                       .kind = ELECTION_RECORD_SEEN, .bytes = *bytes, .received_ms = received_ms});
}

void drive_look(struct drive *d, int64_t create_revision, bool first, int64_t revision)
{
    struct election_live live = {.lease = election_lease(d->e),
                                 .create_revision = create_revision,
                                 .first = first,
                                 .revision = revision,
                                 .released = d->released};
    drive_event(d, (struct election_event){.kind = ELECTION_LIVE_CHANGED, .live = live});
}

void drive_epoch(struct drive *d, enum election_event_kind kind)
{
    drive_event(d, (struct election_event){.kind = kind, .epoch = 1, .sent_ms = d->now_ms});
}

int64_t drive_takeover_time(struct drive *d)
{
    for (int i = 0; i < 400; i++) {
        if (drive_asks(d, KIT_PREFIX "state/commit"))
            return d->now_ms;
        if (d->calls && d->call.kind == CALL_TXN && d->asked.txn.compare_count == 0)
            drive_read(d);
        else
            drive_tick(d, election_next_ms(d->e));
    }
    return -1;
}

struct record_bytes drive_old_record(int64_t ttl_ms, uint64_t seq)
{
    struct record r = kit_record(5, seq, (char)('a' + (char)seq % 6));
    struct record_bytes b;
    r.ttl_ms = ttl_ms;
    record_bytes_encode(&b, &r);
    return b;
}
