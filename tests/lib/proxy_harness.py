"""Real baton-proxy processes in front of fake members, and the base class of their tests."""
import os
import re
import signal
import subprocess
import threading
import unittest
import urllib.error
import urllib.request

import grpc

from h2_backend_member import FakeCluster
from h2_client import Client, PlainSocket
from h2_lab import DEADLINE_S, Lab

BIN = os.path.join(os.environ.get("BATON_BIN", "build/bin"), "baton-proxy")
UNARY, STREAM = "/test.Svc/Unary", "/test.Svc/Stream"
GET, PUT = "/baton.v1.KvService/Get", "/baton.v1.KvService/Put"
PARKED = "baton_proxy_parked_calls"  # the gauge
# What no healthy process prints.
CRASH = re.compile(r"AddressSanitizer|ThreadSanitizer|LeakSanitizer|runtime error:|"
                   r" does not hold: ")


def run_proxy(*args, timeout=DEADLINE_S):
    """A proxy that should end by itself: its exit code and what it printed. Leaks do not matter to one
    that never served; a sanitizer would change the exit code for them."""
    environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}
    done = subprocess.run([BIN, *args], capture_output=True, text=True, timeout=timeout, env=environment)
    return done.returncode, done.stdout, done.stderr


class Proxy:
    def __init__(self, lab, seeds, *args, listen="127.0.0.1:0", http="127.0.0.1:0"):
        self.lab, self.lines = lab, []
        self.asked_to_end = False
        self.expected_exit = 0
        command = [BIN, "--listen", listen, "--http", http, "--members", seeds, *args]
        # A small quarantine: with it, memory of a sanitized proxy says something.
        environment = {"ASAN_OPTIONS": "quarantine_size_mb=16", **os.environ}
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                        text=True, errors="replace", env=environment)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.addr = self._logged_address(r"listening on (\S+:\d+)")
        self.http_addr = self._logged_address(r"http on (\S+:\d+)")

    def _read(self):
        for line in self.process.stderr:
            self.lines.append(line.rstrip("\n"))

    def _logged_address(self, pattern):
        def look():
            found = self.find_lines(pattern)
            if not found and self.process.poll() is not None:
                raise AssertionError(f"baton-proxy ended with {self.process.returncode}:\n{self.log}")
            return re.search(pattern, found[0]).group(1) if found else None
        return self.lab.wait(look, f"the proxy logs /{pattern}/")

    @property
    def log(self):
        return "\n".join(self.lines)

    def find_lines(self, pattern):
        return [line for line in list(self.lines) if re.search(pattern, line)]

    @property
    def alive(self):
        return self.process.poll() is None

    # Its HTTP side.

    def get(self, path):
        """Status and body; also of refusals."""
        try:
            with urllib.request.urlopen(f"http://{self.http_addr}{path}", timeout=DEADLINE_S) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def metrics(self):
        """{(name, frozenset of label pairs): value} of the exposition."""
        status, text = self.get("/metrics")
        if status != 200:
            raise AssertionError(f"/metrics answered {status}: {text}")
        values = {}
        for line in text.splitlines():
            if line and not line.startswith("#"):
                name, labels, value = re.match(r"([A-Za-z_:][\w:]*)(?:\{(.*)\})? (\S+)", line).groups()
                pairs = re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels or "")
                values[name, frozenset(pairs)] = float(value)
        return values

    def metric(self, name, **labels):
        """The sum over all cells of a metric that have these labels; 0 when there are none."""
        wanted = set(labels.items())
        return sum(v for (n, pairs), v in self.metrics().items() if n == name and wanted <= pairs)

    def wait_metric(self, name, at_least, **labels):
        self.lab.wait(lambda: self.metric(name, **labels) >= at_least,
                      f"{name}{labels or ''} reaches {at_least} (is {self.metric(name, **labels)})")

    def wait_ready(self):
        """A leader is known."""
        self.lab.wait(lambda: self.get("/readyz?leader")[0] == 200, "/readyz?leader answers 200")
        return self

    # Its process.

    def rss(self):
        """Resident bytes."""
        with open(f"/proc/{self.process.pid}/status") as status:
            return int(re.search(r"VmRSS:\s+(\d+) kB", status.read()).group(1)) * 1024

    @property
    def sanitized(self):
        with open(BIN, "rb") as program:
            return b"__asan_init" in program.read()

    def peak_rss(self):
        with open(f"/proc/{self.process.pid}/status") as status:
            return int(re.search(r"VmHWM:\s+(\d+) kB", status.read()).group(1)) * 1024

    def term(self):
        self.asked_to_end = True
        self.process.send_signal(signal.SIGTERM)

    def wait_exit(self, timeout=DEADLINE_S):
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the proxy did not exit within {timeout:g} s:\n{self.log}") from None
        self._reader.join(5)
        return self.process.returncode

    def close(self):
        """Ends it; returns complaints: about how it ended and what it printed."""
        complaints = []
        if self.alive:
            if not self.asked_to_end:
                self.term()
            try:
                self.wait_exit()
            except AssertionError:
                complaints.append("did not exit after SIGTERM")
                self.process.kill()
        self.process.wait()
        self._reader.join(5)
        self.process.stderr.close()
        if self.process.returncode != self.expected_exit:
            complaints.append(f"exit code {self.process.returncode}")
        if CRASH.search(self.log):
            complaints.append("printed a crash")
        return complaints


