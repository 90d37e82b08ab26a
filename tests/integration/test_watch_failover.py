"""Watches of three members: through kills, transfers and the proxy, on followers, and past etcd's history."""
import os
import sys
import threading
import unittest

import grpc

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
import stubs  # noqa: E402
from cluster import ClusterTest, wait_until  # noqa: E402
from watching import Watch  # noqa: E402

kv = stubs.load("baton.v1.kv_pb2")


class Counter:
    """Puts 1, 2, 3, ... under one key through the proxy, until stopped; every number is put once."""

    def __init__(self, stub):
        self.stub, self.stopping, self.put, self.failed = stub, threading.Event(), [], None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        while not self.stopping.is_set() and not self.failed:
            value = b"%d" % (len(self.put) + 1)
            try:
                answer = self.stub.Put(kv.PutRequest(key=b"n", value=value), timeout=60)
            except grpc.RpcError as error:
                self.failed = error
                return
            self.put.append((answer.revision, b"n", value))

    def stop(self):
        self.stopping.set()
        self._thread.join()
        if self.failed:
            raise self.failed
        return self.put


class WatchFailover(ClusterTest):
    def watch(self, address, before=None, follower=False, **request):
        made = Watch(self.made.stub(address), kv.WatchRequest(**request), follower=follower, before=before)
        self.addCleanup(made.cancel)
        return made

    def put(self, key, value=b"1"):
        return self.made.stub(self.made.proxy).Put(kv.PutRequest(key=key, value=value), timeout=60).revision

    ends = [(grpc.StatusCode.UNAVAILABLE, reason)
            for reason in ("NOT_LEADER", "NO_LEADER", "ACTIVATING", "DRAINING", "LOST", None)]

    def test_leaders_come_and_go(self):
        """Through the proxy and on a follower, by tokens over three leaders: every number once, in order."""
        self.made = self.cluster(members=3, proxies=1, ttl=2)
        name, epoch = self.made.wait_leader()
        proxy = self.made.proxy
        first = self.put(b"first")
        counter = Counter(self.made.stub(proxy))
        through, told = [self.watch(proxy, start_revision=first + 1)], 0
        for fault in (self.made.kill_leader, self.made.transfer_leader, self.made.term_leader):
            told = through[-1].revision
            through[-1].wait("numbers are told", lambda w: w.revision > told)
            name, epoch = self.made.wait_leader()
            direct = self.watch(self.made.members[name])
            direct.wait_begun()
            if fault == self.made.kill_leader:
                follower = next(other for other in self.made.members if other != name)
                beside = self.watch(self.made.members[follower], follower=True, snapshot=True)
                beside.wait_begun()
            struck = fault()
            status, reason, _ = direct.wait_end()
            self.assertIn((status, reason), self.ends)
            self.assertEqual(set(direct.epochs), {epoch}, "a stream of a leader tells of no later one")
            self.made.wait_leader(epoch)
            self.made.restart(struck.name)
            status, reason, _ = through[-1].wait_end()
            self.assertIn((status, reason), self.ends)
            through.append(self.watch(proxy, before=through[-1], resume_token=through[-1].token))
        through[-1].wait("numbers are told again", lambda w: w.events and w.messages > 3)
        put = counter.stop()
        end = self.put(b"last")
        through[-1].wait_revision(end)
        self.assertEqual([event for event in through[-1].events if event[1] == b"n"], put)
        if beside.error is None:
            beside.wait_revision(end)
            self.assertEqual(beside.state[b"n"], put[-1][2])
            self.assertEqual(beside.epochs, sorted(beside.epochs))
        name, _ = self.made.wait_leader()
        other = self.watch(self.made.members[name], start_revision=first + 1, snapshot=True)
        other.wait_revision(end)
        self.assertEqual(other.state[b"n"], put[-1][2])

    def test_a_follower(self):
        """Refuses without being allowed to; waits for what it has not applied; is listed anew past a compaction."""
        self.made = self.cluster(members=2, proxies=1, ttl=2)
        leader, _ = self.made.wait_leader()
        follower = next(name for name in self.made.members if name != leader)
        address = self.made.members[follower]
        self.assertEqual(self.watch(address).wait_end()[:2], (grpc.StatusCode.UNAVAILABLE, "NOT_LEADER"))
        self.put(b"a")
        told = self.watch(self.made.proxy)
        told.wait_begun()
        ahead = self.watch(address, follower=True, resume_token=told.token)
        wanted = self.put(b"b")
        ahead.wait_revision(wanted)
        self.assertEqual(ahead.events, [(wanted, b"b", b"1")])
        again, plain = (self.watch(address, follower=True, snapshot=snapshot) for snapshot in (True, False))
        again.wait("its state is told", lambda w: w.state == {b"a": b"1", b"b": b"1"})
        plain.wait_begun()
        self.made.process(follower).pause()
        try:
            for n in range(20):
                last = self.put(b"c%d" % n)
            self.made.etcdctl("compact", "--physical", str(last))
        finally:
            self.made.resume(follower)
        # what was on its way to the follower already does not need etcd's history
        wait_until("both are told, or told to begin anew", lambda: again.revision >= last and
                   (plain.revision >= last or plain.error is not None))
        again.wait_revision(self.put(b"d"))
        self.assertEqual(set(again.state), {b"a", b"b", b"d"} | {b"c%d" % n for n in range(20)})


if __name__ == "__main__":
    unittest.main()
