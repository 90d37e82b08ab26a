/* The one table of what the proxy tells: the exposition and docs/metrics.md are made of it. */
#include "proxy/metrics_rows.h"
#include "proxy/stats.h"
#include <stddef.h>

const double stats_parked_bounds[] = {0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                      0.5,   1,     2.5,  5,     10,   30,  0};
const double stats_call_bounds[] = {0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1,
                                    0.2,    0.5,    1,     2,     5,     10,   30,   0};
const double stats_added_bounds[] = {0.00001, 0.00002, 0.00005, 0.0001, 0.0002, 0.0005,
                                     0.001,   0.002,   0.005,   0.01,   0.05,   0.1,
                                     0.5,     1,       5,       30,     0};

struct metric proxy_metrics[PROXY_METRICS] = {
    [PROXY_RPCS] = {.group = "Calls",
                    .name = "baton_proxy_calls_total",
                    .help = "Calls that ended, by what is known of the method (read, mutation, "
                            "other) and by gRPC status; \"none\": the answer had no status.",
                    .labels = {"class", "status"}},
    [PROXY_CALL_TIME] = {.name = "baton_proxy_call_seconds",
                         .help = "From a call's arrival to its end, without methods that are "
                                 "known as streams.",
                         .kind = METRIC_HISTOGRAM,
                         .unit = "seconds",
                         .labels = {"class"},
                         .bounds = stats_call_bounds},
    [PROXY_ADDED_TIME] = {.name = "baton_proxy_added_seconds",
                          .help = "Of an answered call, the time that was not the leader's: "
                                  "parked, in attempts that failed, in the proxy itself.",
                          .kind = METRIC_HISTOGRAM,
                          .unit = "seconds",
                          .bounds = stats_added_bounds},
    [PROXY_CANCELLED] = {.name = "baton_proxy_cancelled_total",
                         .help = "Calls that their clients gave up."},
    [PROXY_CALLS] = {.name = "baton_proxy_calls",
                     .help = "Calls in progress now.",
                     .kind = METRIC_GAUGE},
    [PROXY_REQUEST_BYTES] = {.name = "baton_proxy_request_bytes_total",
                             .help = "Request bytes received from clients.",
                             .unit = "bytes"},
    [PROXY_ANSWER_BYTES] = {.name = "baton_proxy_answer_bytes_total",
                            .help = "Answer bytes received from members.",
                            .unit = "bytes"},

    [PROXY_ATTEMPTS] = {.group = "Attempts and parking",
                        .name = "baton_proxy_attempts_total",
                        .help = "Requests sent to a member; more than calls when some were sent "
                                "again."},
    [PROXY_RETRIES] =
        {.name = "baton_proxy_retries_total",
         .help = "Attempts after which the call was to be sent again, by why: not_sent and refused "
                 "(by the connection), not_executed (by the member), lost (with the connection), "
                 "superseded (by another leader).",
         .labels = {"reason"}},
    [PROXY_REPLAYS] = {.name = "baton_proxy_replays_total",
                       .help = "Calls sent again although an earlier attempt has an unknown "
                               "outcome: reads, and mutations with a request id."},
    [PROXY_PARKED] = {.name = "baton_proxy_parked_total",
                      .help = "Calls that had to wait for a leader."},
    [PROXY_PARKED_NOW] = {.name = "baton_proxy_parked_calls",
                          .help = "Calls that wait for a leader now.",
                          .kind = METRIC_GAUGE},
    [PROXY_PARKED_LIMIT] = {.name = "baton_proxy_parked_calls_limit",
                            .help = "Most of them, all workers together: --park-calls.",
                            .kind = METRIC_GAUGE},
    [PROXY_PARKED_TIME] = {.name = "baton_proxy_parked_seconds",
                           .help = "How long calls waited for a leader.",
                           .kind = METRIC_HISTOGRAM,
                           .unit = "seconds",
                           .bounds = stats_parked_bounds},

