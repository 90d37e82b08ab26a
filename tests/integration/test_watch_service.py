"""KvService.Watch as its clients see it, on one member: order, snapshots, limits, and what it refuses."""
import os
import random
import sys
import threading
import unittest

import grpc

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
import stubs  # noqa: E402
from cluster import ClusterTest, wait_until  # noqa: E402
from watching import Watch  # noqa: E402

kv = stubs.load("baton.v1.kv_pb2")
TIMEOUT_S = 30
HISTORY = 256 * 1024


class Writer:
    """Changes below w/, and what a watch must tell of them."""

    def __init__(self, stub, seed):
        self.stub, self.rng, self.state, self.history = stub, random.Random(seed), {}, []

    def _note(self, revision, changes):
        for key, value in changes:
            self.history.append((revision, key, value))
            if value is None:
                del self.state[key]
            else:
                self.state[key] = value

    def _key(self):
        return b"w/%02d" % self.rng.randrange(40)

    def put(self, value=None):
        key, value = self._key(), value or b"%d" % self.rng.randrange(10**6)
        answer = self.stub.Put(kv.PutRequest(key=key, value=value), timeout=TIMEOUT_S)
        self._note(answer.revision, [(key, value)])

    def delete(self):
        key = self._key()
        answer = self.stub.Delete(kv.DeleteRequest(key=key), timeout=TIMEOUT_S)
        self._note(answer.revision, [(key, None)] if answer.deleted else [])

    def delete_range(self):
        start, end = sorted((self._key(), self._key()))
        answer = self.stub.Delete(kv.DeleteRequest(key=start, range_end=end + b"\0"), timeout=TIMEOUT_S)
        gone = [key for key in sorted(self.state) if start <= key <= end]
        assert answer.deleted == len(gone)
        self._note(answer.revision, [(key, None) for key in gone])

    def txn(self):
        keys = {self._key() for _ in range(5)}
        ops, changes = [], []
        for key in sorted(keys):
            if self.rng.random() < 0.3:
                ops.append(kv.Operation(delete=kv.DeleteRequest(key=key)))
                changes += [(key, None)] if key in self.state else []
            else:
                ops.append(kv.Operation(put=kv.PutRequest(key=key, value=b"t")))
                changes.append((key, b"t"))
        answer = self.stub.Txn(kv.TxnRequest(then_ops=ops), timeout=TIMEOUT_S)
        self._note(answer.revision, changes)

    def some(self, count):
        for _ in range(count):
            self.rng.choices([self.put, self.delete, self.txn, self.delete_range], [6, 2, 2, 1])[0]()

    def revision(self):
        return self.stub.Get(kv.GetRequest(key=b"w/"), timeout=TIMEOUT_S).revision


def as_told(history):
    """The order within a commit is nobody's business."""
    return sorted(history, key=lambda change: (change[0], change[1]))


