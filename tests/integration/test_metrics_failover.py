#!/usr/bin/python3
"""What a failover does to the metrics."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cluster import ClusterTest, wait_until  # noqa: E402
from workload import Load  # noqa: E402

PHASES = ("wait", "txn", "activation", "publish")


class Failover(ClusterTest):
    def takeovers(self, cluster, name, reason):
        return cluster.metric(name, "baton_meta_takeovers_total", reason=reason)

    def assert_took_over(self, cluster, name, reason):
        """One takeover, with all its parts."""
        wait_until("it is counted", lambda: cluster.metric(name, "baton_meta_takeover_seconds_count"))
        self.assertEqual(self.takeovers(cluster, name, reason), 1)
        self.assertEqual(cluster.metric(name, "baton_meta_takeovers_total"), 1)
        self.assertEqual(cluster.metric(name, "baton_meta_role", role="LEADER"), 1)
        self.assertEqual(cluster.metric(name, "baton_meta_role_changes_total", role="LEADER"), 1)
        self.assertEqual(cluster.metric(name, "baton_meta_takeover_seconds_count"), 1)
        for phase in PHASES:
            self.assertEqual(cluster.metric(name, "baton_meta_takeover_phase_seconds_count", phase=phase), 1, phase)
        whole = cluster.metric(name, "baton_meta_takeover_seconds_sum")
        parts = cluster.metric(name, "baton_meta_takeover_phase_seconds_sum")
        self.assertAlmostEqual(whole, parts, delta=0.001)

    def test_kill(self):
        cluster = self.cluster(ttl=10)
        first, epoch = cluster.wait_leader()
        self.assert_took_over(cluster, first, "first")
        with Load(cluster.proxy, clients=16) as load:
            before = {name: cluster.metric("p1", f"baton_proxy_{name}_total")
                      for name in ("leader_changes", "connections_lost")}
            fault = cluster.kill_leader()
            second, _ = cluster.wait_leader(above_epoch=epoch)
            load.wait_progress(since=fault.at)
        self.assertEqual(load.problems(cluster), [])
        self.assertNotEqual(first, second)
        self.assert_took_over(cluster, second, "released")
        self.assertEqual(cluster.metric(second, "baton_meta_epoch"), epoch + 1)
        self.assertGreater(cluster.metric(second, "baton_meta_commits_total", kind="batch", outcome="applied"), 0)
        self.assertEqual(cluster.metric(second, "baton_meta_commits_total", outcome="unknown"), 0)
        self.assertGreater(cluster.metric(second, "baton_meta_commit_requests_count"), 0)
        self.assertGreater(cluster.metric(second, "baton_meta_commit_bytes_total"), 0)
        self.assertGreater(cluster.metric(second, "baton_meta_request_id_bytes"), 0)
        self.assertGreater(cluster.metric(second, "baton_meta_reads_total", consistency="LEADER"), 0)
        for name, value in before.items():
            wait_until(f"{name} moves", lambda n=name, v=value: cluster.metric("p1", f"baton_proxy_{n}_total") > v)
        wait_until("the proxy tells the epoch",
                   lambda: cluster.metric("p1", "baton_proxy_leader_epoch") == epoch + 1)
        calls = len(load.history().ops)
        self.assertGreaterEqual(cluster.metric("p1", "baton_proxy_calls_total", status="OK"), calls)
        for one, other in (("added_seconds_count", "calls_total"), ("parked_seconds_count", "parked_total")):
            wait_until(f"{one} is {other}", lambda a=one, b=other: cluster.metric("p1", f"baton_proxy_{a}") ==
                       cluster.metric("p1", f"baton_proxy_{b}"))

    def test_lost_key(self):
        """An operator takes the leader's key away: it counts why it stepped down, and takes over again or another does."""
        cluster = self.cluster(members=1, proxies=0, ttl=10)
        name, epoch = cluster.wait_leader()
        cluster.etcdctl("del", cluster.election_queue()[0][0])
        cluster.wait_leader(above_epoch=epoch)
        wait_until("it counts why", lambda: cluster.metric(name, "baton_meta_step_downs_total") == 1)
        wait_until("it counts the takeover",
                   lambda: cluster.metric(name, "baton_meta_takeover_seconds_count") == 2)
        self.assertEqual(cluster.metric(name, "baton_meta_takeovers_total"), 2)
        self.assertEqual(cluster.metric(name, "baton_meta_role_changes_total", role="STEPPING_DOWN"), 1)
        self.assertEqual(self.takeovers(cluster, name, "first"), 1)

    def test_lost_etcd(self):
        """Without etcd its errors are counted, the silence of the watch grows, and no leader is known in the end."""
        cluster = self.cluster(members=1, proxies=0, ttl=2)
        name, _ = cluster.wait_leader()
        wait_until("the watch is open", lambda: cluster.metric(name, "baton_meta_watch_open") == 1)
        wait_until("its lease is told", lambda: cluster.metric(name, "baton_meta_lease_ttl_seconds") > 0)
        cluster.process("etcd1").pause()
        wait_until("errors are counted", lambda: cluster.metric(
            name, "baton_meta_etcd_errors_total", endpoint=cluster.parts.parts["etcd1"]["addr"]) > 0 or
            cluster.metric(name, "baton_meta_etcd_errors_total") > 0)
        wait_until("no time is left to answer reads",
                   lambda: cluster.metric(name, "baton_meta_read_deadline_left_seconds") == 0)
        wait_until("the watch is told to be broken", lambda: cluster.metric(name, "baton_meta_watch_open") == 0)
        wait_until("it has stepped down", lambda: cluster.metric(name, "baton_meta_step_downs_total") == 1)
        wait_until("it leads no more", lambda: cluster.metric(name, "baton_meta_role", role="LEADER") == 0)
        cluster.resume("etcd1")
        cluster.wait_leader()
        wait_until("the watch is open again", lambda: cluster.metric(name, "baton_meta_watch_open") == 1)
        wait_until("both openings are counted", lambda: cluster.metric(name, "baton_meta_watch_opens_total") > 1)


if __name__ == "__main__":
    unittest.main()
