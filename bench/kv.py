#!/usr/bin/python3
"""P5, P6 and P7 of docs/performance.md: puts and gets of 64 bytes through a Baton member against etcd's own
gRPC port, by one load generator, in one run. Each has an etcd of its own with the same settings."""
import argparse
import json
import os
import subprocess

from lib import BIN, Failed, Peer, machine, ratio_row, scratch, take_ports, wait_port, wait_until


def start_etcd(directory, name, max_txn_ops):
    client, peer = take_ports(2, directory)
    url, peer_url = f"http://127.0.0.1:{client}", f"http://127.0.0.1:{peer}"
    process = Peer(["etcd", "--name", name, "--data-dir", os.path.join(directory, name),
                    "--listen-client-urls", url, "--advertise-client-urls", url, "--listen-peer-urls", peer_url,
                    "--initial-advertise-peer-urls", peer_url, "--initial-cluster", f"{name}={peer_url}",
                    "--max-txn-ops", str(max_txn_ops), "--log-level", "error"], directory, name)
    wait_port(client)
    return process, client


def start_member(directory, etcd_port):
    port, http = take_ports(2, directory)
    address = f"127.0.0.1:{port}"
    process = Peer([f"{BIN}/baton-meta", "--id", "bench", "--data", os.path.join(directory, "member"), "--listen",
                    address, "--http", f"127.0.0.1:{http}", "--etcd", f"http://127.0.0.1:{etcd_port}"],
                   directory, "member")

    def leads():
        out = subprocess.run([f"{BIN}/batonctl", "--addr", address, "-o", "json", "leader"], capture_output=True,
                             text=True, check=False).stdout
        return out.startswith("{") and json.loads(out)["known"]

    wait_until("the member leads", 30, leads)
    return process, port


def load(target, port, **options):
    argv = [f"{BIN}/kv-load", "--target", target, "--addr", f"127.0.0.1:{port}"]
    for name, value in options.items():
        argv += ["--" + name.replace("_", "-"), str(value)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    result = json.loads(done.stdout)
    if result["errors"] or not result["ops"]:
        raise Failed(f"{target}: {done.stdout}{done.stderr}")
    return result


def measured(peer, *args, **options):
    """A load, and what it cost the server in CPU microseconds a call."""
    before = peer.cpu_us()
    result = load(*args, **options)
    result["cpu_us"] = (peer.cpu_us() - before) / result["ops"]
    return result


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
        print(ratio_row(title, ours, theirs, target, unit), flush=True)
        results[title] = {"baton": ours, "etcd": theirs}

    row(f"P6 puts/s, 256 in flight, {max_txn_ops} ops a txn", "put256", "ops_per_s",
        ">= 1.2" if max_txn_ops <= 128 else ">= 2.0", "/s")
    if "put1" in loads:
        row("P7 put median latency, 1 in flight", "put1", "p50_us", "<= 2.5", "us")
        row("P5 get CPU at the server, 64 in flight", "get64", "cpu_us", "<= 0.2", "us")
        row("   gets/s, 64 in flight", "get64", "ops_per_s", "-", "/s")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=int, default=3, help="of each load")
    parser.add_argument("--json", help="also write all values there")
    options = parser.parse_args()
    print(machine())
    results = {}
    for max_txn_ops in (128, 1024):
        compare(options.rounds, options.seconds, max_txn_ops, results)
    if options.json:
        with open(options.json, "w", encoding="ascii") as f:
            json.dump(results, f, indent=1)


if __name__ == "__main__":
    try:
        main()
    except Failed as e:
        raise SystemExit(f"bench/kv.py: {e}") from None
