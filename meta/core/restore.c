#include "meta/core/restore.h"
#include "meta/core/fields.h"
#include <stdio.h>

#define REMEDY                                                                                     \
    "was it restored? Stop and start all members, then 'batonctl recover --accept-restore' goes "  \
    "on from what etcd holds"

/* ---- the mark ---- */

void restore_mark_init(struct restore_mark *m)
{
    *m = (struct restore_mark){0};
    cluster_begin(&m->cluster, "");
}

void restore_mark_encode(const struct restore_mark *m, struct buf *out)
{
    struct buf line = {0}, cluster = {0};
    cluster_encode(&m->cluster, &cluster);
    if (m->cluster.id[0])
        field_put_str(&line, "cluster", (const char *)cluster.data);
    field_put_u64(&line, "etcd", m->etcd);
    field_put_u64(&line, "epoch", m->epoch);
    field_put_u64(&line, "seq", m->seq);
    field_put_str(&line, "nonce", m->nonce);
    field_put_i64(&line, "revision", m->revision);
    buf_bytes(out, buf_view(&line));
    buf_close(&line);
    buf_close(&cluster);
}

struct err restore_mark_decode(struct bytes line, struct restore_mark *out)
{
    struct field_reader r = {.text = line};
    char cluster[CLUSTER_REST_MAX + 256];
    struct err err = OK_ERR;
    restore_mark_init(out);
    field_str(&r, "cluster", cluster, sizeof cluster, 0);
    if (cluster[0])
        err = cluster_decode(bytes_str(cluster), &out->cluster);
    out->etcd = field_u64(&r, "etcd", 0, UINT64_MAX);
    out->epoch = field_u64(&r, "epoch", 0, UINT64_MAX - 1);
    out->seq = field_u64(&r, "seq", 0, UINT64_MAX - 1);
    if (out->epoch)
        field_hex(&r, "nonce", out->nonce, NONCE_DIGITS);
    out->revision = field_i64(&r, "revision", 0, INT64_MAX);
    if (!err_is(&err) && r.bad)
        err = err_make(ERR_CORRUPT, "it has no good '%s'", r.bad);
    return err;
}

bool restore_mark_see(struct restore_mark *m, const struct record *record, int64_t revision)
{
    bool another = record->epoch > m->epoch;
    if (revision > m->revision)
        m->revision = revision;
    if (another) {
        m->epoch = record->epoch;
        m->seq = record->seq;
        memcpy(m->nonce, record->nonce, sizeof m->nonce);
    } else if (record->epoch == m->epoch && strcmp(record->nonce, m->nonce) == 0 &&
               record->seq > m->seq) {
        m->seq = record->seq;
    }
    return another;
}

void restore_mark_begin(struct restore_mark *m, const struct restore_view *v)
{
    restore_mark_init(m);
    m->cluster = v->cluster;
    m->etcd = v->etcd;
    if (v->record_revision && !err_is(&v->record_err))
        restore_mark_see(m, &v->record, v->revision);
    m->revision = v->revision;
}

/* ---- looking ---- */

void restore_look_ops(struct etcd_op ops[RESTORE_LOOK_OPS], struct restore_keys *room,
                      const char *prefix, const struct restore_mark *m)
{
    const struct etcd_op read = {.kind = ETCD_OP_RANGE};
    for (size_t i = 0; i < RESTORE_LOOK_OPS; i++)
        ops[i] = read;
    ops[0].key = keys_commit(room->commit, prefix);
    ops[1].key = keys_cluster(room->cluster, prefix);
    ops[2].key = keys_history(room->same, prefix, m->epoch);
    ops[3].key = keys_history(room->next, prefix, m->epoch + 1);
    ops[3].range_end = keys_history(room->end, prefix, UINT64_MAX);
    ops[3].limit = 1;
}

void restore_make_look(struct fence_txn *out, const char *prefix, const struct restore_mark *m)
{
    struct etcd_op ops[RESTORE_LOOK_OPS + 1];
    struct restore_keys keys;
    char room[KEY_MAX];
    restore_look_ops(ops, &keys, prefix, m);
    ops[RESTORE_LOOK_OPS] =
        (struct etcd_op){.kind = ETCD_OP_DELETE, .key = keys_probe(room, prefix)};
    fence_txn_own(out, &(struct etcd_txn){.success = ops, .success_count = RESTORE_LOOK_OPS + 1});
}

/* False when the entry is not there, or makes no sense: then it proves nothing. */
static bool take_history(const struct etcd_kv *kv, struct history *out)
{
    if (!kv)
        return false;
    struct err err = history_decode(kv->value, out);
    return !err_is(&err);
}

