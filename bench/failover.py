#!/usr/bin/python3
"""How long calls wait when leaders die or hand over. Starts a local cluster, strikes its leader again and again under
load through the proxy, checks that no acknowledged effect was lost or doubled, and prints the gaps.

The gap of a fault is the time from it to the first acknowledged put that was issued after it. That of a transfer lasts
from the last answer of the old leader to the first of the new one; "slowest call" is the longest that any call took
that was in flight then or within a second, whatever it waited for."""
import argparse
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "tests", "lib"))
import history as histories  # noqa: E402
from cluster import BIN, LocalCluster, wait_until  # noqa: E402
from failover import table_of_gaps  # noqa: E402
from workload import Load  # noqa: E402


def back(cluster, fault):
    """Brings the member back, and waits until the cluster is whole again."""
    if fault.kind == "transfer":
        pass
    elif fault.kind == "SIGSTOP":
        cluster.resume(fault.name)
    else:
        cluster.process(fault.name).wait_gone(30)
        cluster.restart(fault.name)
    wait_until("all members queue", lambda: len(cluster.election_queue()) == len(cluster.members))


def strike(cluster, load, do):
    _, epoch = cluster.wait_leader()
    fault = do()
    cluster.wait_leader(above_epoch=epoch)
    load.wait_progress(puts=20, since=fault.at)
    return fault


class Bench:
    """batonctl's own load beside, one attempt a call, for as long as a fault takes."""

    def __init__(self, cluster, seconds):
        self.process = subprocess.Popen(
            [os.path.join(BIN, "batonctl"), "--addr", cluster.proxy, "-o", "json", "bench", "mixed",
             "--concurrency", "64", "--duration", f"{seconds}s"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def result(self):
        out, err = self.process.communicate(timeout=300)
        if not out:
            raise SystemExit(f"batonctl bench failed: {err}")
        return json.loads(out)


def run(args, cluster):
    faults, benches = [], []
    kinds = {"kill": cluster.kill_leader, "hard": lambda: cluster.kill_leader(hard=True),
             "term": cluster.term_leader, "pause": cluster.pause_leader, "transfer": cluster.transfer_leader}
    clients = args.clients if args.load == "python" else 8
    with Load(cluster.proxy, clients) as load:
        for number in range(args.kills):
            kind = args.kind[number % len(args.kind)]
            bench = Bench(cluster, 3 + (args.ttl if kind in ("hard", "pause") else 0)) if args.load == "batonctl" else None
            load.wait_progress()
            fault = strike(cluster, load, kinds[kind])
            faults.append(fault)
            if bench:
                benches.append(bench.result())
            back(cluster, fault)
            if sys.stderr.isatty():
                print(f"\r{number + 1} of {args.kills} ", end="", file=sys.stderr, flush=True)
        load.stop()
    return load, faults, benches


def report(args, cluster, load, faults, benches):
    history, gaps = load.history(), {}
    for fault in faults:
        if fault.kind == "transfer":
            gaps.setdefault("transfer", []).append((history.handover_gap(fault.epoch) or float("inf")) * 1000)
            gaps.setdefault("slowest call", []).append(history.longest_call(fault.at) * 1000)
        else:
            gaps.setdefault(fault.kind, []).append((history.gap_after(fault.at) or float("inf")) * 1000)
    print(table_of_gaps(f"{args.kills} faults, TTL {args.ttl} s, load: {args.load}, {args.clients} in flight", gaps))
    errors = len(history.errors()) + sum(bench["errors"] for bench in benches)
    calls = len(history.ops) + sum(bench["ops"] for bench in benches)
    print(f"  {'calls':<28}{calls:>12}\n  {'errors seen by callers':<28}{errors:>12}")
    waits = [(op.end - op.begin) * 1000 for op in history.ops]
    print(f"  {'call p50 / p99 / max, ms':<28}" +
          "".join(f"{histories.percentile(waits, share):>9.1f}" for share in (0.5, 0.99, 1)))
    attempts, sent = cluster.metric("p1", "baton_proxy_attempts_total"), cluster.metric("p1", "baton_proxy_calls_total")
    print(f"  {'attempts of the proxy a call':<28}{attempts / sent if sent else 0:>12.4f}")
    print(f"  {'sent again, outcome open':<28}{cluster.metric('p1', 'baton_proxy_replays_total'):>12.0f}")
    print(f"  {'epochs':<28}{cluster.history()[-1].epoch:>6} to {cluster.history()[0].epoch}")
    problems = load.problems(cluster)
    print(f"  {'violations found':<28}{len(problems):>12}")
    for problem in problems[:20]:
        print("   ", problem)
    return 1 if problems or errors else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=30, help="how many faults (default 30)")
    parser.add_argument("--kind", nargs="+", choices=("kill", "hard", "term", "pause", "transfer"), default=["kill"],
                        help="which, in turn: the member process, its guardian too, SIGTERM, SIGSTOP, "
                             "a planned handover (default kill)")
    parser.add_argument("--load", choices=("python", "batonctl"), default="python",
                        help="who makes the load: 64 stock Python clients, or batonctl bench mixed and 8 of those")
    parser.add_argument("--clients", type=int, default=64, help="of the Python load (default 64)")
    parser.add_argument("--etcd", type=int, default=1, choices=(1, 3), help="etcd nodes (default 1)")
    parser.add_argument("--ttl", type=int, default=5, help="lease of the leader in seconds (default 5)")
    args = parser.parse_args()
    cluster = LocalCluster(etcd=args.etcd, ttl=args.ttl)
    try:
        status = report(args, cluster, *run(args, cluster))
    finally:
        complaints = cluster.close()
    print("\n".join(complaints), end="")
    return 1 if complaints else status


if __name__ == "__main__":
    sys.exit(main())
