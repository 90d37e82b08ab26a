"""Clusters of real processes for tests: started by scripts/cluster, spoken to as its users would."""
import importlib.machinery
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import grpc

import stubs

SOURCE = stubs.SOURCE
BIN = os.environ.get("BATON_BIN") or os.path.join(SOURCE, "build", "bin")
DEADLINE_S = float(os.environ.get("BATON_TEST_DEADLINE", "60"))
ETCDCTL_PATIENCE = ["--dial-timeout", f"{DEADLINE_S:g}s", "--command-timeout", f"{DEADLINE_S:g}s"]
# What no healthy process prints.
CRASH = re.compile(r"AddressSanitizer|ThreadSanitizer|LeakSanitizer|runtime error:| does not hold: |"
                   r"Segmentation fault|out of memory")
# Nothing between a test and what the proxy does: no retries, no connection shared with other tests. The second number is
# how long connecting may take, in spite of its name.
CHANNEL_OPTIONS = [("grpc.enable_retries", 0), ("grpc.use_local_subchannel_pool", 1),
                   ("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1),
                   ("grpc.initial_reconnect_backoff_ms", 50), ("grpc.min_reconnect_backoff_ms", 10000),
                   ("grpc.max_reconnect_backoff_ms", 500)]


def _load_script(name):
    sys.path.insert(0, os.path.join(SOURCE, "scripts"))
    loader = importlib.machinery.SourceFileLoader("baton_" + name, os.path.join(SOURCE, "scripts", name))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


sys.dont_write_bytecode = True
script = _load_script("cluster")


def wait_until(what, condition, seconds=DEADLINE_S):
    """The first true answer of condition(), which is asked again and again; the only way tests wait."""
    try:
        return script.wait_until(what, seconds, condition)
    except script.Failed as failure:
        raise AssertionError(str(failure)) from None


def channel(address):
    return grpc.insecure_channel(address, options=CHANNEL_OPTIONS)


class Kill:
    """One fault: when it struck (time.monotonic), whom, and the epoch that it led."""

    def __init__(self, kind, name, at, epoch):
        self.kind, self.name, self.at, self.epoch = kind, name, at, epoch


class LocalCluster:
    """Started when made; ends with close(), or when the test process does."""

    def __init__(self, etcd=1, members=3, proxies=1, ttl=5, etcd_urls=(), member_args=(), proxy_args=(),
                 name="local", directory=None, embedded=False):
        self.directory = directory or tempfile.mkdtemp(prefix="baton-cluster-")
        shape = ["--embedded"] if embedded else ["--etcd", str(etcd), "--members", str(members), "--ttl", str(ttl)]
        argv = [os.path.join(SOURCE, "scripts", "cluster"), "up", "--dir", self.directory, *shape,
                "--proxies", str(proxies), "--name", name, "--bin", BIN, "--owner", str(os.getpid())]
        argv += [f"--etcd-url={url}" for url in etcd_urls]
        argv += [f"--member-arg={arg}" for arg in member_args] + [f"--proxy-arg={arg}" for arg in proxy_args]
        self._stubs = {}
        self._channels = []
        try:
            self._check(argv)
        except BaseException:
            shutil.rmtree(self.directory, ignore_errors=True)
            raise
        self.parts = script.Cluster.load(self.directory)
        self.proxies = self.parts.addresses("proxy")
        self.proxy = self.proxies[0] if self.proxies else ""
        self.members = {name: self.parts.parts[name]["addr"] for name in self.parts.names("member")}
        self.http = {name: part["http"] for name, part in self.parts.parts.items()}
        self.etcd = self.parts.addresses("etcd")
        self.prefix = f"/baton/{name}/"

    @staticmethod
    def _check(argv):
        done = subprocess.run(argv, capture_output=True, text=True)
        if done.returncode:
            raise AssertionError(f"{' '.join(argv[1:])}: {done.stderr}")
        return done.stdout

    def run_script(self, command, *words):
        """scripts/cluster COMMAND; what it printed."""
        return self._check([os.path.join(SOURCE, "scripts", "cluster"), command, "--dir", self.directory, *words])

    # Asking.

    def stub(self, address, service="Kv"):
        """A stub of baton.v1.<service>Service, as Kv or ClusterMember."""
        if (address, service) not in self._stubs:
            module = "member" if service == "ClusterMember" else service.lower()
            made = channel(address)
            self._channels.append(made)
            grpc_module = stubs.load(f"baton.v1.{module}_pb2_grpc")
            self._stubs[address, service] = getattr(grpc_module, f"{service}ServiceStub")(made)
        return self._stubs[address, service]

    def leader_state(self, address):
        """What one member says, None when it does not answer."""
        request = stubs.load("baton.v1.member_pb2").GetLeaderAddrRequest()
        try:
            return self.stub(address, "ClusterMember").GetLeaderAddr(request, timeout=10)
        except grpc.RpcError:
            return None

    def leader(self):
        """Name and epoch of the member that says itself that it leads, or None."""
        for name, address in self.members.items():
            if self.process(name).state() != "running":
                continue
            state = self.leader_state(address)
            if state and state.known and state.id == name:
                return name, state.epoch
        return None

    def wait_leader(self, above_epoch=0, seconds=DEADLINE_S):
        def look():
            found = self.leader()
            return found if found and found[1] > above_epoch else None
        return wait_until(f"a member leads in an epoch above {above_epoch}", look, seconds)

    def history(self):
        """Leaderships, newest first."""
        request = stubs.load("baton.v1.member_pb2").GetHistoryRequest(limit=1000)
        return list(self.stub(self.proxy, "ClusterMember").GetHistory(request, timeout=DEADLINE_S).leaderships)

    def etcdctl(self, *words, seconds=2 * DEADLINE_S):
        argv = ["etcdctl", "--endpoints", ",".join(self.etcd), *ETCDCTL_PATIENCE, *words]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=seconds,
                              env={**os.environ, "ETCDCTL_API": "3"})
        if done.returncode:
            raise AssertionError(f"{' '.join(argv)}: {done.stderr}")
        return done.stdout

    def election_queue(self):
        """[(key, address)] of the election, first in line first."""
        out = self.etcdctl("get", "--prefix", self.prefix + "live/election/", "--sort-by=CREATE").split("\n")
        return list(zip(out[0:-1:2], out[1:-1:2]))

    def metric(self, name, wanted, **labels):
        """The sum of a metric over its label sets that have these labels, in the process `name`."""
        answer = script.http_get(self.http[name], "/metrics", seconds=DEADLINE_S)
        if answer is None or answer[0] != 200:
            raise AssertionError(f"{name} /metrics answered {answer}")
        total = 0.0
        for line in answer[1].splitlines():
            match = re.fullmatch(r"([A-Za-z_:][\w:]*)(?:\{(.*)\})? (\S+)", line)
            if match and match.group(1) == wanted:
                pairs = dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', match.group(2) or ""))
                if all(pairs.get(k) == v for k, v in labels.items()):
                    total += float(match.group(3))
        return total

    # Doing things to it.

    def process(self, name):
        return self.parts.process(name)

    def kill_leader(self, hard=False):
        name, epoch = self.wait_leader()
        at = time.monotonic()
        script.kill_member(self.process(name), hard)
        return Kill("kill --hard" if hard else "kill", name, at, epoch)

    def term_leader(self):
        name, epoch = self.wait_leader()
        at = time.monotonic()
        self.process(name).signal(signal.SIGTERM)
        return Kill("SIGTERM", name, at, epoch)

    def pause_leader(self):
        name, epoch = self.wait_leader()
        at = time.monotonic()
        self.process(name).pause()
        return Kill("SIGSTOP", name, at, epoch)

    def transfer(self, target="", address=None):
        """Hands the leadership over, as soon as the leader knows that the target can take it; the answer, and when
        the call began that was answered so."""
        member = stubs.load("baton.v1.member_pb2")

        def try_it():
            at = time.monotonic()
            try:
                return at, self.stub(address or self.proxy, "ClusterMember").TransferLeadership(
                    member.TransferLeadershipRequest(target_id=target), timeout=DEADLINE_S)
            except grpc.RpcError as error:
                if dict(error.trailing_metadata() or ()).get("baton-reason") != "NO_TARGET":
                    raise
                return None
        at, answer = wait_until(f"the leadership can go to {target or 'anybody'}", try_it)
        return answer, at

    def transfer_leader(self, target=""):
        """To the next member by name, unless another is named."""
        name, epoch = self.wait_leader()
        others = [other for other in sorted(self.members) if other > name] + sorted(self.members)
        target = target or others[0]
        answer, at = self.transfer(target)
        if (answer.epoch, answer.target_id) != (epoch, target):
            raise AssertionError(f"handed over to {answer.target_id} from {answer.epoch}, not to {target} from {epoch}")
        return Kill("transfer", name, at, epoch)

    def resume(self, name):
        self.process(name).signal(signal.SIGCONT, family=True)

    def restart(self, name):
        self.run_script("restart", name)

    def log(self, name):
        with open(self.process(name).log_path, encoding="utf-8", errors="replace") as f:
            return f.read()

    def logs(self, lines=40):
        return "".join(f"--- {name}\n{self.process(name).log_tail(lines)}" for name in self.parts.parts)

    def close(self):
        """Ends it; returns complaints about what its processes printed."""
        for made in self._channels:
            made.close()
        self.parts.stop_all()
        complaints = [f"{name} printed a crash:\n{self.process(name).log_tail(60)}"
                      for name in self.parts.parts if CRASH.search(self.log(name))]
        shutil.rmtree(self.directory, ignore_errors=True)
        return complaints


class ClusterTest(unittest.TestCase):
    """A test with clusters: each is ended after it, and what crashed fails it."""

    def run(self, result=None):
        self._result = result
        return super().run(result)

    def _has_failed(self):
        known = self._result
        return known is not None and any(test is self for test, _ in known.errors + known.failures)

    def cluster(self, **options):
        made = LocalCluster(**options)
        self.addCleanup(self._end, made)
        return made

    def _end(self, cluster):
        logs = cluster.logs() if self._has_failed() else ""
        complaints = cluster.close()
        if logs:
            print(logs, file=sys.stderr)
        if complaints:
            self.fail("\n".join(complaints))