struct err restore_view_take(struct restore_view *out, const struct etcd_txn_result *r,
                             size_t first)
{
    const struct etcd_kv *found[RESTORE_LOOK_OPS];
    *out = (struct restore_view){.etcd = r->header.cluster_id, .revision = r->header.revision};
    for (size_t i = 0; i < RESTORE_LOOK_OPS; i++) {
        if (first + i >= r->result_count || r->results[first + i].kind != ETCD_OP_RANGE)
            return err_make(ERR_PROTOCOL, "etcd left out %zu of the reads", RESTORE_LOOK_OPS - i);
        const struct etcd_op_result *one = &r->results[first + i];
        found[i] = one->count ? one->kvs : NULL;
    }
    if (r->header.revision <= 0)
        return err_make(ERR_PROTOCOL, "etcd left out its revision");
    if (found[0]) {
        out->record_revision = found[0]->mod_revision;
        out->record_err = record_decode(found[0]->value, &out->record);
    }
    if (found[1]) {
        out->cluster_revision = found[1]->mod_revision;
        out->cluster_err = cluster_decode(found[1]->value, &out->cluster);
    }
    out->has_same = take_history(found[2], &out->same);
    out->has_next = take_history(found[3], &out->next);
    return OK_ERR;
}

/* ---- the verdict ---- */

static struct err went_back(const struct restore_mark *m, const struct restore_view *v)
{
    if (v->record.epoch == m->epoch)
        return err_make(ERR_EPOCH_REGRESSION,
                        "etcd went back: it holds commit %llu of epoch %llu, this member has seen "
                        "commit %llu: " REMEDY,
                        (unsigned long long)v->record.seq, (unsigned long long)m->epoch,
                        (unsigned long long)m->seq);
    return err_make(ERR_EPOCH_REGRESSION,
                    "etcd went back: it holds epoch %llu, and this member has seen epoch %llu, "
                    "commit %llu: " REMEDY,
                    (unsigned long long)v->record.epoch, (unsigned long long)m->epoch,
                    (unsigned long long)m->seq);
}

/* The epoch seen is over: what came behind it must have begun where it ended. */
static enum restore_verdict judge_later(const struct restore_mark *m, const struct restore_view *v,
                                        struct err *why)
{
    bool kept = v->record.epoch - m->epoch < HISTORY_KEPT;
    if (!v->has_same && !kept)
        return RESTORE_APART;
    bool same = v->has_same && strcmp(v->same.nonce, m->nonce) == 0;
    bool cut =
        v->has_next && strcmp(v->next.prev_nonce, m->nonce) == 0 && v->next.prev_seq < m->seq;
    if (same && !cut)
        return RESTORE_FINE;
    *why = err_make(ERR_EPOCH_REGRESSION,
                    "etcd went back: its history has another epoch %llu than this member has "
                    "seen: " REMEDY,
                    (unsigned long long)m->epoch);
    return RESTORE_BACK;
}

static enum restore_verdict judge_record(const struct restore_mark *m, const struct restore_view *v,
                                         struct err *why)
{
    const struct record *r = &v->record;
    if (r->epoch > m->epoch)
        return judge_later(m, v, why);
    if (r->epoch == m->epoch && strcmp(r->nonce, m->nonce) == 0 && r->seq >= m->seq)
        return RESTORE_FINE;
    *why = went_back(m, v);
    return RESTORE_BACK;
}

static enum restore_verdict judge_recovered(const struct restore_mark *m,
                                            const struct restore_view *v, struct err *why)
{
    if (m->epoch <= v->cluster.epoch_floor) {
        *why = OK_ERR;
        return RESTORE_RECOVERED;
    }
    *why = err_make(ERR_EPOCH_REGRESSION,
                    "the recovery goes on above epoch %llu, and this member has seen epoch %llu: "
                    "run 'batonctl recover --accept-restore' again, with this member's address too",
                    (unsigned long long)v->cluster.epoch_floor, (unsigned long long)m->epoch);
    return RESTORE_BACK;
}

/* What can be told without the commit record; OK: nothing. */
static struct err judge_around(const struct restore_mark *m, const struct restore_view *v,
                               bool has_cluster)
{
    if (m->etcd && v->etcd != m->etcd)
        return err_make(ERR_EPOCH_REGRESSION,
                        "etcd is another one (%llu) than this member's (%llu): " REMEDY,
                        (unsigned long long)v->etcd, (unsigned long long)m->etcd);
    if (has_cluster && v->cluster.incarnation < m->cluster.incarnation)
        return err_make(ERR_EPOCH_REGRESSION,
                        "etcd went back to incarnation %llu of the cluster, from %llu: " REMEDY,
                        (unsigned long long)v->cluster.incarnation,
                        (unsigned long long)m->cluster.incarnation);
    if (m->epoch && !v->record_revision)
        return err_make(ERR_EPOCH_REGRESSION,
                        "the commit record is gone from etcd, and this member has seen epoch "
                        "%llu: " REMEDY,
                        (unsigned long long)m->epoch);
    if (err_is(&v->record_err))
        return err_make(ERR_EPOCH_REGRESSION,
                        "the commit record in etcd makes no sense, and this member has seen epoch "
                        "%llu: " REMEDY,
                        (unsigned long long)m->epoch);
    return OK_ERR;
}

