#!/usr/bin/python3
"""P10, P14 and P15 of docs/performance.md, and the growth of P5: what a large state costs. A takeover with many keys
against one with few, a member's memory for each key against etcd's, puts with request ids against puts without, gets
at several sizes."""
import os
import sys
import time

from kv_peers import load, measured, start_etcd, start_member
from lib import SOURCE, bench_main, print_row, quartiles, scratch, wait_until

sys.path.insert(0, os.path.join(SOURCE, "tests", "lib"))
from cluster import LocalCluster  # noqa: E402
from workload import Load  # noqa: E402

VALUE_BYTES = 256
FEW = 1000


def fill(target, port, keys):
    load(target, port, op="fill", in_flight=4, keys=keys, value_size=VALUE_BYTES)


def resident_bytes(pid):
    """(all, of it anonymous): what a process has in memory."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as f:
        fields = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in list(f)[1:]}
    return fields["Rss"], fields["Anonymous"]


def memory(keys, results):
    """P14. etcd has the same keys and values, put in the same txns."""
    with scratch() as directory:
        etcd, etcd_port = start_etcd(directory, "alone", 1024)
        below, below_port = start_etcd(directory, "below", 1024)
        member, member_port = start_member(directory, below_port)
        sides = {"baton": (member.children()[0], member_port), "etcd": (etcd.pid, etcd_port)}
        before = {side: resident_bytes(pid) for side, (pid, _) in sides.items()}
        for side, (_, port) in sides.items():
            fill(side, port, keys)
        after = {side: resident_bytes(pid) for side, (pid, _) in sides.items()}
        for process in (member, below, etcd):
            process.stop()
    each = {side: [(after[side][0] - before[side][0]) / keys] for side in sides}
    print_row(results, f"P14 memory for each of {keys} keys", each, "<= 0.5", "bytes")
    print(f"    of the member's {each['baton'][0]:.0f} bytes are {(after['baton'][1] - before['baton'][1]) / keys:.0f} "
          f"its own, the rest is the mapped state; {after['baton'][0] / 1e6:.0f} MB in all, etcd {after['etcd'][0] / 1e6:.0f} MB")


def request_ids(rounds, seconds, results):
    """P15."""
    with scratch() as directory:
        etcd, etcd_port = start_etcd(directory, "etcd", 1024)
        member, port = start_member(directory, etcd_port, "--dedup-bytes", "2GiB")
        series = {"with": [], "without": []}
        for _ in range(rounds):
            for kind, ids in (("with", 1), ("without", 0)):
                series[kind].append(load("baton", port, op="put", in_flight=256, duration=f"{seconds}s",
                                         request_ids=ids)["ops_per_s"])
        for process in (member, etcd):
            process.stop()
    print_row(results, "P15 puts/s with and without request ids", series, ">= 0.85", "/s")


def gets(rounds, seconds, sizes, results):
    """The growth of P5."""
    with scratch() as directory:
        etcd, etcd_port = start_etcd(directory, "etcd", 1024)
        member, port = start_member(directory, etcd_port)
        for size in sizes:
            fill("baton", port, size)
            costs = [measured(member, "baton", port, op="get", in_flight=64, keys=size, duration=f"{seconds}s")["cpu_us"]
                     for _ in range(rounds)]
            low, middle, high = quartiles(costs)
            print(f"P5 get CPU at the leader, {size:8} keys {middle:10.1f} [{low:.1f}..{high:.1f}] us", flush=True)
            results[f"P5 {size} keys"] = costs
        for process in (member, etcd):
            process.stop()


class Takeovers:
    """A cluster with so many keys, whose leader is killed again and again under a small load."""

    def __init__(self, keys):
        self.cluster = LocalCluster(members=2)
        self.gaps = []
        _, epoch = self.cluster.wait_leader()
        fill("baton", int(self.cluster.proxy.rsplit(":", 1)[1]), keys)
        self.revision = self.cluster.leader_state(self.cluster.proxy).revision
        wait_until("all members have all keys", 120, self._whole)

    def _whole(self):
        states = [self.cluster.leader_state(address) for address in self.cluster.members.values()]
        return all(state and state.revision >= self.revision for state in states)

    def kill(self):
        with Load(self.cluster.proxy, clients=8) as running:
            _, epoch = self.cluster.wait_leader()
            fault = self.cluster.kill_leader()
            self.cluster.wait_leader(above_epoch=epoch)
            running.wait_progress(puts=20, since=fault.at)
            history = running.stop()
        self.gaps.append(history.gap_after(fault.at) * 1000)
        self.cluster.process(fault.name).wait_gone(30)
        self.cluster.restart(fault.name)
        wait_until("all members queue", 120, lambda: len(self.cluster.election_queue()) == len(self.cluster.members))


def takeovers(rounds, keys, results):
    """P10, the two clusters in turn."""
    few, many = Takeovers(FEW), None
    try:
        began = time.monotonic()
        many = Takeovers(keys)
        print(f"    {keys} keys put and on every member after {time.monotonic() - began:.0f} s", flush=True)
        for _ in range(rounds):
            few.kill()
            many.kill()
    finally:
        for side in (few, many):
            if side:
                print("".join(side.cluster.close()), end="")
    print_row(results, f"P10 gap of a takeover, {keys} against {FEW} keys", {"many": many.gaps, "few": few.gaps},
              "<= 1.5", "ms")


def measure(options, results):
    parts = {"memory": lambda: memory(options.keys, results),
             "ids": lambda: request_ids(options.rounds, options.seconds, results),
             "gets": lambda: gets(options.rounds, options.seconds, [1000, 100000, options.keys], results),
             "takeovers": lambda: takeovers(options.rounds, options.keys, results)}
    for name, part in parts.items():
        if options.only in (None, name):
            part()


if __name__ == "__main__":
    bench_main(__doc__, measure, {"rounds": 7, "seconds": 3, "keys": 1000000},
               [("--only", {"choices": ["memory", "ids", "gets", "takeovers"]})])
