"""etcd is full, or nearly: what goes on, what is refused and certainly did not happen, and how it ends."""
import os
import sys
import threading
import time
import unittest

import grpc

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
import stubs  # noqa: E402
from cluster import ClusterTest, wait_until  # noqa: E402
from small_etcd import FOREIGN, SmallEtcd  # noqa: E402

kv = stubs.load("baton.v1.kv_pb2")
QUOTA_MIB, TTL_S = 16, 4
FULL = (grpc.StatusCode.RESOURCE_EXHAUSTED, "NO_SPACE")


class Writers:
    """Threads that put a new key each time and remember what they were told."""

    def __init__(self, stub, count=4, size=2000):
        self.stub, self.size = stub, size
        self.done, self.refused, self.unknown = {}, set(), set()
        self._end = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(i,)) for i in range(count)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._end.set()
        for thread in self._threads:
            thread.join()

    def _run(self, writer):
        number = 0
        while not self._end.wait(0.002):
            key, value = b"w%d-%d" % (writer, number), os.urandom(self.size)
            number += 1
            try:
                self.stub.Put(kv.PutRequest(key=key, value=value), timeout=60)
                self.done[key] = value
            except grpc.RpcError as error:
                trailers = dict(error.trailing_metadata())
                sure = trailers.get("baton-not-executed") == "1"
                (self.refused if sure else self.unknown).add(key)


class Space(ClusterTest):
    def set_up(self, *member_args):
        self.etcd = SmallEtcd(self.cluster(members=0, proxies=0), QUOTA_MIB)
        self.baton = self.cluster(etcd=0, etcd_urls=[self.etcd.url], members=2, ttl=TTL_S, member_args=member_args)
        self.before = self.baton.wait_leader()
        self.stub = self.baton.stub(self.baton.proxy)

    def put(self, key, value=b"v"):
        return self.stub.Put(kv.PutRequest(key=key, value=value), timeout=60)

    def refusal(self, key, value=b"v"):
        """(status, reason) of a put; None when it was done."""
        try:
            self.put(key, value)
            return None
        except grpc.RpcError as error:
            trailers = dict(error.trailing_metadata())
            self.assertEqual(trailers.get("baton-not-executed"), "1")
            return error.code(), trailers.get("baton-reason")

    def everything(self):
        found, start = {}, b""
        while True:
            page = self.stub.Range(kv.RangeRequest(key=start), timeout=60)
            found.update((item.key, item.value) for item in page.kvs)
            if not page.more:
                return found
            start = page.next_key

    def read_on(self, seconds):
        """Reads of each kind are answered all the time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for consistency in (kv.CONSISTENCY_LEASE, kv.CONSISTENCY_QUORUM, kv.CONSISTENCY_STALE):
                self.stub.Get(kv.GetRequest(key=b"first", consistency=consistency), timeout=60)
            state = self.baton.leader_state(self.baton.proxy)
            self.assertTrue(state is None or (state.known and state.id == self.before[0]), state)

    def test_puts_stop_before_etcd_is_full(self):
        self.set_up("--compact=off")
        self.put(b"first")
        kept = {b"first": b"v"}
        for number in range(1000):
            key, value = b"big%d" % number, os.urandom(128 << 10)
            told = self.refusal(key, value)
            if told:
                break
            kept[key] = value
        self.assertEqual(told, FULL)
        file_bytes, used_bytes = self.etcd.sizes()
        self.assertGreater(used_bytes, QUOTA_MIB * 0.75 * (1 << 20))
        self.assertLess(file_bytes, QUOTA_MIB * (1 << 20))
        wait_until("it is told", lambda: self.baton.metric(self.before[0], "baton_meta_puts_refused") == 1)
        # deletes and heartbeats go on, and so does a Txn that puts nothing
        began = time.monotonic()
        while time.monotonic() < began + 2 * TTL_S:
            self.assertEqual(self.refusal(b"more"), FULL)
            del kept[key := max(kept, key=len)]
            self.stub.Delete(kv.DeleteRequest(key=key), timeout=60)
            self.read_on(0.2)
        txn = kv.TxnRequest(then_ops=[kv.Operation(delete=kv.DeleteRequest(key=b"big", prefix=True))])
        self.stub.Txn(txn, timeout=60)
        kept = {key: value for key, value in kept.items() if not key.startswith(b"big")}
        self.assertEqual(self.etcd.alarms(), [], "Baton's own writes do not fill it")
        self.assertEqual(self.everything(), kept)
        self.etcd.make_room()
        wait_until("puts are accepted again", lambda: self.refusal(b"more") is None)
        self.assertEqual(self.everything(), {**kept, b"more": b"v"})
        wait_until("it is told", lambda: self.baton.metric(self.before[0], "baton_meta_puts_refused") == 0)
        self.assertEqual(self.baton.wait_leader(), self.before)

    def test_etcd_is_out_of_space(self):
        """Filled by somebody else, where the members do not know the quota."""
        self.set_up("--etcd-quota-bytes=1GiB")
        self.put(b"first")
        with Writers(self.stub) as writers:
            wait_until("writes go on", lambda: len(writers.done) > 20)
            self.etcd.fill()
            wait_until("writes are refused", lambda: len(writers.refused) > 20)
            self.assertTrue(self.etcd.alarms())
            self.read_on(3 * TTL_S)
            self.assertEqual(self.refusal(b"more"), FULL)
            self.assertEqual(self.baton.wait_leader(), self.before)
            refused = len(writers.refused)
            self.etcd.ctl("del", "--prefix", FOREIGN)
            self.etcd.make_room()
            done = len(writers.done)
            wait_until("writes go on by themselves", lambda: len(writers.done) > done + 20)
            self.assertGreater(refused, 20)
        self.assertEqual(self.baton.wait_leader(), self.before)
        found = self.everything()
        self.assertEqual(found.pop(b"first"), b"v")
        for key in writers.unknown:
            found.pop(key, None)
        self.assertEqual(found, writers.done)


if __name__ == "__main__":
    unittest.main()