class WatchService(ClusterTest):
    def setUp(self):
        self.made = self.cluster(embedded=True, proxies=0, member_args=[
            f"--watch-history={HISTORY}", "--watch-buffer-bytes=64KiB", "--max-watches=400"])
        self.name, address = next(iter(self.made.members.items()))
        self.made.wait_leader()
        self.stub = self.made.stub(address)

    def watch(self, before=None, **request):
        made = Watch(self.stub, kv.WatchRequest(**request), before=before)
        self.addCleanup(made.cancel)
        return made

    def assert_refused(self, status, reason, **request):
        found = self.watch(**request).wait_end()
        self.assertEqual(found[:2], (status, reason))
        return found[2]

    def assert_told(self, watch, writer):
        watch.wait_revision(writer.revision())
        self.assertEqual(as_told(watch.events), as_told(writer.history))

    def test_order(self):
        """Every change once, in order, to whoever watches from the beginning, from now, or resumes half way."""
        writer, other = Writer(self.stub, 1), self.watch(prefixes=[b"x/"])
        now = self.watch()
        now.wait_begun()
        first = writer.revision() + 1
        writer.some(60)
        half = self.watch(prefixes=[b"w/1", b"w/", b"y"], start_revision=first)
        half.wait_revision(writer.revision())
        half.cancel()
        writer.some(60)
        resumed = self.watch(before=half, prefixes=[b"w/"], resume_token=half.token)
        whole = self.watch(start_revision=first)
        for watch in (now, resumed, whole):
            self.assert_told(watch, writer)
            self.assertEqual(watch.state, writer.state)
        one = self.watch(prefixes=[b"w/17"], start_revision=first)
        one.wait_revision(writer.revision())
        self.assertEqual(one.events, [change for change in writer.history if change[1] == b"w/17"])
        later = self.watch(start_revision=writer.revision() + 3)
        later.wait_begun()
        for _ in range(4):
            writer.put()
        later.wait_revision(writer.revision())
        self.assertEqual(as_told(later.events), as_told(writer.history)[-2:])
        other.wait_begun()
        self.assertEqual(other.events, [])

    def test_snapshot_under_load(self):
        """A snapshot in many parts while keys change: what follows goes on from it."""
        for n in range(60):
            self.stub.Put(kv.PutRequest(key=b"s/%03d" % n, value=b"x" * 20000), timeout=TIMEOUT_S)
        writer, stop = Writer(self.stub, 2), threading.Event()

        def write():
            while not stop.is_set():
                writer.some(1)
        thread = threading.Thread(target=write, daemon=True)
        thread.start()
        try:
            watches = [self.watch(snapshot=True, prefixes=[b"s/", b"w/"][: 1 + n % 2] if n else []) for n in range(8)]
            for watch in watches:
                watch.wait("a snapshot is told", lambda w: w.snapshots == 1 and w.revision)
                self.assertLessEqual({b"s/%03d" % n for n in range(60)}, set(watch.state))
        finally:
            stop.set()
            thread.join()
        end = writer.revision()
        for n, watch in enumerate(watches):
            watch.wait_revision(end)
            told = {key: value for key, value in watch.state.items() if key.startswith(b"w/")}
            self.assertEqual(told, writer.state if n % 2 or not n else {})

    def test_history(self):
        """What is not kept any more: COMPACTED, or the state."""
        writer = Writer(self.stub, 3)
        first = self.watch(snapshot=True)
        first.wait("the empty state is told", lambda w: w.snapshots == 1)
        self.assertEqual(first.state, {})
        token, start = first.token, first.revision + 1
        first.cancel()
        while self.made.metric(self.name, "baton_meta_watch_history_oldest_revision") <= start:
            writer.put(b"x" * 10000)
        self.assertLessEqual(self.made.metric(self.name, "baton_meta_watch_history_bytes"), HISTORY)
        out_of_range = grpc.StatusCode.OUT_OF_RANGE
        trailers = self.assert_refused(out_of_range, "COMPACTED", start_revision=start)
        self.assert_refused(out_of_range, "COMPACTED", resume_token=token)
        oldest = int(trailers["baton-oldest-revision"])
        kept = self.watch(start_revision=oldest)
        kept.wait_revision(writer.revision())
        self.assertEqual(as_told(kept.events), [c for c in as_told(writer.history) if c[0] >= oldest])
        for request in ({"start_revision": start}, {"resume_token": token}):
            again = self.watch(snapshot=True, **request)
            again.wait_revision(writer.revision())
            self.assertEqual((again.snapshots, again.state), (1, writer.state))

    def test_refusals(self):
        out_of_range, invalid = grpc.StatusCode.OUT_OF_RANGE, grpc.StatusCode.INVALID_ARGUMENT
        self.stub.Put(kv.PutRequest(key=b"a", value=b"1"), timeout=TIMEOUT_S)
        good = self.watch()
        good.wait_begun()
        foreign = good.token.replace(good.cluster_id.encode(), b"0" * len(good.cluster_id))
        self.assertNotEqual(foreign, good.token)
        self.assert_refused(out_of_range, "RESYNC", resume_token=foreign)
        anew = self.watch(snapshot=True, resume_token=foreign)
        anew.wait("the state instead", lambda w: w.snapshots == 1 and w.revision)
        self.assertEqual(anew.state, {b"a": b"1"})
        self.assert_refused(invalid, "BAD_REQUEST", resume_token=b"no token")
        self.assert_refused(invalid, "BAD_REQUEST", resume_token=good.token, start_revision=1)
        self.assert_refused(invalid, "BAD_REQUEST", start_revision=-1)
        self.assert_refused(invalid, "BAD_REQUEST", prefixes=[b"%d" % n for n in range(101)])
        self.assert_refused(invalid, "BAD_KEY", prefixes=[b"k" * 481])

    def test_slow_reader(self):
        """It alone is cut; the others are told everything meanwhile, and a commit larger than a message is whole."""
        writer = Writer(self.stub, 4)
        slow = self.stub.Watch(kv.WatchRequest(prefixes=[b"big/"]))
        self.addCleanup(slow.cancel)
        next(slow)
        good = self.watch()
        good.wait_begun()
        value = b"x" * 200000

        def cut():
            self.stub.Put(kv.PutRequest(key=b"big/1", value=value), timeout=TIMEOUT_S)
            writer.put()
            return self.made.metric(self.name, "baton_meta_watches_ended_total", reason="TOO_SLOW") == 1
        wait_until("the reader that sleeps is cut", cut)
        good.wait_revision(writer.revision())
        self.assertEqual(as_told(c for c in good.events if c[1] != b"big/1"), as_told(writer.history))
        with self.assertRaises(grpc.RpcError) as caught:
            for _ in slow:
                pass
        self.assertEqual(dict(caught.exception.trailing_metadata()).get("baton-reason"), "TOO_SLOW")
        # as one commit
        for n in range(2500):
            key = b"long/" + b"%04d" % n * 100
            if n % 100 == 0:
                ops = []
            ops.append(kv.Operation(put=kv.PutRequest(key=key, value=b"1")))
            if n % 100 == 99:
                self.stub.Txn(kv.TxnRequest(then_ops=ops), timeout=TIMEOUT_S)
        parts = self.watch(prefixes=[b"long/"], snapshot=True)
        parts.wait("all is there", lambda w: len(w.state) == 2500)
        before = parts.messages
        gone = self.stub.Delete(kv.DeleteRequest(key=b"long/", prefix=True), timeout=TIMEOUT_S)
        parts.wait_revision(gone.revision)
        self.assertEqual(({event[0] for event in parts.events}, len(parts.events)), ({gone.revision}, 2500))
        self.assertGreater(parts.messages - before, 1)

    def test_many(self):
        """Some hundreds, each told everything; more than --max-watches are refused, and room comes back."""
        writer = Writer(self.stub, 5)
        watches = [self.watch(prefixes=[b"w/"] if n % 2 else [b"w/%d" % (n % 4)]) for n in range(400)]
        for watch in watches:
            watch.wait_begun()
        self.assert_refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED")
        writer.some(30)
        end = writer.revision()
        for n, watch in enumerate(watches):
            watch.wait_revision(end) if n % 2 else watch.cancel()
        for watch in watches[1::2]:
            self.assertEqual(as_told(watch.events), as_told(writer.history))
        wait_until("the streams that were cancelled are gone",
                   lambda: self.made.metric(self.name, "baton_meta_watches") == 200)


if __name__ == "__main__":
    unittest.main()
