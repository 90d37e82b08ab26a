"""baton.v1.KvService as clients see it, and the state as etcd holds it."""
import base64
import concurrent.futures
import json
import os
import random
import sys
import unittest

import grpc

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
import stubs  # noqa: E402
from cluster import LocalCluster, wait_until  # noqa: E402

kv = stubs.load("baton.v1.kv_pb2")
TIMEOUT_S = 60


def metadata(call):
    return {key: value for key, value in call}


class KvService(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = LocalCluster(members=2, proxies=0, ttl=10)  # a test must not meet its end

    @classmethod
    def tearDownClass(cls):
        cls.cluster.close()

    def setUp(self):
        name, self.epoch = self.cluster.wait_leader()
        self.leader = name
        self.stub = self.cluster.stub(self.cluster.members[name])
        self.call("Delete", kv.DeleteRequest(prefix=True))

    def call(self, method, request, request_id=None):
        """The answer and its initial metadata."""
        sent = [("baton-request-id", request_id)] if request_id else []
        answer, call = getattr(self.stub, method).with_call(request, timeout=TIMEOUT_S, metadata=sent)
        return answer, metadata(call.initial_metadata())

    def put(self, key, value=b"v", **more):
        return self.call("Put", kv.PutRequest(key=key, value=value, **more))[0]

    def get(self, key):
        return self.call("Get", kv.GetRequest(key=key))[0]

    def range(self, **fields):
        return self.call("Range", kv.RangeRequest(**fields))[0]

    def assert_refused(self, status, reason, method, request, request_id=None):
        with self.assertRaises(grpc.RpcError) as caught:
            self.call(method, request, request_id)
        trailers = metadata(caught.exception.trailing_metadata())
        self.assertEqual((caught.exception.code(), trailers.get("baton-reason")), (status, reason))
        return trailers

    def in_etcd(self):
        """{key: (value, create, mod, version)} of the user's keys."""
        prefix = self.cluster.prefix + "state/kv/"
        answer = json.loads(self.cluster.etcdctl("get", "--prefix", prefix, "-w", "json"))
        found = {}
        for item in answer.get("kvs", []):
            key = base64.b64decode(item["key"])[len(prefix):]
            found[key] = (base64.b64decode(item.get("value", "")), int(item["create_revision"]),
                          int(item["mod_revision"]), int(item["version"]))
        return found

    def in_baton(self):
        found, start = {}, b""
        while True:
            page = self.range(key=start, limit=7)
            for item in page.kvs:
                found[item.key] = (item.value, item.create_revision, item.mod_revision, item.version)
            if not page.more:
                return found
            start = page.next_key

    def test_answers_name_epoch_and_cluster(self):
        for method, request in (("Get", kv.GetRequest(key=b"a")), ("Range", kv.RangeRequest()),
                                ("Put", kv.PutRequest(key=b"a")), ("Delete", kv.DeleteRequest(key=b"a")),
                                ("Txn", kv.TxnRequest())):
            _, initial = self.call(method, request)
            self.assertEqual(initial.get("baton-epoch"), str(self.epoch))
            self.assertEqual(len(initial.get("baton-cluster", "")), 32)
            self.assertNotIn("baton-replayed", initial)

    def test_put_get_delete(self):
        self.assertFalse(self.get(b"a").found)
        first = self.put(b"a", b"1").revision
        second = self.put(b"a", b"2", prev_kv=True)
        self.assertEqual((second.prev_kv.value, second.prev_kv.mod_revision), (b"1", first))
        found = self.get(b"a")
        self.assertEqual((found.kv.value, found.kv.create_revision, found.kv.mod_revision, found.kv.version),
                         (b"2", first, second.revision, 2))
        self.assertGreaterEqual(found.revision, second.revision)
        self.assertEqual(self.in_etcd()[b"a"], (b"2", first, second.revision, 2))
        deleted, _ = self.call("Delete", kv.DeleteRequest(key=b"a", prev_kv=True))
        self.assertEqual((deleted.deleted, deleted.prev_kvs[0].value), (1, b"2"))
        self.assertFalse(self.get(b"a").found)
        self.assert_refused(grpc.StatusCode.NOT_FOUND, "KEY_NOT_FOUND", "Delete",
                            kv.DeleteRequest(key=b"a", must_exist=True))

    def test_pages(self):
        for i in range(25):
            self.put(b"k%02d" % i)
        self.put(b"l")
        page = self.range(key=b"k", prefix=True, limit=10)
        self.assertEqual((len(page.kvs), page.more, page.next_key), (10, True, b"k10"))
        page = self.range(key=page.next_key, range_end=b"l")
        self.assertEqual((len(page.kvs), page.more), (15, False))
        self.assertEqual(self.range(key=b"k", prefix=True, count_only=True).count, 25)
        self.assertEqual(self.range(count_only=True).count, 26)
        only_keys = self.range(key=b"k20", keys_only=True)
        self.assertEqual([item.key for item in only_keys.kvs], [b"k20", b"k21", b"k22", b"k23", b"k24", b"l"])
        self.assertEqual({item.value for item in only_keys.kvs}, {b""})

    def test_a_page_ends_past_one_mebibyte(self):
        for i in range(4):
            self.put(b"big%d" % i, b"x" * 600_000)
        page = self.range(key=b"big", prefix=True)
        self.assertEqual((len(page.kvs), page.more, page.next_key), (2, True, b"big2"))
        page = self.range(key=page.next_key)
        self.assertEqual((len(page.kvs), page.more), (2, False))

    def test_txn(self):
        self.put(b"a", b"1")
        request = kv.TxnRequest(
            compare=[kv.Compare(key=b"a", target=kv.Compare.TARGET_VALUE, value=b"1"),
                     kv.Compare(key=b"b", target=kv.Compare.TARGET_VERSION, number=0)],
            then_ops=[kv.Operation(put=kv.PutRequest(key=b"b", value=b"2")),
                      kv.Operation(get=kv.GetRequest(key=b"b")),
                      kv.Operation(delete=kv.DeleteRequest(key=b"a"))],
            else_ops=[kv.Operation(get=kv.GetRequest(key=b"b"))])
        done, _ = self.call("Txn", request)
        self.assertTrue(done.succeeded)
        self.assertEqual(done.results[1].get.kv.value, b"2")
        self.assertEqual(done.results[1].get.kv.create_revision, done.revision)
        self.assertEqual(done.results[2].delete.deleted, 1)
        again, _ = self.call("Txn", request)
        self.assertFalse(again.succeeded)
        self.assertEqual(again.results[0].get.kv.mod_revision, done.revision)

    def test_a_request_id_has_one_effect(self):
        request_id = f"test-one-effect-{self.put(b'x').revision}"
        request = kv.PutRequest(key=b"a", value=b"1", prev_kv=True)
        first, _ = self.call("Put", request, request_id)
        self.put(b"a", b"2")
        again, initial = self.call("Put", request, request_id)
        self.assertEqual(again, first)
        self.assertEqual(initial.get("baton-replayed"), "1")
        self.assertEqual(self.get(b"a").kv.value, b"2")
        self.assert_refused(grpc.StatusCode.INVALID_ARGUMENT, "BAD_REQUEST_ID", "Put",
                            kv.PutRequest(key=b"a", value=b"3"), request_id)
        self.assert_refused(grpc.StatusCode.INVALID_ARGUMENT, "BAD_REQUEST_ID", "Put", request, "short")

    def test_refusals(self):
        invalid = grpc.StatusCode.INVALID_ARGUMENT
        for request, reason in ((kv.PutRequest(key=b""), "BAD_KEY"), (kv.PutRequest(key=b"k" * 481), "BAD_KEY"),
                                (kv.PutRequest(key=b"k", value=b"x" * 1_048_577), "TOO_LARGE"),
                                (kv.PutRequest(key=b"k", value=b"x" * 1_400_000), "TOO_LARGE")):
            trailers = self.assert_refused(invalid, reason, "Put", request)
            self.assertEqual(trailers.get("baton-not-executed"), "1")
        self.put(b"k" * 480, b"x" * 1_048_576)
        twice = [kv.Operation(put=kv.PutRequest(key=b"a")), kv.Operation(put=kv.PutRequest(key=b"a"))]
        self.assert_refused(invalid, "BAD_REQUEST", "Txn", kv.TxnRequest(then_ops=twice))
        self.assert_refused(invalid, "BAD_REQUEST", "Range", kv.RangeRequest(range_end=b"b", prefix=True))
        self.assert_refused(invalid, "BAD_KEY", "Get", kv.GetRequest())

    def test_a_follower_refuses_and_names_the_leader(self):
        follower = next(name for name in self.cluster.members if name != self.leader)
        wait_until("the follower knows the leader",
                   lambda: (self.cluster.leader_state(self.cluster.members[follower]) or None) and
                   self.cluster.leader_state(self.cluster.members[follower]).known)
        self.stub = self.cluster.stub(self.cluster.members[follower])
        for method, request in (("Get", kv.GetRequest(key=b"a")), ("Put", kv.PutRequest(key=b"a"))):
            trailers = self.assert_refused(grpc.StatusCode.UNAVAILABLE, "NOT_LEADER", method, request)
            self.assertEqual(trailers.get("baton-leader"), self.cluster.members[self.leader])
            self.assertEqual(trailers.get("baton-not-executed"), "1")

    def random_request(self, rng):
        key = b"%c%d" % (rng.choice(b"abc"), rng.randrange(8))
        if rng.random() < 0.6:
            return "Put", kv.PutRequest(key=key, value=b"%d" % rng.randrange(1000))
        if rng.random() < 0.5:
            return "Delete", kv.DeleteRequest(key=key)
        if rng.random() < 0.2:
            return "Delete", kv.DeleteRequest(key=key[:1] + b"3", range_end=key[:1] + b"6")
        other = b"%c%d" % (rng.choice(b"xyz"), rng.randrange(4))
        return "Txn", kv.TxnRequest(
            compare=[kv.Compare(key=key, target=kv.Compare.TARGET_VERSION, result=kv.Compare.RESULT_LESS, number=3)],
            then_ops=[kv.Operation(put=kv.PutRequest(key=key, value=b"then")),
                      kv.Operation(delete=kv.DeleteRequest(key=other))],
            else_ops=[kv.Operation(delete=kv.DeleteRequest(key=key)),
                      kv.Operation(put=kv.PutRequest(key=other, value=b"else"))])

    def mix(self, seed, count):
        rng = random.Random(seed)
        for i in range(count):
            method, request = self.random_request(rng)
            request_id = f"mix-{seed}-{i}-{self.epoch}-{id(self)}" if rng.random() < 0.5 else None
            self.call(method, request, request_id)

    def test_the_state_is_etcds(self):
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for done in [pool.submit(self.mix, seed, 120) for seed in range(8)]:
                done.result()
        held = self.in_etcd()
        self.assertTrue(held)
        self.assertEqual(self.in_baton(), held)
        # The other member has followed, and holds the same.
        self.cluster.kill_leader()
        name, _ = self.cluster.wait_leader(above_epoch=self.epoch)
        self.stub = self.cluster.stub(self.cluster.members[name])
        self.assertEqual(self.in_baton(), held)
        self.cluster.restart(self.leader)


if __name__ == "__main__":
    unittest.main()
