"""A member from start to end: without etcd, on the wrong directory, told to end, killed and started again."""
import os
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from cluster import BIN, ClusterTest, script, wait_until  # noqa: E402
from processes import Process, take_ports  # noqa: E402

TTL = 2
GRACE_S = 20  # what joining threads and a busy machine may add to --drain-timeout


class Member:
    """One baton-meta as a child of this process, so that its exit status is seen."""

    def __init__(self, directory, etcd, *args, name="local", data="m1"):
        self.addr, self.http = (f"127.0.0.1:{port}" for port in take_ports(2, directory))
        self.log_path = os.path.join(directory, "alone.log")
        argv = [os.path.join(BIN, "baton-meta"), "--id", "m1", "--data", os.path.join(directory, data),
                "--listen", self.addr, "--http", self.http, "--etcd", etcd, "--cluster", name,
                "--ttl", f"{TTL}s", *args]
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as f:
            return f.read()

    def ready(self):
        answer = script.http_get(self.http, "/readyz")
        return answer and answer[0] == 200

    def wait_log(self, text):
        wait_until(f"the member says '{text}'", lambda: text in self.log())

    def end(self, number=signal.SIGTERM, seconds=60):
        """The exit status, and how long it took."""
        begun = time.monotonic()
        self.process.send_signal(number)
        status = self.process.wait(seconds)
        return status, time.monotonic() - begun


class Life(ClusterTest):
    def member(self, cluster, *args, etcd=None, **options):
        made = Member(cluster.directory, etcd or f"http://{cluster.etcd[0]}", *args, **options)
        self.addCleanup(self.bury, made)
        return made

    def bury(self, member):
        if member.process.poll() is None:
            member.process.kill()
            member.process.wait()
        if self._has_failed():
            print(member.log(), file=sys.stderr)

    def etcd_alone(self):
        return self.cluster(etcd=1, members=0, proxies=0)

    def test_starts_without_etcd_and_goes_on_trying(self):
        cluster = self.etcd_alone()
        etcd = cluster.process("etcd1")
        etcd.stop()
        member = self.member(cluster)
        member.wait_log("following etcd")
        self.assertEqual(script.http_get(member.http, "/healthz")[0], 200)
        self.assertEqual(script.http_get(member.http, "/readyz")[0], 503)
        cluster.run_script("restart", "etcd1")
        wait_until("it leads", lambda: "leads with epoch 1" in member.log())
        wait_until("it is ready", member.ready)
        self.assertLess(len(member.log().splitlines()), 40)
        self.assertEqual(member.end()[0], 0)

    def test_ends_while_etcd_is_unreachable(self):
        cluster = self.etcd_alone()
        cluster.process("etcd1").stop()
        member = self.member(cluster, "--drain-timeout", "50s")
        member.wait_log("following etcd")
        status, seconds = member.end()
        self.assertEqual(status, 0)  # it tries for a TTL to give back what it may have asked for
        self.assertLess(seconds, TTL + GRACE_S)

    def end_while_etcd_hangs(self, number, *more):
        cluster = self.etcd_alone()
        member = self.member(cluster, "--drain-timeout", "2s", "--ttl", "60s")
        member.wait_log("leads with epoch")  # so it has something to give back, for longer than it may take
        etcd = Process(cluster.directory, "etcd1")
        etcd.pause()
        self.addCleanup(etcd.signal, signal.SIGCONT)
        for one in more:
            member.process.send_signal(one)
            member.wait_log("shutting down")
        return member, *member.end(number)

    def test_ends_in_time_while_etcd_hangs(self):
        member, status, seconds = self.end_while_etcd_hangs(signal.SIGTERM)
        self.assertEqual(status, 1)
        self.assertIn("within --drain-timeout", member.log())
        # 2 s for threads that wait for etcd, and the guardian tries for 3 s to let the leadership go
        self.assertLess(seconds, 2 + 2 + 3 + GRACE_S)

    def test_second_signal_ends_at_once(self):
        member, status, seconds = self.end_while_etcd_hangs(signal.SIGTERM, signal.SIGTERM)
        self.assertEqual(status, 1)
        self.assertIn("second signal", member.log())
        self.assertLess(seconds, 3 + GRACE_S)

    def test_hangup_hands_over(self):
        cluster = self.etcd_alone()
        member = self.member(cluster)
        wait_until("it is ready", member.ready)
        self.assertEqual(member.end(signal.SIGHUP)[0], 0)
        self.assertEqual(cluster.election_queue(), [])

    def test_directory_of_another_cluster(self):
        cluster = self.etcd_alone()
        first = self.member(cluster)
        wait_until("it is ready", first.ready)
        self.assertEqual(first.end()[0], 0)
        other = self.member(cluster, name="other")
        self.assertEqual(other.process.wait(60), 1)
        self.assertIn("belongs to cluster 'local', not 'other'", other.log())

    def test_directory_of_another_etcd(self):
        cluster, elsewhere = self.etcd_alone(), self.etcd_alone()
        first = self.member(cluster)
        wait_until("it is ready", first.ready)
        self.assertEqual(first.end()[0], 0)
        moved = self.member(cluster, etcd=f"http://{elsewhere.etcd[0]}")
        self.assertEqual(moved.process.wait(60), 1)
        self.assertIn("this etcd holds nothing of cluster 'local'", moved.log())
        self.assertEqual(elsewhere.etcdctl("get", "--prefix", "/baton/", "--keys-only"), "")
        self.assertEqual(moved.log().count("cannot go on"), 1)

    def test_restarted_within_the_ttl(self):
        """The directory knows that the leadership is dead: nobody waits for it, and no state is listed anew."""
        cluster = self.cluster(members=1, proxies=0, ttl=60)
        _, epoch = cluster.wait_leader()
        cluster.kill_leader(hard=True)
        cluster.process("m1").wait_gone(60)
        begun = time.monotonic()
        cluster.restart("m1")
        cluster.wait_leader(above_epoch=epoch)
        self.assertLess(time.monotonic() - begun, 40)
        self.assertEqual(cluster.log("m1").count("listed the state anew"), 1)


if __name__ == "__main__":
    unittest.main()
