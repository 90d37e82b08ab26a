#!/usr/bin/python3
"""P5, P6 and P7 of docs/performance.md: puts and gets of 64 bytes through a Baton member against etcd's own
gRPC port, by one load generator, in one run. Each has an etcd of its own with the same settings."""
from kv_peers import measured, start_etcd, start_member
from lib import bench_main, print_row, scratch


def compare(rounds, seconds, max_txn_ops, results):
    with scratch() as directory:
        etcd, etcd_port = start_etcd(directory, "alone", max_txn_ops)
        below, below_port = start_etcd(directory, "below", max_txn_ops)
        member, member_port = start_member(directory, below_port)
        sides = {"baton": (member, "baton", member_port), "etcd": (etcd, "etcd", etcd_port)}
        loads = {"put256": dict(op="put", in_flight=256), "put1": dict(op="put", in_flight=1),
                 "get64": dict(op="get", in_flight=64)}
        if max_txn_ops > 128:
            loads = {"put256": loads["put256"]}
        series = {name: {side: [] for side in sides} for name in loads}
        for _ in range(rounds):
            for name, options in loads.items():
                for side, (peer, target, port) in sides.items():
                    series[name][side].append(measured(peer, target, port, duration=f"{seconds}s", **options))
        for process in (member, below, etcd):
            process.stop()

    def row(title, name, field, target, unit):
        ours, theirs = ([r[field] for r in series[name][side]] for side in ("baton", "etcd"))
        print_row(results, title, {"baton": ours, "etcd": theirs}, target, unit)

    row(f"P6 puts/s, 256 in flight, {max_txn_ops} ops a txn", "put256", "ops_per_s",
        ">= 1.2" if max_txn_ops <= 128 else ">= 2.0", "/s")
    if "put1" in loads:
        row("P7 put median latency, 1 in flight", "put1", "p50_us", "<= 2.5", "us")
        row("P5 get CPU at the server, 64 in flight", "get64", "cpu_us", "<= 0.2", "us")
        row("   gets/s, 64 in flight", "get64", "ops_per_s", "-", "/s")


def measure(options, results):
    for max_txn_ops in (128, 1024):
        compare(options.rounds, options.seconds, max_txn_ops, results)


if __name__ == "__main__":
    bench_main(__doc__, measure, {"rounds": 7, "seconds": 3})
