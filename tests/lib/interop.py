"""Makes client programs of other languages and runs them against a cluster, through its proxy.

A program gets the proxy's address as its only argument. It prints one line of JSON for each case, {"case": NAME, "error":
TEXT}, with an empty text for one that passed. Where a case needs something done to the cluster it prints {"need": WHAT}
and reads one line of JSON when that is done."""
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

from cluster import DEADLINE_S, SOURCE, ClusterTest, script, wait_until
from processes import is_stopped

FOLDER = os.path.join(SOURCE, "tests", "interop")
GO_LIBRARIES = "/usr/share/gocode"  # where Debian's packages of Go put them

LOOPS_WAITING = 10  # of those that a program has in "calls across kills"
# What every program must show; they are described in tests/interop/README.md.
CASES = ["unary", "metadata", "request id", "server stream", "errors", "refusal of a follower", "large values",
         "many calls on one channel", "deadline of a call", "deadline of a stream", "cancelled call", "cancelled stream",
         "health", "stream across a kill", "calls across kills"]


def cache_directory(name):
    """Where installed packages and builds are kept between runs, outside the tree."""
    root = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    directory = os.path.join(root, "baton-interop", name)
    os.makedirs(directory, exist_ok=True)
    return directory


def run(argv, **options):
    """A command that must succeed; what it says is in the failure."""
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode:
        raise AssertionError(f"{' '.join(argv)}: exit code {done.returncode}\n{done.stdout}")


def node_packages():
    """A folder of the packages that node's lock file names, installed when it is new or has changed."""
    files = [os.path.join(FOLDER, "node", name) for name in ("package.json", "package-lock.json")]
    with open(files[1], "rb") as lock:
        version = hashlib.sha256(lock.read()).hexdigest()[:16]
    directory = os.path.join(cache_directory("node"), version)
    if not os.path.isdir(directory):
        with tempfile.TemporaryDirectory(dir=os.path.dirname(directory)) as fresh:
            for file in files:
                shutil.copy(file, fresh)
            run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=fresh)
            try:
                os.rename(os.path.join(fresh, "node_modules"), directory)
            except OSError:
                if not os.path.isdir(directory):  # else another run was faster
                    raise
    return directory


def go_program(source, workspace):
    """Builds a program of one file in an empty folder, from stubs that protoc makes now. Only Go's own cache outlives
    it."""
    proto = os.path.join(SOURCE, "proto")
    packages = os.path.join(workspace, "src")
    os.makedirs(os.path.join(packages, "client"))
    shutil.copy(source, os.path.join(packages, "client"))
    for files in (["baton/v1/kv.proto", "baton/v1/member.proto"], ["grpc/health/v1/health.proto"]):
        run(["protoc", "-I", proto, f"--go_out=plugins=grpc:{packages}", *files])
    run(["go", "build", "-o", "program", "client"], cwd=workspace,
        env={**os.environ, "GO111MODULE": "off", "GOPATH": f"{workspace}:{GO_LIBRARIES}", "GOFLAGS": "", "GOPROXY": "off",
             "GOCACHE": cache_directory("go")})
    return os.path.join(workspace, "program")


class InteropTest(ClusterTest):
    """A test that runs one client program with run_client."""

    def setUp(self):
        super().setUp()
        self._paused = []

    def workspace(self):
        directory = tempfile.mkdtemp(prefix="baton-interop-")
        self.addCleanup(shutil.rmtree, directory, ignore_errors=True)
        return directory

    # What a program may ask for.

    def _kill(self, cluster):
        """The leader's process is killed, and comes back as soon as another one leads."""
        _, epoch = cluster.wait_leader()
        fault = cluster.kill_leader()
        cluster.wait_leader(above_epoch=epoch)
        cluster.restart(fault.name)
        return {}

    def _kill_in_calls(self, cluster):
        """The same while its answers are waited for: it is stopped first, until most of the loops have come to wait."""
        name, epoch = cluster.wait_leader()
        process = cluster.process(name)
        child = process.child()
        os.kill(child, signal.SIGSTOP)
        wait_until(f"{name} stops", lambda: is_stopped(child))
        wait_until("calls wait for it", lambda: cluster.metric("p1", "baton_proxy_calls") >= LOOPS_WAITING)
        script.kill_member(process, hard=False)
        cluster.wait_leader(above_epoch=epoch)
        cluster.restart(name)
        return {}

    def _pause(self, cluster):
        """No member answers until they are resumed."""
        self._paused = list(cluster.members)
        for name in self._paused:
            cluster.process(name).pause()
        return {}

    def _resume(self, cluster):
        for name in self._paused:
            cluster.resume(name)
        self._paused = []
        cluster.wait_leader()
        return {}

    def _follower(self, cluster):
        """A member that does not lead, and the address of the one that does."""
        leader, _ = cluster.wait_leader()
        follower = next(address for name, address in cluster.members.items() if name != leader)
        return {"follower": follower, "leader": cluster.members[leader]}

    def _provide(self, cluster, need):
        needs = {"kill": self._kill, "kill in calls": self._kill_in_calls, "pause": self._pause,
                 "resume": self._resume, "follower": self._follower}
        return needs[need](cluster)

    # Running it.

    def _converse(self, client, cluster):
        """Errors by case, as the program told them."""
        told = {}
        for line in client.stdout:
            message = json.loads(line)
            if "need" in message:
                client.stdin.write(json.dumps(self._provide(cluster, message["need"])) + "\n")
                client.stdin.flush()
            else:
                told[message["case"]] = message["error"]
        return told

    def run_client(self, argv, env=None):
        cluster = self.cluster(ttl=10)
        with subprocess.Popen([*argv, cluster.proxy], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                              env={**os.environ, **(env or {})}) as client:
            watchdog = threading.Timer(4 * DEADLINE_S, client.kill)
            watchdog.start()
            try:
                told = self._converse(client, cluster)
            finally:
                watchdog.cancel()
                client.stdin.close()
                if sys.exc_info()[0]:
                    client.kill()
        for case in CASES:
            with self.subTest(case):
                self.assertEqual(told.get(case, "the program did not get so far"), "")
        self.assertEqual(sorted(told), sorted(CASES))
        self.assertEqual(client.returncode, 0)
