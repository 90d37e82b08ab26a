#include "meta/metrics.h"
#include "common/base/rpc_status.h"
#include "meta/metrics_rows.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

/* Of one series, as Prometheus would see it; -1: there is none. */
static double sample(enum meta_metric m, const char *series)
{
    struct buf out = {0};
    char start[200];
    double value = -1;
    metrics_write(&out, &meta_metrics[m], 1);
    buf_byte(&out, 0);
    snprintf(start, sizeof start, "\n%s ", series);
    const char *line = strstr((const char *)out.data, start);
    if (line)
        assert_int_equal(sscanf(line + strlen(start), "%lf", &value), 1);
    buf_close(&out);
    return value;
}

static double phase(const char *what, const char *name)
{
    char series[200];
    snprintf(series, sizeof series, "baton_meta_takeover_phase_seconds_%s{phase=\"%s\"}", what,
             name);
    return sample(META_TAKEOVER_PHASES, series);
}

static double takeovers(const char *reason)
{
    char series[100];
    snprintf(series, sizeof series, "baton_meta_takeovers_total{reason=\"%s\"}", reason);
    return sample(META_TAKEOVERS, series);
}

static double whole(const char *what)
{
    char series[100];
    snprintf(series, sizeof series, "baton_meta_takeover_seconds_%s", what);
    return sample(META_TAKEOVER_TIME, series);
}

static void move(const enum seat *seats, size_t count, const char *why)
{
    for (size_t i = 0; i < count; i++)
        meta_note_seat(seats[i], why);
}

static void series_that_can_be_foreseen_start_at_0(void **state)
{
    assert_true(takeovers("silent") == 0);
    assert_true(phase("count", "publish") == 0);
    assert_true(whole("count") == 0);
    assert_true(sample(META_COMMITS,
                       "baton_meta_commits_total{kind=\"heartbeat\",outcome=\"applied\"}") == 0);
    assert_true(sample(META_READS, "baton_meta_reads_total{consistency=\"STALE\"}") == 0);
    assert_true(
        sample(META_WRITES_REFUSED, "baton_meta_writes_refused_total{reason=\"OVERLOADED\"}") == 0);
}

/* First in line, but somebody else takes over: the wait goes on. Then it wins. */
static void takeover_has_phases(void **state)
{
    static const enum seat before[] = {SEAT_QUEUED,  SEAT_READING, SEAT_WAITING, SEAT_READING,
                                       SEAT_WAITING, SEAT_TAKING,  SEAT_READING, SEAT_WAITING};
    move(before, sizeof before / sizeof before[0], "it is first in line");
    assert_true(takeovers("silent") == 0);
    meta_note_seat(SEAT_TAKING, "silent");
    meta_note_seat(SEAT_LEADING, "its takeover won");
    assert_true(takeovers("silent") == 1);
    assert_true(phase("count", "wait") == 1 && phase("count", "txn") == 1);
    meta_note_published(ROLE_ACTIVATING);
    assert_true(phase("count", "activation") == 0);
    meta_note_activated();
    meta_note_published(ROLE_LEADER);
    assert_true(phase("count", "activation") == 1 && phase("count", "publish") == 1);
    assert_true(whole("count") == 1);
    double parts = phase("sum", "wait") + phase("sum", "txn") + phase("sum", "activation") +
                   phase("sum", "publish");
    assert_true(parts > whole("sum") - 1e-5 && parts < whole("sum") + 1e-5);
}

/* Straight from the queue, and given up before it serves. */
static void takeover_that_serves_nobody(void **state)
{
    static const enum seat seats[] = {SEAT_LEAVING, SEAT_OUT, SEAT_ENQUEUING, SEAT_QUEUED,
                                      SEAT_WAITING};
    move(seats, sizeof seats / sizeof seats[0], "it may stand");
    meta_note_seat(SEAT_TAKING, "released");
    meta_note_seat(SEAT_LEADING, "its takeover won");
    assert_true(takeovers("released") == 1);
    assert_true(phase("count", "wait") == 2);
    meta_count_step_down("the activation failed");
    meta_note_seat(SEAT_LEAVING, "its gate is closed");
    meta_note_published(ROLE_LEADER); /* of what is forgotten nothing is observed */
    assert_true(whole("count") == 1);
    assert_true(phase("count", "activation") == 1);
    assert_true(sample(META_STEP_DOWNS,
                       "baton_meta_step_downs_total{reason=\"the activation failed\"}") == 1);
}

