#!/usr/bin/python3
"""A watcher, a subscriber and workers live through faults, for longer than a test may take: checks that they were told
everything once and in order and that no worker expired, and prints what they went through."""
import argparse
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "tests", "lib"))
from cluster import LocalCluster  # noqa: E402
from live import Live  # noqa: E402


def run(args):
    """One round; what was wrong."""
    cluster = LocalCluster(ttl=args.ttl)
    try:
        with Live(cluster, workers=args.workers, ttl_ms=args.worker_ttl * 1000) as live:
            live.strike(args.kills, args.transfers, args.etcd_restarts)
            live.let_one_die()
            problems = live.problems()
            print(live.summary(), flush=True)
    finally:
        complaints = cluster.close()
    return problems + complaints


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name, value, text in (("rounds", 1, "clusters, one after another"), ("kills", 20, "of the leader's process"),
                              ("transfers", 5, "planned handovers"), ("etcd-restarts", 1, "kill -9 of etcd"),
                              ("workers", 200, "half on streams, half by single calls"),
                              ("ttl", 5, "lease of the leader in seconds"), ("worker-ttl", 10, "in seconds")):
        parser.add_argument(f"--{name}", type=int, default=value, help=f"{text} (default {value})")
    args = parser.parse_args()
    problems = [problem for _ in range(args.rounds) for problem in run(args)]
    print(f"violations found: {len(problems)}")
    for problem in problems[:20]:
        print("   ", problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
