#!/usr/bin/python3
"""P1 and P2 of docs/performance.md: what a unary RPC of 64 bytes costs through baton-proxy, HAProxy, nghttpx
and a bare TCP relay, in one run. CPU is that of the proxy process, pinned to one core; load and backend share
the other. A round counts only if the backend answered as many RPCs as the load sent."""
import os
import re
import struct
import subprocess

from lib import BIN, Failed, Peer, bench_main, have, quartiles, ratio_row, scratch, take_ports, wait_port

PATH = "/bench.Echo/Unary.grpc"  # nghttpd tells the content type by the ending
HAPROXY = """
global
  nbthread 1
  maxconn 4000
  tune.bufsize 65536
  tune.h2.initial-window-size 1048576
defaults
  mode {mode}
  timeout connect 5s
  timeout client 60s
  timeout server 60s
  http-reuse always
frontend f
  bind 127.0.0.1:{listen} {proto}
  default_backend b
backend b
  server s 127.0.0.1:{backend} {proto}
"""


class Backend:
    """echo-server (gRPC C core), or nghttpd with a fixed answer and an echo-server that names it as leader."""

    def __init__(self, kind, directory):
        self.kind = kind
        self.port, self.member_port = take_ports(2, directory)
        self.peers = []
        if kind == "ccore":
            self.member_port = self.port
            self.peers.append(Peer([f"{BIN}/echo-server", "--listen", f"127.0.0.1:{self.port}"], directory,
                                   "echo", core=1))
        else:
            root = os.path.join(directory, "www", "bench.Echo")
            os.makedirs(root)
            with open(os.path.join(root, "Unary.grpc"), "wb") as f:
                f.write(message(64))
            types = os.path.join(directory, "types")
            with open(types, "w", encoding="ascii") as f:
                f.write("application/grpc grpc\n")
            self.peers.append(Peer(["nghttpd", "--no-tls", "-a", "127.0.0.1", "-d", os.path.join(directory, "www"),
                                    "--mime-types-file", types, "--trailer", "grpc-status: 0", str(self.port)],
                                   directory, "nghttpd", core=1))
            self.peers.append(Peer([f"{BIN}/echo-server", "--listen", f"127.0.0.1:{self.member_port}",
                                    "--leader", f"127.0.0.1:{self.port}"], directory, "member", core=1))
        wait_port(self.port)
        wait_port(self.member_port)

    def members(self):
        return f"127.0.0.1:{self.member_port},127.0.0.1:{self.port}"

    def stop(self):
        """How many RPCs the C core backend echoed; None where it cannot tell."""
        answers = [peer.stop() for peer in self.peers]
        return int(answers[0]) if self.kind == "ccore" else None


def message(size):
    """One gRPC message around `size` zero bytes."""
    return struct.pack(">BI", 0, size) + bytes(size)


def start_proxy(kind, backend, directory):
    [port] = take_ports(1, directory)
    target = f"127.0.0.1:{backend.port}"
    if kind == "baton":
        argv = [f"{BIN}/baton-proxy", "--listen", f"127.0.0.1:{port}", "--http", "off", "--workers", "1",
                "--members", backend.members()]
    elif kind == "nghttpx":
        argv = ["nghttpx", "-f", f"127.0.0.1,{port};no-tls", "-b", f"127.0.0.1,{backend.port};;proto=h2",
                "--workers", "1", "--no-ocsp", "--accesslog-file=/dev/null", "--errorlog-file=/dev/null"]
    else:
        config = os.path.join(directory, f"{kind}.cfg")
        tcp = kind == "tcp"
        with open(config, "w", encoding="ascii") as f:
            f.write(HAPROXY.format(mode="tcp" if tcp else "http", proto="" if tcp else "proto h2",
                                   listen=port, backend=backend.port))
        argv = [have("haproxy"), "-db", "-q", "-f", config]
    peer = Peer(argv, directory, kind, core=0)
    wait_port(port)
    check(f"127.0.0.1:{port}", kind, target)
    return peer, port


def check(address, kind, target):
    """One RPC by a stock client: status OK and the right number of bytes."""
    import grpc
    with grpc.insecure_channel(address) as channel:
        call = channel.unary_unary(PATH)
        answer = call(bytes(64), timeout=15, wait_for_ready=True)
    if len(answer) != 64:
        raise Failed(f"{kind} before {target}: {len(answer)} bytes instead of 64")


