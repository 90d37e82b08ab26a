"""Programs that follow a cluster through libbaton: what they are told across failovers has no gap and no repeat."""
import os
import signal
import sys
import threading
import unittest

import grpc

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from cluster import ClusterTest, wait_until  # noqa: E402
from following import Following  # noqa: E402
import stubs  # noqa: E402

kv = stubs.load("baton.v1.kv_pb2")
workers_pb = stubs.load("baton.v1.cluster_pb2")


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

    def test_through_three_kills(self):
        cluster = self.cluster(ttl=3)
        with Following("watch", cluster.members.values(), "now", "w/") as watch, \
                Following("subscribe", cluster.members.values(), "test", "w/") as subscriber:
            both = [watch, subscriber]
            for follower in both:
                follower.wait_said("connected")
            writer = Writer(cluster)
            self.addCleanup(writer.stop)
            self.kill_leaders(cluster, both, 3)
            count = writer.stop()
            for follower in both:
                follower.wait("the last value is told",
                              lambda f: f.said("put") and int(f.said("put")[-1][3]) == count - 1)
                follower.finish()
                self.check_told(follower, count)
                self.assertGreaterEqual(len(follower.said("down")), 3)
                self.assertEqual(len(follower.said("connected")), len(follower.said("down")) + 1)
            self.assertFalse(watch.said("restart"))
            self.assertEqual(len(subscriber.said("restart")), 1)
            self.check_leaders(cluster, subscriber)

    def check_leaders(self, cluster, subscriber):
        """Who leads is told in order, the last one is who does, and all members are there at the start."""
        epochs = [int(words[2]) for words in subscriber.said("leader")]
        self.assertEqual(epochs, sorted(epochs))
        self.assertGreaterEqual(len(set(epochs)), 4)
        name, epoch = cluster.wait_leader()
        self.assertEqual(subscriber.said("leader")[-1], ["leader", name, str(epoch)])
        self.assertEqual(sorted(subscriber.said("member")[0][1:]), sorted(cluster.members))

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


class Workers(ClusterTest):
    def workers(self, cluster, ttl_ms, count=1, type_="compute"):
        """At the ports from 7000 on."""
        return Following("worker", cluster.members.values(), type_, "10.0.0.1:7000", ttl_ms, count)

    def listed(self, cluster):
        """Ids by address."""
        leader, _ = cluster.wait_leader()
        request = workers_pb.ListWorkersRequest()
        answer = cluster.stub(cluster.members[leader], "Cluster").ListWorkers(request, timeout=20)
        return {worker.addr: worker.id for worker in answer.workers}

    def wait_other_id(self, program, known):
        """The id of the worker that runs next, and is another one."""
        program.wait("it runs with another id", lambda p: p.said(0, "run") and p.said(0, "run")[-1][2] != known)
        return program.said(0, "run")[-1][2]

    def check_turns(self, program, number):
        """Run and stop take turns, and when it is told to stop it must not work. Reasons of the stops."""
        turns = [words for words in program.said(number) if words[1] in ("run", "stop")]
        self.assertEqual([words[1] for words in turns], (["run", "stop"] * len(turns))[:len(turns)])
        stops = turns[1::2]
        self.assertTrue(all(words[3] == "0" for words in stops), stops)
        return [words[2] for words in stops]

    def test_workers_through_three_kills(self):
        cluster, count = self.cluster(ttl=3), 20
        with self.workers(cluster, 10_000, count) as program:
            for number in range(count):
                program.wait_said(number, "run")
            ids = self.listed(cluster)
            self.assertEqual(len(ids), count)
            for _ in range(3):
                _, epoch = cluster.wait_leader()
                fault = cluster.kill_leader()
                cluster.wait_leader(above_epoch=epoch)
                cluster.restart(fault.name)
            self.assertEqual(self.listed(cluster), ids)
            program.finish()
            for number in range(count):
                reasons = self.check_turns(program, number)
                self.assertEqual(reasons[-1], "closed")
                self.assertNotIn("forgotten", reasons)
        self.assertEqual(self.listed(cluster), {})

    def test_lives_of_a_worker(self):
        cluster = self.cluster(members=1)
        stub = cluster.stub(next(iter(cluster.members.values())), "Cluster")
        with Following("subscribe", cluster.members.values(), "test") as subscriber, \
                self.workers(cluster, 5000) as first:
            known = self.wait_other_id(first, None)
            subscriber.wait("it is told of the worker",
                            lambda s: any(words[1] == known and words[4] == "running" for words in s.said("worker")))
            first.process.send_signal(signal.SIGSTOP)
            wait_until("the silent worker is taken out", lambda: not self.listed(cluster))
            first.process.send_signal(signal.SIGCONT)
            subscriber.wait_said("left", known)
            self.assertEqual([words[4] for words in subscriber.said("left", known)], ["expired"])
            known = self.wait_other_id(first, known)
            self.assertEqual(self.check_turns(first, 0)[-1], "lost-touch", "by the clock, before it heard of it")
            with self.workers(cluster, 5000) as second:
                self.assertEqual(self.wait_other_id(second, None), known, "another process, at the same address")
                first.wait_said(0, "failed", "STALE_INCARNATION")
                self.assertIn(self.check_turns(first, 0)[-1], ("replaced", "lost-touch"))
                stub.UpdateWorker(workers_pb.UpdateWorkerRequest(id=int(known), cordoned=workers_pb.TOGGLE_ON),
                                  timeout=20)
                second.wait_said(0, "wanted", 1, 0)
                stub.DeleteWorker(workers_pb.DeleteWorkerRequest(id=int(known)), timeout=20)
                self.wait_other_id(second, known)
                subscriber.wait_said("left", known)
                self.assertEqual([words[4] for words in subscriber.said("left", known)], ["gone"])
                second.wait_said(0, "wanted", 0, 0)
                second.finish()
                self.assertEqual(self.check_turns(second, 0)[-1], "closed")
            first.finish()
        self.assertEqual(self.listed(cluster), {})
        with self.workers(cluster, 0, type_="no type!") as refused:
            refused.wait_said(0, "failed", "BAD_WORKER")
            self.assertFalse(refused.said(0, "run"))
            refused.finish()


if __name__ == "__main__":
    unittest.main()
