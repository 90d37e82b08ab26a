"""Listeners that were away for too long, and one that does not read: a snapshot instead of a gap, and harm to nobody
else."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
import grpc  # noqa: E402
import heard  # noqa: E402
import stubs  # noqa: E402
from cluster import ClusterTest  # noqa: E402
from failover import sanitized  # noqa: E402
from listeners import Subscriber, Watcher  # noqa: E402
from workload import describe_error  # noqa: E402

PREFIX = "resync/"
KIB = 1024


class Listeners(ClusterTest):
    def setUp(self):
        super().setUp()
        self.kv = stubs.load("baton.v1.kv_pb2")

    def listener(self, made):
        self.addCleanup(made.stop)
        return made.start().wait_open()

    def put(self, cluster, key, value, size=0):
        """The revision. The value is a number, with as many blanks behind it as were asked for."""
        text = str(value).encode().ljust(size)
        return cluster.stub(cluster.proxy).Put(self.kv.PutRequest(key=(PREFIX + key).encode(), value=text), timeout=30).revision

    def stored(self, cluster):
        """key -> (value, version, revision) below the prefix."""
        page = cluster.stub(cluster.proxy).Range(self.kv.RangeRequest(key=PREFIX.encode(), prefix=True, limit=10000), timeout=30)
        self.assertFalse(page.more)
        return {kv.key.decode(): (int(kv.value), kv.version, kv.mod_revision) for kv in page.kvs}

    def assert_sound(self, listener, stored):
        replay = heard.Replay(listener.told)
        self.assertEqual(replay.problems + list(heard.check_state(replay, stored)), [])
        return replay


class Away(Listeners):
    def test_compaction_while_away(self):
        """What was missed is kept nowhere: neither in the memory of members, of which there is little, nor in etcd."""
        cluster = self.cluster(ttl=3, member_args=["--watch-history", "64KiB"])
        listeners = [self.listener(Watcher(cluster.proxy, PREFIX)), self.listener(Subscriber(cluster.proxy, PREFIX))]
        for number in range(20):
            revision = self.put(cluster, f"old/{number}", number)
        for listener in listeners:
            listener.wait_told(revision)
            listener.leave()
        cluster.stub(cluster.proxy).Delete(self.kv.DeleteRequest(key=(PREFIX + "old/3").encode()), timeout=30)
        for number in range(200):
            revision = self.put(cluster, f"new/{number % 50}", number, size=KIB)
        cluster.etcdctl("compact", str(revision))
        for listener in listeners:
            listener.start()
        revision = self.put(cluster, "last", 1)
        stored = self.stored(cluster)
        for listener in listeners:
            listener.wait_told(revision)
            replay = self.assert_sound(listener, stored)
            self.assertEqual(len(replay.snapshots), 2, "the first, and one for what it missed")
            self.assertNotIn(PREFIX + "old/3", replay.keys)

    def test_etcd_is_compacted_and_nothing_was_missed(self):
        """What the leader still remembers is told as changes, whatever etcd has forgotten; also by the next leader."""
        cluster = self.cluster(ttl=3)
        listeners = [self.listener(Watcher(cluster.proxy, PREFIX)), self.listener(Subscriber(cluster.proxy, PREFIX))]
        revision = self.put(cluster, "a", 1)
        for listener in listeners:
            listener.wait_told(revision)
            listener.leave()
        for number in range(2, 30):
            revision = self.put(cluster, "a", number)
        cluster.etcdctl("compact", str(revision))
        _, epoch = cluster.wait_leader()
        cluster.transfer_leader()
        cluster.wait_leader(above_epoch=epoch)
        for listener in listeners:
            listener.start()
        revision = self.put(cluster, "a", 30)
        stored = self.stored(cluster)
        for listener in listeners:
            listener.wait_told(revision)
            replay = self.assert_sound(listener, stored)
            self.assertEqual(len(replay.snapshots), 1)
            self.assertEqual(len(replay.changes), 30)


class Stalled(Listeners):
    VALUE_BYTES, PUTS = 64 * KIB, 400  # 25 MiB in all
    BUFFER_BYTES = 1024 * KIB

    def leader_memory(self, cluster):
        """Anonymous memory of the leader's process: the mapped state is not counted."""
        name, _ = cluster.wait_leader()
        with open(f"/proc/{cluster.process(name).child()}/smaps_rollup", encoding="ascii") as f:
            fields = {line.split(":")[0]: int(line.split()[1]) * KIB for line in list(f)[1:]}
        return fields["Anonymous"]

    def test_one_that_does_not_read_is_cut_alone(self):
        cluster = self.cluster(ttl=5, member_args=["--watch-buffer-bytes", str(self.BUFFER_BYTES),
                                                   "--watch-history", "2MiB"])
        readers = [self.listener(Watcher(cluster.proxy, PREFIX)), self.listener(Subscriber(cluster.proxy, PREFIX))]
        name, _ = cluster.wait_leader()
        stalled = [Watcher(cluster.members[name], PREFIX), Subscriber(cluster.members[name], PREFIX)]
        calls = []
        for listener in stalled:
            self.addCleanup(listener.channel.close)
            calls.append(listener._open())
            next(calls[-1])  # it has begun; nothing is read from here on
        before = self.leader_memory(cluster)
        for number in range(1, self.PUTS + 1):
            revision = self.put(cluster, f"big/{number % 8}", number, size=self.VALUE_BYTES)
        grown = self.leader_memory(cluster) - before
        print(f"the leader's own memory grew by {grown / KIB / KIB:.1f} MiB over {self.PUTS * self.VALUE_BYTES / KIB / KIB:.0f} MiB")
        if not sanitized():
            self.assertLess(grown, 24 * KIB * KIB)
        stored = self.stored(cluster)
        for reader in readers:
            reader.wait_told(revision)
            replay = self.assert_sound(reader, stored)
            self.assertEqual((len(replay.changes), reader.ends), (self.PUTS, []))
        for listener, call in zip(stalled, calls):
            heard_of = self.drain(call)
            self.assertEqual(heard_of, ("RESOURCE_EXHAUSTED", "TOO_SLOW"), type(listener).__name__)

    @staticmethod
    def drain(call):
        """Reads what is left; how it ended."""
        try:
            for _ in call:
                pass
        except grpc.RpcError as error:
            code, _, trailers, _ = describe_error(error)
            return code, trailers.get("baton-reason")
        return "OK", ""


if __name__ == "__main__":
    unittest.main(verbosity=2)
