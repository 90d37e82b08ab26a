#!/usr/bin/python3
"""P12 of docs/performance.md: from one put to the last of its watchers that hears of it, all on one member; and how that
grows with their number."""
import json
import os
import subprocess
import sys

from kv_peers import start_etcd, start_member
from lib import BIN, SOURCE, Failed, bench_main, print_row, scratch

sys.path.insert(0, os.path.join(SOURCE, "tests", "lib"))
from history import percentile  # noqa: E402

SIZES = (100, 1000, 10000)
TARGET_SIZE, TARGET_MS = 10000, 100.0


STALLED = {"watchers": 100, "value_size": 16384, "puts": 400}  # more than a watch may leave unread


def run(watchers, puts, *options):
    """[(answered, first, median, last)] in ms, one for each put, and how long opening took, in seconds."""
    with scratch() as directory:
        etcd, etcd_port = start_etcd(directory, "etcd", 1024)
        member, port = start_member(directory, etcd_port, "--max-watches", "20000")
        cpu = member.cpu_us()
        done = subprocess.run([f"{BIN}/watch-load", "--addr", f"127.0.0.1:{port}", "--watchers", str(watchers),
                               "--puts", str(puts), *options], capture_output=True, text=True, check=False)
        cpu = member.cpu_us() - cpu
        for process in (member, etcd):
            process.stop()
    if done.returncode:
        raise Failed(f"watch-load: {done.stdout}{done.stderr}")
    opened, told = map(json.loads, done.stdout.splitlines())
    return [[us / 1000 for us in row] for row in told["us"]], opened["seconds"], cpu / watchers / puts


def stalled(rounds, results):
    """Readers that do not read are cut; the others hear no later for it."""
    series = {"with": [], "without": []}
    for _ in range(rounds):
        for side, count in (("with", "10"), ("without", "0")):
            rows, _, _ = run(STALLED["watchers"], STALLED["puts"], "--value-size", str(STALLED["value_size"]), "--stalled", count)
            series[side] += [row[-1] for row in rows]
    print_row(results, "   last of 100 watchers, beside 10 that stall", series, "-", "ms")


def measure(options, results):
    for watchers in SIZES:
        worst = []
        for _ in range(options.rounds):
            rows, opening, cpu = run(watchers, options.puts)
            answered, first, median, last = zip(*rows)
            worst.append(percentile(last, 0.99))
            print(f"    {watchers:6} watchers: last told after p50 {percentile(last, 0.5):7.1f}, p99 {worst[-1]:7.1f} ms; half of them "
                  f"p50 {percentile(median, 0.5):.1f}, first {percentile(first, 0.5):.1f}, writer answered {percentile(answered, 0.5):.1f} ms; "
                  f"all opened in {opening:.1f} s; {cpu:.1f} us of the member for each, opening included", flush=True)
            results.setdefault(f"P12 {watchers} last, ms", []).append(last)
        if watchers == TARGET_SIZE:
            print_row(results, f"P12 last of {watchers} watchers, p99", {"p99": worst, "allowed": [TARGET_MS]}, "<= 1.0", "ms")
        results[f"P12 {watchers} p99"] = worst
    stalled(options.rounds, results)


if __name__ == "__main__":
    bench_main(__doc__, measure, {"rounds": 3, "puts": 100})
