"""Data directories and the etcd that they belong to: what belongs together leads at once, what does not is refused."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from cluster import wait_until  # noqa: E402
from directory_case import DirectoryTest, TTL  # noqa: E402
from etcd_restore import wipe_etcd  # noqa: E402
from workload import Load  # noqa: E402


class Directories(DirectoryTest):
    def test_without_etcd_on_a_directory_of_etcd(self):
        cluster = self.cluster(members=1, proxies=0, ttl=TTL)
        cluster.wait_leader()
        cluster.process("m1").stop()
        process, said, _ = self.member(cluster, "m1", os.path.join(cluster.directory, "m1"), etcd=False)
        self.assert_refused(process, said, "belongs to a member in etcd mode", "batonctl export | import")

    def test_a_wiped_etcd(self):
        """Nobody begins another cluster over the data of the old one."""
        cluster = self.cluster(members=2, proxies=0, ttl=TTL)
        cluster.wait_leader()
        wipe_etcd(cluster)
        for name in cluster.members:
            cluster.process(name).wait_gone(60)
            self.assertIn("this etcd holds nothing of cluster 'local'", cluster.log(name))
        process, said, _ = self.member(cluster, "m1", os.path.join(cluster.directory, "m1"))
        self.assert_refused(process, said, "restore etcd or name the right one in --etcd")
        self.assertEqual(cluster.etcdctl("get", "--prefix", "/baton/local/cluster"), "")
        process, said, _ = self.member(cluster, "m1", os.path.join(cluster.directory, "empty"))
        wait_until("a new cluster begins", lambda: "leads with epoch 1" in said())
        process, said, _ = self.member(cluster, "m2", os.path.join(cluster.directory, "m2"))
        self.assert_refused(process, said, "belongs to cluster id", "or with an empty directory")

    def test_restarted_within_the_ttl_under_load(self):
        cluster = self.cluster(members=1, ttl=10)
        _, epoch = cluster.wait_leader()
        with Load(cluster.proxy, clients=8) as load:
            for _ in range(2):
                load.wait_progress()
                fault = cluster.kill_leader(hard=True)
                cluster.process("m1").wait_gone(60)
                cluster.restart("m1")
                load.wait_progress(since=fault.at)
            load.stop()
        self.assert_sound(load, cluster)
        terms = [(term.epoch, term.reason) for term in cluster.history()]  # nobody had to wait for silence
        self.assertEqual(terms, [(epoch + 2, "released"), (epoch + 1, "released"), (epoch, "first")])


if __name__ == "__main__":
    unittest.main()
