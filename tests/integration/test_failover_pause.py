"""A leader that is stopped past its lease and wakes up: it answers no read and commits nothing."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
import stubs  # noqa: E402
from failover import FailoverTest  # noqa: E402
from workload import Load  # noqa: E402

TTL = 4  # it is waited for, and a busy machine must not lose it before the pause
CALLS = 20


class PausedLeaders(FailoverTest):
    def test_load_goes_on(self):
        cluster = self.cluster(ttl=TTL)
        self.fail_over(cluster, [cluster.pause_leader] * 2, TTL, lambda fault: cluster.resume(fault.name))

    def test_pause_shorter_than_the_lease_changes_nothing(self):
        cluster = self.cluster(ttl=10)
        before = cluster.wait_leader()
        with Load(cluster.proxy, 16) as load:
            fault = cluster.pause_leader()
            cluster.resume(fault.name)
            load.wait_progress(since=fault.at)
            load.stop()
        self.assertEqual(cluster.wait_leader(), before)
        self.assert_sound(load, cluster)

    def test_zombie_is_silent(self):
        """Calls that wait in the sockets of a stopped leader are what it sees first when it wakes up: it must not
        answer them from its old state, nor commit."""
        kv = stubs.load("baton.v1.kv_pb2")
        cluster = self.cluster(ttl=TTL)
        through = cluster.stub(cluster.proxy)
        through.Put(kv.PutRequest(key=b"k", value=b"old"), timeout=60)
        name, epoch = cluster.wait_leader()
        direct = cluster.stub(cluster.members[name])
        self.assertEqual(direct.Get(kv.GetRequest(key=b"k"), timeout=60).kv.value, b"old")
        fault = cluster.pause_leader()
        self.assertEqual(fault.name, name)
        reads = [direct.Get.future(kv.GetRequest(key=b"k"), timeout=60) for _ in range(CALLS)]
        writes = [direct.Put.future(kv.PutRequest(key=b"zombie/%d" % i, value=b"x"), timeout=60)
                  for i in range(CALLS)]
        cluster.wait_leader(above_epoch=epoch)
        through.Put(kv.PutRequest(key=b"k", value=b"new"), timeout=60)
        cluster.resume(name)
        for call in reads + writes:
            error = call.exception()
            if error is None:
                self.fail(f"the zombie answered {call.result()} {call.initial_metadata()}")
            trailers = dict(error.trailing_metadata())
            self.assertEqual(error.code().name, "UNAVAILABLE", error.details())
            self.assertEqual(trailers.get("baton-not-executed"), "1", trailers)
        self.wait_follows(cluster, name)
        self.assertEqual(through.Get(kv.GetRequest(key=b"k"), timeout=60).kv.value, b"new")
        left = through.Range(kv.RangeRequest(key=b"zombie/", prefix=True), timeout=60)
        self.assertEqual(len(left.kvs), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
