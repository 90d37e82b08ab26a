"""Programs that follow a cluster through libbaton: what they are told across failovers has no gap and no repeat."""
import os
import sys
import threading
import unittest

import grpc

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from cluster import ClusterTest  # noqa: E402
from following import Following  # noqa: E402
import stubs  # noqa: E402

kv = stubs.load("baton.v1.kv_pb2")


class Writer:
    """Puts numbered values until it is stopped, each until it is known to be done."""

    def __init__(self, cluster):
        self.cluster, self.count, self._over = cluster, 0, threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        stub = self.cluster.stub(self.cluster.proxy)
        while not self._over.is_set():
            request = kv.PutRequest(key=f"w/{self.count % 7}".encode(), value=str(self.count).encode())
            metadata = [("baton-request-id", f"writer-0123456789-{self.count}")]
            try:
                stub.Put(request, metadata=metadata, timeout=20)
                self.count += 1
            except grpc.RpcError:
                pass
            self._over.wait(0.005)

    def stop(self):
        self._over.set()
        self._thread.join()
        return self.count


class Streams(ClusterTest):
    def kill_leaders(self, cluster, followers, times):
        for _ in range(times):
            _, epoch = cluster.wait_leader()
            counts = [len(f.said("put")) for f in followers]
            fault = cluster.kill_leader()
            cluster.wait_leader(above_epoch=epoch)
            for f, count in zip(followers, counts):
                f.wait("changes of the next leader", lambda f, n=count: len(f.said("put")) > n + 20)
            cluster.restart(fault.name)

    def check_told(self, follower, count):
        """Every value of the writer once, in order, none of a commit that goes back."""
        self.assertEqual([int(words[3]) for words in follower.said("put")], list(range(count)))
        wholes = [int(words[1]) for words in follower.said("whole")]
        self.assertEqual(wholes, sorted(set(wholes)))

    def test_a_watch_through_three_kills(self):
        cluster = self.cluster(ttl=3)
        with Following("watch", cluster.members.values(), "now", "w/") as watch:
            watch.wait_said("connected")
            writer = Writer(cluster)
            self.addCleanup(writer.stop)
            self.kill_leaders(cluster, [watch], 3)
            count = writer.stop()
            watch.wait("the last value is told", lambda w: w.said("put") and int(w.said("put")[-1][3]) == count - 1)
            watch.finish()
            self.check_told(watch, count)
            self.assertGreaterEqual(len(watch.said("down")), 3)
            self.assertEqual(len(watch.said("connected")), len(watch.said("down")) + 1)
            self.assertFalse(watch.said("restart"))

    def test_snapshots_and_what_is_refused(self):
        cluster = self.cluster(members=1)
        stub = cluster.stub(cluster.proxy)
        for i in range(3):
            last = stub.Put(kv.PutRequest(key=f"s/{i}".encode(), value=b"v"), timeout=20).revision
        stub.Delete(kv.DeleteRequest(key=b"s/1"), timeout=20)
        with Following("watch", cluster.members.values(), "snapshot", "s/") as watch:
            watch.wait_said("whole")
            self.assertEqual([words[2] for words in watch.said("key")], ["s/0", "s/2"])
            self.assertEqual(len(watch.said("restart")), 1)
            watch.finish()
        with Following("watch", cluster.members.values(), last, "s/") as watch:
            watch.wait_said("delete")
            self.assertEqual([words[2] for words in watch.said("put")], ["s/2"])
            watch.finish()
        with Following("watch", cluster.members.values(), "now", "x" * 600) as watch:
            watch.wait_said("failed", "BAD_KEY")
            watch.finish()


if __name__ == "__main__":
    unittest.main()
