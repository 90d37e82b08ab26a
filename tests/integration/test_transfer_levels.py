"""Members of different versions: the format level rises when all speak it, and never hurts who does not."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from cluster import wait_until  # noqa: E402
from transfer import TransferTest  # noqa: E402
from workload import Load  # noqa: E402

TTL = 10
LEVELS = "BATON_TEST_FORMAT_LEVELS"


class Levels(TransferTest):
    def restart_as(self, cluster, name, levels):
        os.environ[LEVELS] = levels
        self.addCleanup(os.environ.pop, LEVELS, None)
        cluster.restart(name)

    def cluster_value(self, cluster):
        return cluster.etcdctl("get", "--print-value-only", cluster.prefix + "cluster").strip()

    def level(self, cluster):
        fields = dict(field.split("=", 1) for field in self.cluster_value(cluster).split())
        return int(fields["format"])

    def test_rolling_upgrade(self):
        cluster = self.cluster(ttl=TTL)
        self.wait_all_stand(cluster)
        # a field of a later version, which this one does not know
        cluster.etcdctl("put", cluster.prefix + "cluster", self.cluster_value(cluster) + " later=7")
        leader, _ = cluster.wait_leader()
        with Load(cluster.proxy, 8) as load:
            for name in sorted(cluster.members, key=lambda name: name == leader):
                self.assertEqual(self.level(cluster), 1)
                self.restart_as(cluster, name, "1-2")
                self.wait_all_stand(cluster)
            wait_until("the level rises", lambda: self.level(cluster) == 2)
            self.assertIn("later=7", self.cluster_value(cluster))
            load.wait_progress(puts=50)
            self.old_version_does_not_stand(cluster)
            load.stop()
        self.assert_sound(load, cluster)
        self.assertEqual(self.level(cluster), 2)

    def old_version_does_not_stand(self, cluster):
        leader, epoch = cluster.wait_leader()
        old = next(name for name in sorted(cluster.members) if name != leader)
        self.restart_as(cluster, old, "1-1")
        wait_until("it says so", lambda: "the cluster uses format level 2" in cluster.log(old))
        wait_until("it is listed", lambda: old in self.listed(cluster))
        self.assertEqual(len(cluster.election_queue()), 2)
        self.assertEqual(cluster.wait_leader(), (leader, epoch))
        self.no_transfer(cluster, old, "not in line")


if __name__ == "__main__":
    unittest.main()
