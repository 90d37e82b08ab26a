"""The local state of a member: after stepping down, behind somebody else's write, in too small a map, compacted."""
import os
import signal
import sys
import unittest

import grpc

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
import stubs  # noqa: E402
from cluster import ClusterTest, wait_until  # noqa: E402

TTL = 10  # nobody waits for its end


class State(ClusterTest):
    def kv(self, cluster, name):
        return cluster.stub(cluster.members[name])

    def put(self, cluster, name, key, value=b"v"):
        request = stubs.load("baton.v1.kv_pb2").PutRequest(key=key, value=value)
        return self.kv(cluster, name).Put(request, timeout=60).revision

    def get(self, cluster, name, key):
        """The value as this leader has it, None when it is absent."""
        answer = self.kv(cluster, name).Get(stubs.load("baton.v1.kv_pb2").GetRequest(key=key), timeout=60)
        return answer.kv.value if answer.found else None

    def depose(self, cluster):
        """The leader's key is deleted; (the deposed one, its successor) once the first stands again."""
        name, epoch = cluster.wait_leader()
        waiting = len(cluster.members)
        wait_until("all stand", lambda: len(cluster.election_queue()) == waiting)
        cluster.etcdctl("del", cluster.election_queue()[0][0])
        successor, _ = cluster.wait_leader(above_epoch=epoch)
        wait_until("all stand again", lambda: len(cluster.election_queue()) == waiting)
        return name, successor

    def test_follows_on_after_leading(self):
        """From where it was: nothing is listed anew, however often the leadership moves."""
        cluster = self.cluster(members=2, proxies=0, ttl=TTL)
        for turn in range(3):
            name, _ = cluster.wait_leader()
            for i in range(5):
                self.put(cluster, name, b"key%d" % i, b"%d" % turn)
            self.depose(cluster)
        name, _ = cluster.wait_leader()
        self.assertEqual([self.get(cluster, name, b"key%d" % i) for i in range(5)], [b"2"] * 5)
        for name in cluster.members:
            self.assertNotIn("of no use", cluster.log(name))
            self.assertEqual(cluster.log(name).count("listed the state anew"), 1)

    def test_foreign_write_while_leading(self):
        """The leader's copy lacks it, so it ends its leadership and lists the state anew: then all agree."""
        cluster = self.cluster(members=2, proxies=0, ttl=TTL)
        name, epoch = cluster.wait_leader()
        self.put(cluster, name, b"mine")
        cluster.etcdctl("put", cluster.prefix + "state/kv/foreign", "x")
        wait_until("it is noticed", lambda: "somebody else wrote" in cluster.log(name))
        successor, _ = cluster.wait_leader(above_epoch=epoch)
        self.assertEqual(self.get(cluster, successor, b"foreign"), b"x")
        self.put(cluster, successor, b"foreign", b"y")
        self.depose(cluster)
        leader, _ = cluster.wait_leader()
        self.assertEqual(self.get(cluster, leader, b"foreign"), b"y")
        self.assertEqual(self.get(cluster, leader, b"mine"), b"v")

    def test_map_full_at_the_leader(self):
        """What was acknowledged is in etcd: a member with room leads on with all of it."""
        cluster = self.cluster(members=2, proxies=0, ttl=TTL)
        self.restart_with(cluster, "m1", "--map-bytes", "2MiB")
        wait_until("both stand", lambda: len(cluster.election_queue()) == 2)
        if cluster.wait_leader()[0] != "m1":
            self.depose(cluster)
        name, epoch = cluster.wait_leader()
        self.assertEqual(name, "m1")
        acknowledged = self.put_until_refused(cluster, "m1")
        successor, _ = cluster.wait_leader(above_epoch=epoch)
        self.assertEqual(successor, "m2")
        for key in acknowledged:
            self.assertIsNotNone(self.get(cluster, "m2", key), key)
        self.assertIn("--map-bytes", cluster.log("m1"))
        self.assertLess(len(cluster.log("m1").splitlines()), 100)

    def put_until_refused(self, cluster, name):
        acknowledged = []
        for i in range(64):
            key = b"large%d" % i
            try:
                self.put(cluster, name, key, bytes(100000))
            except grpc.RpcError as error:
                self.assertNotIn(error.code(), (grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL))
                return acknowledged
            acknowledged.append(key)
        self.fail("it never filled")

    @staticmethod
    def restart_with(cluster, name, *args):
        cluster.parts.parts[name]["argv"] += args
        cluster.parts.save()
        cluster.restart(name)

    def test_compacted_while_away(self):
        """A member that was paused while etcd forgot what it missed lists the state anew, and stands again."""
        cluster = self.cluster(members=2, proxies=0, ttl=TTL)
        name, _ = cluster.wait_leader()
        other = next(m for m in cluster.members if m != name)
        cluster.process(other).pause()
        revision = [self.put(cluster, name, b"key%d" % i) for i in range(20)][-1]
        cluster.etcdctl("compact", str(revision))
        cluster.process(other).signal(signal.SIGCONT, family=True)
        wait_until("it stands again", lambda: len(cluster.election_queue()) == 2)
        wait_until("it has all", lambda: cluster.metric(other, "baton_meta_applied_revision") >= revision)
        self.depose(cluster)
        leader, _ = cluster.wait_leader()
        self.assertEqual(self.get(cluster, leader, b"key19"), b"v")


if __name__ == "__main__":
    unittest.main()