static void rpcs_by_method(void **state)
{
    static const struct rpc_method methods[] = {{.path = "/a.B/C", .kind = RPC_UNARY},
                                                {.path = "/a.B/D", .kind = RPC_SERVER_STREAM}};
    meta_metrics_methods(methods, 2);
    assert_true(sample(META_RPCS, "baton_meta_rpcs_total{method=\"/a.B/D\",status=\"OK\"}") == 0);
    meta_count_rpc(&methods[0], RPC_OK, 1500);
    meta_count_rpc(&methods[0], RPC_UNAVAILABLE, 1500);
    meta_count_rpc(&methods[1], RPC_UNAVAILABLE, 3600LL * 1000000);
    meta_count_rpc(NULL, RPC_UNIMPLEMENTED, 1);
    meta_count_rpc(NULL, RPC_UNIMPLEMENTED, 1);
    assert_true(sample(META_RPCS, "baton_meta_rpcs_total{method=\"/a.B/C\",status=\"OK\"}") == 1);
    assert_true(
        sample(META_RPCS, "baton_meta_rpcs_total{method=\"/a.B/D\",status=\"UNAVAILABLE\"}") == 1);
    assert_true(
        sample(META_RPCS, "baton_meta_rpcs_total{method=\"other\",status=\"UNIMPLEMENTED\"}") == 2);
    assert_true(sample(META_RPC_TIME, "baton_meta_rpc_seconds_count{method=\"/a.B/C\"}") == 2);
    assert_true(sample(META_RPC_TIME,
                       "baton_meta_rpc_seconds_bucket{method=\"/a.B/C\",le=\"0.001\"}") == 0);
    assert_true(sample(META_RPC_TIME, "baton_meta_rpc_seconds_count{method=\"/a.B/D\"}") == -1);
}

static void calls_to_etcd(void **state)
{
    struct etcd_observation o = {
        .client = "elect", .call = "kv/txn", .endpoint = "http://e1:2379", .spent_us = 3000};
    meta_count_etcd(&o);
    o.code = ERR_LOST;
    meta_count_etcd(&o);
    o.code = ERR_CANCELLED; /* is no error of etcd's */
    meta_count_etcd(&o);
    o = (struct etcd_observation){
        .client = "follow", .call = "watch", .endpoint = "http://e1:2379", .code = ERR_LOST, -1};
    meta_count_etcd(&o);
    assert_true(sample(META_ETCD_CALLS, "baton_meta_etcd_calls_total{client=\"elect\",call=\"kv/"
                                        "txn\",outcome=\"LOST\"}") == 1);
    assert_true(sample(META_ETCD_CALL_TIME,
                       "baton_meta_etcd_call_seconds_count{client=\"elect\",call=\"kv/txn\"}") ==
                3);
    assert_true(sample(META_ETCD_CALL_TIME, "baton_meta_etcd_call_seconds_count{client=\"follow\","
                                            "call=\"watch\"}") == -1);
    assert_true(sample(META_ETCD_ERRORS, "baton_meta_etcd_errors_total{endpoint=\"http://e1:2379\","
                                         "reason=\"LOST\"}") == 2);
    assert_true(sample(META_ETCD_ERRORS, "baton_meta_etcd_errors_total{endpoint=\"http://e1:2379\","
                                         "reason=\"CANCELLED\"}") == -1);
}

/* The page that docs/metrics.md is made of also checks each row's name. */
static void rows_are_named_as_prometheus_asks(void **state)
{
    struct buf out = {0};
    metrics_doc(&out, meta_metrics, META_METRICS);
    assert_true(out.len > 0);
    for (size_t i = 0; i < META_METRICS; i++)
        assert_non_null(meta_metrics[i].name);
    buf_close(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(series_that_can_be_foreseen_start_at_0),
        cmocka_unit_test(takeover_has_phases),
        cmocka_unit_test(takeover_that_serves_nobody),
        cmocka_unit_test(rpcs_by_method),
        cmocka_unit_test(calls_to_etcd),
        cmocka_unit_test(rows_are_named_as_prometheus_asks),
    };
    meta_metrics_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
