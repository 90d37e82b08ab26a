"""A leader that is stopped past its lease wakes up: what it still tells comes with its old epoch, so a receiver that has
heard of the next leader rejects it by its guard, also one that was restarted with a guard that lasts."""
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
import grpc  # noqa: E402
import stubs  # noqa: E402
from cluster import BIN, ClusterTest  # noqa: E402
from listeners import Subscriber, Watcher  # noqa: E402
from workload import describe_error  # noqa: E402

PREFIX = "zombie/"


class Receiver:
    """A process on libbaton that asks its guard about what it is told (see library_driver.c)."""

    def __init__(self, path=""):
        self.process = subprocess.Popen([os.path.join(BIN, "library-driver"), "guard", *([path] if path else [])],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def says(self, cluster_id, epoch):
        """Of a message that came with these: "admitted", or the reason why it is rejected."""
        self.process.stdin.write(f"{cluster_id} {epoch}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def end(self, hard=False):
        if hard:
            self.process.kill()
        self.process.communicate(timeout=30)
        return self.process.returncode


class Zombies(ClusterTest):
    def receiver(self, path=""):
        made = Receiver(path)
        self.addCleanup(made.end)
        return made

    def open_unread(self, listener):
        """A stream that a slow reader reads later only."""
        self.addCleanup(listener.channel.close)
        return listener._open()

    @staticmethod
    def read_late(call):
        """All that came, and how it ended."""
        came = []
        try:
            for message in call:
                came.append(message)
        except grpc.RpcError as error:
            return came, describe_error(error)[0]
        return came, "OK"

    def test_what_comes_late_is_rejected(self):
        kv = stubs.load("baton.v1.kv_pb2")
        cluster = self.cluster(ttl=2)
        path = os.path.join(cluster.directory, "guard")
        name, epoch = cluster.wait_leader()
        unread = [self.open_unread(kind(cluster.members[name], PREFIX)) for kind in (Watcher, Subscriber)]
        prompt = Watcher(cluster.proxy, PREFIX).start().wait_open()
        self.addCleanup(prompt.stop)
        revision = cluster.stub(cluster.proxy).Put(kv.PutRequest(key=b"zombie/a", value=b"1"), timeout=30).revision
        prompt.wait_told(revision)
        lasting, passing = self.receiver(path), self.receiver()
        for receiver in (lasting, passing):
            self.assertEqual(receiver.says(prompt.told[-1].cluster, epoch), "admitted")
        cluster.pause_leader()
        cluster.wait_leader(above_epoch=epoch)
        revision = cluster.stub(cluster.proxy).Put(kv.PutRequest(key=b"zombie/a", value=b"2"), timeout=30).revision
        prompt.wait_told(revision)
        self.assertGreater(prompt.told[-1].epoch, epoch)
        for receiver in (lasting, passing):
            self.assertEqual(receiver.says(prompt.told[-1].cluster, prompt.told[-1].epoch), "admitted")
        cluster.resume(name)
        told = [self.read_late(call) for call in unread]
        for came, end in told:
            self.assertEqual(end, "UNAVAILABLE")
            self.assertTrue(came)
            self.assertEqual({message.epoch for message in came}, {epoch}, "it speaks for its own leadership only")
        late = {(message.cluster_id, message.epoch) for came, _ in told for message in came}
        for receiver in (lasting, passing):
            self.assertEqual({receiver.says(*one) for one in late}, {"STALE_EPOCH"})
            receiver.end(hard=True)
        lasting, passing = self.receiver(path), self.receiver()
        self.assertEqual({lasting.says(*one) for one in late}, {"STALE_EPOCH"})
        self.assertEqual({passing.says(*one) for one in late}, {"admitted"}, "so the file makes the difference")


if __name__ == "__main__":
    unittest.main(verbosity=2)