def h2load(port, directory, *options):
    body = os.path.join(directory, "body")
    if not os.path.exists(body):
        with open(body, "wb") as f:
            f.write(message(64))
    argv = ["taskset", "-c", "1", "h2load", "-d", body, "-H", "content-type: application/grpc", "-H",
            "te: trailers", *options, f"http://127.0.0.1:{port}{PATH}"]
    out = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=300).stdout
    done = re.search(r"(\d+) succeeded, (\d+) failed", out)
    rate = re.search(r"([\d.]+) req/s", out)
    if not done or int(done[2]):
        raise Failed(f"h2load: {out[-400:]}")
    return int(done[1]), float(rate[1])


def cpu_per_rpc(kind, backend_kind, options):
    with scratch() as directory:
        backend = Backend(backend_kind, directory)
        peer, port = start_proxy(kind, backend, directory)
        before = peer.cpu_us()
        done, rate = h2load(port, directory, *options)
        spent = peer.cpu_us() - before
        peer.stop()
        counted = backend.stop()
        if counted is not None and counted != done + 1:
            raise Failed(f"{kind}: the backend echoed {counted - 1} of {done} RPCs")
        return spent / done, rate


def latency_us(kind):
    """The median of 20 000 RPCs, one at a time."""
    with scratch() as directory:
        backend = Backend("ccore", directory)
        if kind == "direct":
            peer, port = None, backend.port
        else:
            peer, port = start_proxy(kind, backend, directory)
        log = os.path.join(directory, "times")
        h2load(port, directory, "-c", "1", "-m", "1", "-n", "20000", "--log-file", log)
        if peer:
            peer.stop()
        backend.stop()
        with open(log, encoding="ascii") as f:
            times = sorted(int(line.split()[2]) for line in f)
        return times[len(times) // 2]


def cpu_table(rounds, seconds, kinds):
    results = {}
    for backend in ("nghttpd", "ccore"):
        for load, options in (("10 000/s", ["--rps", "1250"]), ("saturated", [])):
            series = {kind: [] for kind in kinds}
            rates = {kind: [] for kind in kinds}
            for _ in range(rounds):
                for kind in kinds:
                    cost, rate = cpu_per_rpc(kind, backend, ["-c", "8", "-m", "16", "-n", str(seconds * 10000),
                                                             *options])
                    series[kind].append(cost)
                    rates[kind].append(rate)
            name = f"P1 CPU/RPC, {backend}, {load}"
            if "haproxy" in kinds:
                print(ratio_row(name, series["baton"], series["haproxy"], "<= 0.65", "us"), flush=True)
            for kind in kinds:
                low, middle, high = quartiles(series[kind])
                print(f"    {kind:10} {middle:6.1f} us [{low:.1f}..{high:.1f}]  {quartiles(rates[kind])[1]:8.0f} RPC/s",
                      flush=True)
            results[name] = {kind: series[kind] for kind in kinds}
    return results


def latency_table(rounds, kinds):
    series = {kind: [] for kind in ["direct", *kinds]}
    for _ in range(rounds):
        for kind in series:
            series[kind].append(latency_us(kind))
    added = {kind: [a - b for a, b in zip(series[kind], series["direct"])] for kind in kinds}
    if "haproxy" in kinds:
        print(ratio_row("P2 added median latency, 1 in flight", added["baton"], added["haproxy"], "<= 0.7", "us"))
    for kind in kinds:
        print(f"    {kind:10} adds {quartiles(added[kind])[1]:6.1f} us")
    return {"P2": added}


def measure(options, results):
    kinds = ["baton"]
    for kind, program in (("haproxy", "haproxy"), ("nghttpx", "nghttpx"), ("tcp", "haproxy")):
        if have(program):
            kinds.append(kind)
        else:
            print(f"{kind}: {program} is missing here")
    if options.only != "latency":
        results.update(cpu_table(options.rounds, options.seconds, kinds))
    if options.only != "cpu":
        results.update(latency_table(options.rounds + 3, kinds))


if __name__ == "__main__":
    bench_main(__doc__, measure, {"rounds": 7, "seconds": 4}, [("--only", {"choices": ["cpu", "latency"]})])
