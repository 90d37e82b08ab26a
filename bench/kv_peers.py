"""A Baton member and etcd, each with an etcd of its own and the same settings, and one load generator for both."""
import json
import os
import subprocess

from lib import BIN, Failed, Peer, take_ports, wait_port, wait_until


def start_etcd(directory, name, max_txn_ops):
    client, peer = take_ports(2, directory)
    url, peer_url = f"http://127.0.0.1:{client}", f"http://127.0.0.1:{peer}"
    process = Peer(["etcd", "--name", name, "--data-dir", os.path.join(directory, name),
                    "--listen-client-urls", url, "--advertise-client-urls", url, "--listen-peer-urls", peer_url,
                    "--initial-advertise-peer-urls", peer_url, "--initial-cluster", f"{name}={peer_url}",
                    "--max-txn-ops", str(max_txn_ops), "--log-level", "error"], directory, name)
    wait_port(client)
    return process, client


def start_member(directory, etcd_port, *options):
    port, http = take_ports(2, directory)
    address = f"127.0.0.1:{port}"
    process = Peer([f"{BIN}/baton-meta", "--id", "bench", "--data", os.path.join(directory, "member"), "--listen",
                    address, "--http", f"127.0.0.1:{http}", "--etcd", f"http://127.0.0.1:{etcd_port}", *options],
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
