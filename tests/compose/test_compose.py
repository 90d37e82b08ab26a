"""docker-compose.yml on a real engine: clients at a steady rate through the published ports, while containers are killed,
paused, cut off and restarted. scripts/test-compose runs this; it says which engine, name and images.

A container that is killed takes its guardian along, so nobody lets its leadership go: that gap is the TTL. The same holds
for one that is paused or cut off. Only a member that dies inside its container is let go at once."""
import atexit
import collections
import os
import shutil
import signal
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "lib"))
import history as histories  # noqa: E402
from cluster import wait_until  # noqa: E402
from paced import PacedLoad  # noqa: E402
from project import Project  # noqa: E402

ROUNDS = int(os.environ.get("BATON_COMPOSE_ROUNDS", "1"))
RATE = 1000
TTL_S = 5

# What was done to whom, from when until when all was well again.
Fault = collections.namedtuple("Fault", "kind begin end")


project = None


def setUpModule():
    global project
    directory = tempfile.mkdtemp(prefix="baton-compose-")
    project = Project(os.environ.get("BATON_COMPOSE_PROJECT", "baton-test"), directory,
                      os.environ.get("BATON_COMPOSE_FILES", "").split())
    atexit.register(remove, project, directory)  # also when interrupted
    began = time.monotonic()
    project.up()
    print(f"built, started and well after {time.monotonic() - began:.0f} s")


def remove(project, directory):
    project.remove()
    shutil.rmtree(directory)


def table(load, faults):
    """Of each kind: the longest time without an answer to anybody, and the longest that a call took."""
    history = load.history()
    lines = [f"{len(history.ops)} calls, {len(history.errors())} errors; {load.rate():.0f} puts in the median second",
             f"  {'fault':<42}{'n':>4}{'gap: median':>13}{'longest':>9}{'longest call, ms':>18}"]
    for kind in dict.fromkeys(fault.kind for fault in faults):
        same = [fault for fault in faults if fault.kind == kind]
        gaps = [1000 * history.longest_silence(fault.begin, fault.end) for fault in same]
        calls = [1000 * history.longest_call(fault.begin, fault.end - fault.begin) for fault in same]
        lines.append(f"  {kind:<42}{len(same):>4}{histories.percentile(gaps, 0.5):>13.0f}{max(gaps):>9.0f}"
                     f"{max(calls):>18.0f}")
    return "\n".join(lines)


class ComposeTest(unittest.TestCase):
    def run(self, result=None):
        failed_before = len(result.failures) + len(result.errors)
        super().run(result)
        if len(result.failures) + len(result.errors) > failed_before:
            print(project.logs(), file=sys.stderr)

    def strike(self, load, kind, service, begin, end=None):
        """begin(service) starts a fault and end(service) ends it; clients are served in between and afterwards."""
        load.wait_progress()
        at = time.monotonic()
        begin(service)
        load.wait_progress()
        if end:
            end(service)
        project.wait_well([service])
        load.wait_progress()
        fault = Fault(kind, at, time.monotonic())
        print(f"  {kind}: {1000 * load.history().longest_silence(fault.begin, fault.end):.0f} ms", flush=True)
        return fault

    def strike_leader(self, load, kind, begin, end=None):
        """The same to the leader; the fault ends when another leads."""
        leader, epoch = project.wait_leader()

        def fall(service):
            begin(service)
            project.wait_leader(above_epoch=epoch)
        return self.strike(load, f"leader: {kind}", leader, fall, end)

    def strike_etcd(self, load, kind, begin, end):
        leader = wait_until("etcd has a leader", project.etcd_leader)
        return self.strike(load, f"etcd's leader: {kind}", leader, begin, end)

    def assert_sound(self, load, **options):
        problems = load.problems(project, **options)
        self.assertEqual(problems, [], f"{len(problems)} problems:\n" + "\n".join(problems[:20]))
        self.assertEqual(project.complaints(), [])

    def test_faults_under_load(self):
        faults = []
        with PacedLoad(project.proxies, RATE) as load:
            for _ in range(ROUNDS):
                faults += [
                    self.strike_leader(load, "member process killed", project.crash),
                    self.strike_leader(load, "restarted", project.restart),
                    self.strike_leader(load, "container killed", project.kill, project.start),
                    self.strike_leader(load, "paused past its TTL", project.pause, project.unpause),
                    self.strike_leader(load, "cut off, connected again", project.disconnect, project.connect),
                    self.strike_etcd(load, "container killed", project.kill, project.start),
                    self.strike_etcd(load, "paused", project.pause, project.unpause),
                    self.strike_etcd(load, "cut off, connected again", project.disconnect, project.connect),
                ]
                for kind, services in (("etcd", project.ETCDS), ("member", project.MEMBERS), ("proxy", project.PROXIES)):
                    faults += [self.strike(load, f"each {kind} restarted", service, project.restart)
                               for service in services]
            project.wait_well()
            load.stop()
        print(table(load, faults))
        self.assert_sound(load)

    def test_killed_proxies(self):
        """What is in flight through a killed proxy fails; a client that repeats it under its own request id gets its
        answer through the other one, and nothing is done twice."""
        with PacedLoad(project.proxies, RATE, repeat=True) as load:
            faults = [self.strike(load, "proxy: container killed", service, project.kill, project.start)
                      for service in project.PROXIES]
            load.stop()
        print(table(load, faults))
        print(f"  {load.attempts - len(load.history().ops)} calls were repeated")
        self.assert_sound(load)

    def test_state_outlives_containers(self):
        with PacedLoad(project.proxies, RATE) as load:
            load.stop()
        before = load.stored(project.proxy, "unique")
        project.down()
        project.up()
        self.assertEqual(load.stored(project.proxy, "unique"), before)
        self.assert_sound(load)

    def test_prometheus_sees_everything(self):
        def targets():
            return {(labels["job"], labels["instance"]): value for labels, value in project.query("up")}
        wanted = {("baton-meta", f"{name}:5691") for name in project.MEMBERS}
        wanted |= {("baton-proxy", f"{name}:5681") for name in project.PROXIES}
        wanted |= {("etcd", f"{name}:2379") for name in project.ETCDS}
        wanted |= {("prometheus", "127.0.0.1:9090")}
        wait_until("Prometheus reaches all", lambda: targets() == {target: 1.0 for target in wanted})
        for expression, count, value in (('sum(baton_meta_role{role="LEADER"})', 1, 1),
                                         ("process_open_fds{job='baton-proxy'} > bool 0", 2, 1),
                                         ("etcd_server_has_leader", 3, 1)):
            wait_until(f"Prometheus answers {expression}",
                       lambda e=expression, c=count, v=value: [found for _, found in project.query(e)] == [v] * c)


def interrupt(*_):
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, interrupt)
    unittest.main()
