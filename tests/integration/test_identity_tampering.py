"""Somebody writes Baton's own keys in etcd by hand: it is named, nothing is lost that can be kept, and there is a way on."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from cluster import wait_until  # noqa: E402
from restore_case import RestoreTest, get, put  # noqa: E402


class Tampering(RestoreTest):
    def test_foreign_write_is_counted_and_named(self):
        cluster, leader, epoch = self.small_cluster()
        cluster.etcdctl("put", cluster.prefix + "state/kv/foreign", "x")
        cluster.wait_leader(above_epoch=epoch)
        self.wait_log(cluster, f"somebody else wrote {cluster.prefix}state/kv/foreign")
        self.assertEqual(get(cluster, "foreign").kv.value, b"x")
        self.assertEqual(get(cluster, "a").kv.value, b"mine")
        counted = sum(cluster.metric(name, "baton_meta_foreign_writes_total") for name in cluster.members)
        self.assertEqual(counted, 2)  # by each member once
        self.wait_ready(cluster)

    def test_cluster_deleted(self):
        cluster, leader, epoch = self.small_cluster()
        before = self.value(cluster, "cluster")
        cluster.etcdctl("del", cluster.prefix + "cluster")
        wait_until("it is put back", lambda: self.value(cluster, "cluster") == before)
        self.wait_ready(cluster)
        put(cluster, "b", "goes on")
        self.assertEqual(cluster.wait_leader(), (leader, epoch))
        self.assertIn("somebody deleted", "".join(cluster.log(name) for name in cluster.members))

    def test_cluster_overwritten(self):
        """By something senseless, and by something that looks well: the leader goes on, nobody dies."""
        cluster, leader, epoch = self.small_cluster()
        before = self.value(cluster, "cluster")
        for value, said in (("by hand", "has no good 'id'"),
                            ("id=another format=1", "somebody overwrote")):
            self.set(cluster, "cluster", value)
            self.wait_log(cluster, said)
            put(cluster, "b", value)
            self.assertEqual(cluster.wait_leader(), (leader, epoch))
            self.set(cluster, "cluster", before)
            self.wait_ready(cluster)
        cluster.term_leader()  # the other one can take over
        cluster.wait_leader(above_epoch=epoch)
        self.assertEqual(get(cluster, "b").kv.value, b"id=another format=1")


if __name__ == "__main__":
    unittest.main()