    [PROXY_LEADER_KNOWN] = {.group = "The leader and connections to members",
                            .name = "baton_proxy_leader_known",
                            .help = "1 while every worker knows a leader.",
                            .kind = METRIC_GAUGE},
    [PROXY_EPOCH] = {.name = "baton_proxy_leader_epoch",
                     .help = "The highest epoch known.",
                     .kind = METRIC_GAUGE},
    [PROXY_LEADER_CHANGES] = {.name = "baton_proxy_leader_changes_total",
                              .help = "Leaders that the first worker learnt of, one after the "
                                      "other."},
    [PROXY_CONNECTS] = {.name = "baton_proxy_connects_total",
                        .help = "Connections to members that were tried."},
    [PROXY_CONNECT_FAILURES] = {.name = "baton_proxy_connect_failures_total",
                                .help = "Connections to members that could not be made."},
    [PROXY_CONNECTIONS_LOST] = {.name = "baton_proxy_connections_lost_total",
                                .help = "Connections to members that broke, or were declared dead, "
                                        "without a good-bye."},
    [PROXY_UPSTREAM_CONNECTIONS] = {.name = "baton_proxy_upstream_connections",
                                    .help = "Connections to each member now, of all workers.",
                                    .kind = METRIC_GAUGE,
                                    .labels = {"upstream"}},
    [PROXY_UPSTREAM_STREAMS] = {.name = "baton_proxy_upstream_streams",
                                .help = "Streams on them now: calls, and the proxy's own "
                                        "questions.",
                                .kind = METRIC_GAUGE,
                                .labels = {"upstream"}},

    [PROXY_CLIENTS_ACCEPTED] = {.group = "Clients and limits",
                                .name = "baton_proxy_clients_accepted_total",
                                .help = "Client connections accepted."},
    [PROXY_CLIENTS] = {.name = "baton_proxy_clients",
                       .help = "Client connections now.",
                       .kind = METRIC_GAUGE},
    [PROXY_CLIENTS_LIMIT] = {.name = "baton_proxy_clients_limit",
                             .help = "Most of them: --max-connections, or what the limit of open "
                                     "files allows.",
                             .kind = METRIC_GAUGE},
    [PROXY_LIMIT_HITS] =
        {.name = "baton_proxy_limit_hits_total",
         .help = "Times a limit was hit: park (--park-calls), headers (a list too large), relay "
                 "(--relay-bytes), replay (a request outgrew what is kept to send it again), "
                 "resets, frames, idle (a client cut off), clients (one not accepted).",
         .labels = {"limit"}},
    [PROXY_RELAY_BYTES] = {.name = "baton_proxy_relay_bytes",
                           .help = "Answer bytes that clients have not taken yet.",
                           .kind = METRIC_GAUGE,
                           .unit = "bytes"},
    [PROXY_RELAY_LIMIT] = {.name = "baton_proxy_relay_limit_bytes",
                           .help = "Most of them, all workers together: --relay-bytes.",
                           .kind = METRIC_GAUGE,
                           .unit = "bytes"},
    [PROXY_REPLAY_BYTES] = {.name = "baton_proxy_replay_bytes",
                            .help = "Request bytes kept to send them again.",
                            .kind = METRIC_GAUGE,
                            .unit = "bytes"},
    [PROXY_REPLAY_LIMIT] = {.name = "baton_proxy_replay_limit_bytes",
                            .help = "Most of them, all workers together: --replay-bytes.",
                            .kind = METRIC_GAUGE,
                            .unit = "bytes"},
    [PROXY_WORKERS] = {.name = "baton_proxy_workers",
                       .help = "Threads that relay: --workers.",
                       .kind = METRIC_GAUGE},
    [PROXY_DRAINING] = {.name = "baton_proxy_draining",
                        .help = "1 from SIGTERM on.",
                        .kind = METRIC_GAUGE},
};
