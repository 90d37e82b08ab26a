"""Ids and data directories that are there twice: the second is refused by name, and harms nobody."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from cluster import wait_until  # noqa: E402
from directory_case import DirectoryTest, TTL  # noqa: E402
from workload import Load  # noqa: E402


class Copies(DirectoryTest):
    def test_an_id_that_is_in_use(self):
        cluster = self.cluster(members=2, ttl=TTL)
        leader, epoch = cluster.wait_leader()
        with Load(cluster.proxy, clients=8) as load:
            for name in cluster.members:
                process, said, addr = self.member(cluster, name, os.path.join(cluster.directory, f"other-{name}"))
                self.assert_refused(process, said, f"member id {name} is in use by the data directory",
                                    cluster.members[name], addr, "give one of them another id")
            load.wait_progress()
            load.stop()
        self.assert_sound(load, cluster)
        self.assertEqual(cluster.wait_leader(), (leader, epoch))

    def test_a_copied_directory(self):
        """Under the same id it is refused, however often; under another one it is another member, which waits its turn."""
        cluster = self.cluster(members=2, ttl=TTL)
        leader, epoch = cluster.wait_leader()
        copy = self.copy(cluster, leader)
        for _ in range(2):
            process, said, _ = self.member(cluster, leader, copy)
            self.assert_refused(process, said, f"member id {leader} is in use by the data directory",
                                cluster.members[leader])
        self.assertEqual(cluster.wait_leader(), (leader, epoch))
        process, said, _ = self.member(cluster, "m9", copy)
        wait_until("the copy stands", lambda: "role CANDIDATE" in said())
        with Load(cluster.proxy, clients=8) as load:
            load.wait_progress()
            load.stop()
        self.assert_sound(load, cluster)
        self.assertEqual(cluster.wait_leader(), (leader, epoch))
        self.assertIsNone(process.poll())


if __name__ == "__main__":
    unittest.main()