static enum restore_verdict judge_state(const struct restore_mark *m, const struct restore_view *v,
                                        bool has_cluster, struct err *why)
{
    *why = judge_around(m, v, has_cluster);
    if (err_is(why))
        return RESTORE_BACK;
    if (!m->epoch)
        return RESTORE_FINE;
    enum restore_verdict verdict = judge_record(m, v, why);
    if (verdict == RESTORE_FINE && v->revision < m->revision) {
        *why = err_make(ERR_EPOCH_REGRESSION,
                        "etcd went back to revision %lld, and this member has seen revision "
                        "%lld: " REMEDY,
                        (long long)v->revision, (long long)m->revision);
        return RESTORE_BACK;
    }
    return verdict;
}

enum restore_verdict restore_judge(const struct restore_mark *m, const struct restore_view *v,
                                   struct err *why)
{
    bool has_cluster = v->cluster_revision && !err_is(&v->cluster_err);
    *why = OK_ERR;
    enum restore_verdict verdict = judge_state(m, v, has_cluster, why);
    if (verdict == RESTORE_BACK && has_cluster && v->cluster.incarnation > m->cluster.incarnation)
        return judge_recovered(m, v, why);
    return verdict;
}

/* ---- going on ---- */

static struct etcd_compare changed_at(struct bytes key, int64_t revision)
{
    return (struct etcd_compare){
        .target = ETCD_MOD, .relation = ETCD_EQUAL, .key = key, .number = revision};
}

static uint64_t highest(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* What is readable of the old value stays: fields of later versions too. */
static struct err next_cluster(const struct restore_mark *m, const struct restore_view *v,
                               const struct restore_plan *plan, struct cluster *out)
{
    bool readable = v->cluster_revision && !err_is(&v->cluster_err);
    *out = readable ? v->cluster : m->cluster;
    uint64_t incarnation = highest(out->incarnation, m->cluster.incarnation);
    out->incarnation = highest(incarnation, plan->incarnation_above) + 1;
    uint64_t floor = highest(out->epoch_floor, plan->epoch_above);
    floor = highest(floor, highest(m->epoch, v->record.epoch));
    if (floor > CLUSTER_FLOOR_MAX || out->incarnation > CLUSTER_FLOOR_MAX)
        return err_make(ERR_USAGE, "epoch %llu is too high to go on from",
                        (unsigned long long)floor);
    out->epoch_floor = floor;
    if (!out->id[0])
        return err_make(ERR_CORRUPT, "nobody knows the id of the cluster");
    return OK_ERR;
}

static void next_record(const struct restore_view *v, const struct restore_plan *plan,
                        uint64_t floor, struct record *record, struct history *history)
{
    *record = (struct record){.epoch = floor + 1, .ttl_ms = plan->ttl_ms};
    if (v->record.ttl_ms > record->ttl_ms)
        record->ttl_ms = v->record.ttl_ms; /* whoever reads on under it must have stopped */
    /* no member's id has such characters */
    snprintf(record->leader, sizeof record->leader, "(recovery)");
    memcpy(record->nonce, plan->nonce, sizeof record->nonce);
    memcpy(record->batch, plan->batch, sizeof record->batch);
    *history = (struct history){.started_unix_ms = plan->now_unix_ms,
                                .prev_seq = v->record.seq,
                                .prev_revision = v->record_revision};
    memcpy(history->leader, record->leader, sizeof history->leader);
    memcpy(history->nonce, record->nonce, sizeof history->nonce);
    snprintf(history->reason, sizeof history->reason, "recovered by %s", plan->member);
    memcpy(history->prev_nonce, v->record.nonce, sizeof history->prev_nonce);
    memcpy(history->prev_batch, v->record.batch, sizeof history->prev_batch);
}

struct err restore_make_recovery(struct fence_txn *out, const char *prefix,
                                 const struct restore_mark *m, const struct restore_view *v,
                                 const struct restore_plan *plan, struct cluster *written)
{
    struct restore_keys keys;
    char room[KEY_MAX];
    struct etcd_op reads[RESTORE_LOOK_OPS];
    struct record record;
    struct history history;
    struct buf cluster = {0}, commit = {0}, entry = {0};
    struct err err = next_cluster(m, v, plan, written);
    if (err_is(&err))
        return err;
    restore_look_ops(reads, &keys, prefix, m);
    next_record(v, plan, written->epoch_floor, &record, &history);
    cluster_encode(written, &cluster);
    record_encode(&record, &commit);
    history_encode(&history, &entry);
    struct etcd_compare guard[] = {changed_at(reads[0].key, v->record_revision),
                                   changed_at(reads[1].key, v->cluster_revision)};
    struct etcd_op puts[] = {
        {.kind = ETCD_OP_PUT, .key = reads[1].key, .value = buf_view(&cluster)},
        {.kind = ETCD_OP_PUT, .key = reads[0].key, .value = buf_view(&commit)},
        {.kind = ETCD_OP_PUT,
         .key = keys_history(room, prefix, record.epoch),
         .value = buf_view(&entry)},
    };
    fence_txn_own(out, &(struct etcd_txn){.compares = guard,
                                          .compare_count = 2,
                                          .success = puts,
                                          .success_count = 3,
                                          .failure = reads,
                                          .failure_count = RESTORE_LOOK_OPS});
    buf_close(&cluster);
    buf_close(&commit);
    buf_close(&entry);
    return OK_ERR;
}
