"""Somebody deletes or overwrites the commit record: all members refuse the state, and a recovery mends it."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from restore_case import RestoreTest, get, put  # noqa: E402


class Commit(RestoreTest):
    def recovers(self, cluster, damage):
        damage()
        self.wait_refused(cluster)
        self.assert_refused_everywhere(cluster)
        self.stop_members(cluster)
        self.start_members(cluster)
        self.wait_refused(cluster)
        said, _ = self.batonctl_json(cluster, "recover", code=2)
        above = max(member["epoch"] for member in said["members"])
        self.batonctl_json(cluster, "recover", "--accept-restore")
        cluster.wait_leader(above_epoch=above)
        self.assertEqual(get(cluster, "a").kv.value, b"mine")
        put(cluster, "c", "goes on")
        self.wait_ready(cluster)

    def test_commit_deleted(self):
        cluster, _, _ = self.small_cluster()
        self.recovers(cluster, lambda: cluster.etcdctl("del", cluster.prefix + "state/commit"))

    def test_commit_overwritten(self):
        """By something senseless; then by what stood there before."""
        cluster, _, _ = self.small_cluster()
        older = self.value(cluster, "state/commit")
        put(cluster, "b", "later")
        self.recovers(cluster, lambda: self.set(cluster, "state/commit", "by hand"))
        self.recovers(cluster, lambda: self.set(cluster, "state/commit", older))


if __name__ == "__main__":
    unittest.main()
