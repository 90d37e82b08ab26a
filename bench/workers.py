#!/usr/bin/python3
"""P11 of docs/performance.md: what the heartbeats of many workers, one a second each, cost the leader; and how that
grows with their number. Each second of a run is one sample of the leader's CPU time."""
import json
import time

from kv_peers import start_etcd, start_member
from lib import BIN, Failed, Peer, bench_main, print_row, quartiles, scratch

SIZES = (1000, 10000, 50000)
TARGET_SIZE, TARGET = 10000, "<= 0.25"


class Heartbeats:
    """worker-load: workers that are registered, and whose heartbeats have begun."""

    def __init__(self, directory, port, mode, workers, seconds):
        self.peer = Peer([f"{BIN}/worker-load", "--addr", f"127.0.0.1:{port}", "--mode", mode, "--workers", str(workers),
                          "--duration", f"{seconds}s"], directory, "load")
        self.registered = self._line()

    def _line(self):
        line = self.peer.process.stdout.readline()
        if not line:
            self.peer.stop()
            with open(self.peer.log_path, encoding="utf-8", errors="replace") as log:
                raise Failed(f"worker-load: {log.read()}")
        return json.loads(line)

    def result(self):
        answer = self._line()
        self.peer.stop()
        if answer["refused"] or answer["answered"] < answer["sent"]:
            raise Failed(f"worker-load: {answer}")
        return answer


def sample(member, seconds):
    """CPU seconds a second, once for each second."""
    samples, cpu, at = [], member.cpu_us(), time.monotonic()
    for _ in range(seconds):
        time.sleep(1)
        cpu_now, now = member.cpu_us(), time.monotonic()
        samples.append((cpu_now - cpu) / 1e6 / (now - at))
        cpu, at = cpu_now, now
    return samples


def run(mode, workers, seconds):
    """(samples of the leader's CPU, what became of the heartbeats), on a cluster of its own."""
    with scratch() as directory:
        etcd, etcd_port = start_etcd(directory, "etcd", 1024)
        member, port = start_member(directory, etcd_port)
        try:
            load = Heartbeats(directory, port, mode, workers, seconds + 2)
            samples = sample(member, seconds)
            return samples, load.result(), load.registered
        finally:
            for process in (member, etcd):
                process.stop()


def measure(options, results):
    for mode in ("stream", "unary"):
        costs = {}
        for workers in SIZES:
            samples, beats, registered = run(mode, workers, options.seconds)
            low, middle, high = quartiles(samples)
            costs[workers] = middle
            print(f"    {mode:6} {workers:6} workers: leader {middle:6.3f} [{low:.3f}..{high:.3f}] cores, {middle / (beats['answered'] / (options.seconds + 2)) * 1e6:5.1f} "
                  f"us a heartbeat; answered after p50 {beats['p50_us'] / 1000:.1f}, p99 {beats['p99_us'] / 1000:.1f} ms; "
                  f"{beats['late']} left out; registered in {registered['seconds']:.1f} s", flush=True)
            if workers == TARGET_SIZE:
                print_row(results, f"P11 {workers} workers, {mode}, cores of the leader",
                          {"leader": samples, "one core": [1.0]}, TARGET, "cores")
            results[f"P11 {mode} {workers}"] = samples
        print("P11 growth, " + mode + ": " + ", ".join(
            f"{workers} workers {cost / costs[SIZES[0]]:.1f} x" for workers, cost in costs.items()))


if __name__ == "__main__":
    bench_main(__doc__, measure, {"seconds": 15})