class ProxyTest(unittest.TestCase):
    """Makes and ends the lab, members, proxies and clients of a test; a member that saw the protocol
    violated, a script that failed or a proxy that ended badly fails the test."""

    leaving = []  # proxies of ended tests, asked to end: (test, proxy)

    def setUp(self):
        self.lab = Lab()
        self.addCleanup(self.lab.close)
        self.clients, self.channels, self.proxies, self.clusters = [], [], [], []
        self.addCleanup(self._end)

    def _end(self):
        for channel in self.channels:
            channel.close()
        for client in self.clients:
            client.close()
        complaints = []
        for proxy in self.proxies:
            if proxy.alive and not proxy.asked_to_end:
                proxy.term()
            self.leaving.append((self.id(), proxy))
        for cluster in self.clusters:
            cluster.close()
            complaints += [f"protocol violated: {text}" for text in cluster.violations]
        complaints += [f"script failed: {error!r}" for error in self.lab.failures]
        if complaints:
            self.fail("\n".join(complaints))

    @classmethod
    def tearDownClass(cls):
        """Every proxy must have ended well. They are waited for together: each drains for a moment."""
        complaints = []
        while cls.leaving:
            test, proxy = cls.leaving.pop()
            complaints += [f"{test}: proxy {text}; log:\n{proxy.log}" for text in proxy.close()]
        if complaints:
            raise AssertionError("\n".join(complaints))

    def cluster(self, count=1, leader=0, **options):
        """Fake members, with a leader unless leader=None."""
        cluster = FakeCluster(self.lab, count, **options)
        self.clusters.append(cluster)
        if leader is not None:
            cluster.lead(leader)
        return cluster

    def proxy(self, cluster, *args, ready=True, **options):
        """A proxy for the cluster (or for a list of seeds), ready when a leader is to be known."""
        seeds = cluster if isinstance(cluster, str) else cluster.seeds
        if "--drain-timeout" not in args:
            args = (*args, "--drain-timeout", "2s")
        if "--upstream-ping" not in args:  # peers that live in one thread of a busy machine are slow now and then
            args = (*args, "--upstream-ping", "20s")
        proxy = Proxy(self.lab, seeds, *args, **options)
        self.proxies.append(proxy)
        return proxy.wait_ready() if ready else proxy

    def client(self, proxy, settings=None):
        client = Client(self.lab, getattr(proxy, "addr", proxy), settings)
        self.clients.append(client)
        return client

    def plain_socket(self, proxy):
        plain = PlainSocket(proxy.addr)
        self.addCleanup(plain.close)
        return plain

    def channel(self, proxy, *options):
        """A stock grpcio channel, its own retries switched off."""
        channel = grpc.insecure_channel(getattr(proxy, "addr", proxy), options=[
            ("grpc.enable_retries", 0), ("grpc.max_receive_message_length", -1),
            ("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1), *options])
        self.channels.append(channel)
        return channel

    def pair(self, *args, count=1, leader=0, settings=None, **options):
        """The usual scene: members, a proxy, a raw client."""
        cluster = self.cluster(count, leader, settings=settings)
        proxy = self.proxy(cluster, *args, ready=leader is not None, **options)
        return cluster, proxy, self.client(proxy)

    def assert_memory(self, proxy, before, limit):
        """Resident memory never grew by more than the limit since `before`."""
        grown = proxy.peak_rss() - before
        # Sanitizers surround and keep every allocation.
        self.assertLess(grown, limit * (4 if proxy.sanitized else 1), f"grew by {grown >> 20} MiB")

    def assert_ok(self, call, message=None):
        self.assertEqual(call.grpc_status, 0, call.describe())
        if message is not None:
            self.assertEqual(call.messages, [message])

    def assert_status(self, call, status, **trailers):
        """grpc-status, and trailers by name: a value, None for absent, or any for present."""
        self.assertEqual(call.grpc_status, status, call.describe())
        for name, value in trailers.items():
            name = name.replace("_", "-")
            if value is any:
                self.assertIsNotNone(call.trailer(name), f"{name} is missing: {call.describe()}")
            else:
                self.assertEqual(call.trailer(name), value, f"{name}: {call.describe()}")

    def assert_not_executed(self, call, status=14):
        self.assert_status(call, status, baton_not_executed="1", baton_outcome=None)

    def assert_unknown(self, call, status=14):
        self.assert_status(call, status, baton_outcome="unknown", baton_not_executed=None)


def main():
    unittest.main(verbosity=2)
