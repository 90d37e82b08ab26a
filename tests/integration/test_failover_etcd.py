"""What operators and etcd do to an election: keys deleted, leases revoked, etcd killed, paused, restarted."""
import os
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from cluster import Kill, wait_until  # noqa: E402
from failover import FailoverTest  # noqa: E402
from workload import Load  # noqa: E402

TTL = 10  # nobody loses a lease here by its end


class Operators(FailoverTest):
    def candidate(self, cluster, leads):
        """(key, lease as hex) of the leader, or of the candidate behind it."""
        def queue():
            found = cluster.election_queue()
            return found if len(found) >= 2 else None
        key, _ = wait_until("a candidate waits behind the leader", queue)[0 if leads else 1]
        return key, key.rpartition("/")[2]

    def strike_with_etcdctl(self, cluster, load, *words):
        def fault():
            name, epoch = cluster.wait_leader()
            at = time.monotonic()
            cluster.etcdctl(*words)
            return Kill("operator", name, at, epoch)
        return self.strike(cluster, load, fault)

    def test_election_key_deleted(self):
        cluster = self.cluster(ttl=TTL)
        with Load(cluster.proxy) as load:
            key, _ = self.candidate(cluster, leads=True)
            fault = self.strike_with_etcdctl(cluster, load, "del", key)
            self.wait_follows(cluster, fault.name)
            load.stop()
        self.assert_sound(load, cluster)
        wait_until("the deposed leader queues again", lambda: len(cluster.election_queue()) == 3)

    def test_lease_of_leader_revoked(self):
        cluster = self.cluster(ttl=TTL)
        with Load(cluster.proxy) as load:
            _, lease = self.candidate(cluster, leads=True)
            fault = self.strike_with_etcdctl(cluster, load, "lease", "revoke", lease)
            self.wait_follows(cluster, fault.name)
            load.stop()
        self.assert_sound(load, cluster)
        wait_until("the deposed leader queues again", lambda: len(cluster.election_queue()) == 3)

    def test_lease_of_waiting_candidate_revoked(self):
        """Nobody notices, but the candidate, which queues again: a later failover finds all three."""
        cluster = self.cluster(ttl=TTL)
        before = cluster.wait_leader()
        with Load(cluster.proxy, 16) as load:
            key, lease = self.candidate(cluster, leads=False)
            cluster.etcdctl("lease", "revoke", lease)

            def requeued():
                keys = [k for k, _ in cluster.election_queue()]
                return len(keys) == 3 and key not in keys
            wait_until("the candidate queues again", requeued)
            load.wait_progress()
            self.assertEqual(cluster.wait_leader(), before)
            for _ in range(2):
                fault = self.strike(cluster, load, cluster.kill_leader)
                cluster.restart(fault.name)
            load.stop()
        self.assert_sound(load, cluster)

    def test_etcdctl_elect_sees_our_leader(self):
        """The election is the official recipe: etcdctl observes it, and a candidate of its own waits behind ours."""
        cluster = self.cluster(ttl=TTL)
        name, _ = cluster.wait_leader()
        election = cluster.prefix + "live/election"
        base = ["etcdctl", "--endpoints", cluster.etcd[0], "elect"]
        environment = {**os.environ, "ETCDCTL_API": "3"}
        observer = subprocess.Popen([*base, "--listen", election], stdout=subprocess.PIPE, text=True, env=environment)
        self.addCleanup(self.end, observer)
        self.assertTrue(observer.stdout.readline().strip().startswith(election))
        self.assertEqual(observer.stdout.readline().strip(), cluster.members[name])
        wait_until("all members queue", lambda: len(cluster.election_queue()) == 3)
        foreign = subprocess.Popen([*base, election, "stranger"], stdout=subprocess.DEVNULL, env=environment)
        self.addCleanup(self.end, foreign)

        def queue():
            return [address for _, address in cluster.election_queue()]
        wait_until("the stranger queues", lambda: "stranger" in queue())
        self.assertEqual(queue()[-1], "stranger")
        self.assertEqual(queue()[0], cluster.members[name])

    @staticmethod
    def end(process):
        process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()


class Etcd(FailoverTest):
    def test_restarted_whole(self):
        cluster = self.cluster(ttl=TTL)
        with Load(cluster.proxy) as load:
            cluster.process("etcd1").signal(signal.SIGKILL)
            cluster.process("etcd1").wait_gone(60)
            cluster.restart("etcd1")
            load.wait_progress()
            cluster.wait_leader()
            load.stop()
        self.assert_sound(load, cluster)

    def test_leader_of_etcd_killed(self):
        cluster = self.cluster(etcd=3, ttl=TTL)
        with Load(cluster.proxy) as load:
            for name in ("etcd1", "etcd2", "etcd3"):
                cluster.process(name).signal(signal.SIGKILL)
                cluster.process(name).wait_gone(60)
                load.wait_progress()
                cluster.restart(name)
            cluster.wait_leader()
            load.stop()
        self.assert_sound(load, cluster)

    def test_paused_past_the_lease(self):
        """etcd itself counts leases while it runs only: what matters is that nothing is lost and all recover."""
        cluster = self.cluster(ttl=2)
        with Load(cluster.proxy) as load:
            cluster.process("etcd1").pause()
            began = time.monotonic()
            wait_until("the leader's reads have ended", lambda: time.monotonic() - began > 3 and not cluster.leader())
            cluster.process("etcd1").signal(signal.SIGCONT)
            load.wait_progress()
            cluster.wait_leader()
            load.stop()
        self.assert_sound(load, cluster)


if __name__ == "__main__":
    unittest.main(verbosity=2)
