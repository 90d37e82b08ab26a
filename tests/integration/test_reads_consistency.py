"""How current a read is: LEASE, QUORUM, STALE, min_revision, and callers who know of a higher epoch."""
import os
import shutil
import sys
import threading
import time
import unittest

import grpc

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
import stubs  # noqa: E402
from cluster import ClusterTest, wait_until  # noqa: E402

kv = stubs.load("baton.v1.kv_pb2")
maintenance = stubs.load("baton.v1.maintenance_pb2")
member = stubs.load("baton.v1.member_pb2")
TIMEOUT_S = 60
LEASE, QUORUM, STALE = kv.CONSISTENCY_LEASE, kv.CONSISTENCY_QUORUM, kv.CONSISTENCY_STALE


def metadata(pairs):
    return dict(pairs or ())


class Reads(ClusterTest):
    def set_up(self, **options):
        self.baton = self.cluster(**{"members": 3, "proxies": 1, "ttl": 10, **options})
        self.leader, self.epoch = self.baton.wait_leader()

    def stub(self, name, service="Kv"):
        return self.baton.stub(self.baton.proxy if name == "proxy" else self.baton.members[name], service)

    def call(self, name, method, request, seconds=TIMEOUT_S, **sent):
        pairs = [(key.replace("_", "-"), value) for key, value in sent.items()]
        answer, call = getattr(self.stub(name), method).with_call(request, timeout=seconds, metadata=pairs)
        return answer, metadata(call.initial_metadata())

    def put(self, name, key, value):
        return self.call(name, "Put", kv.PutRequest(key=key, value=value))[0].revision

    def get(self, name, key, seconds=TIMEOUT_S, **fields):
        return self.call(name, "Get", kv.GetRequest(key=key, **fields), seconds)[0]

    def refusal(self, name, method, request, seconds=TIMEOUT_S, **sent):
        """(status, reason, message) of a call that must fail."""
        with self.assertRaises(grpc.RpcError) as caught:
            self.call(name, method, request, seconds, **sent)
        trailers = metadata(caught.exception.trailing_metadata())
        return caught.exception.code(), trailers.get("baton-reason"), caught.exception.details()

    def refused_get(self, name, key, seconds=TIMEOUT_S, **fields):
        return self.refusal(name, "Get", kv.GetRequest(key=key, **fields), seconds)

    def late(self, name, **fields):
        """What a member says when the deadline is near: a moment before it, so that on a busy machine the caller's own
        clock may be first, which gives no reason."""
        def told():
            answer = self.refused_get(name, b"key", 1, **fields)
            return None if answer[:2] == (grpc.StatusCode.DEADLINE_EXCEEDED, None) else answer
        return wait_until("the member's answer comes in time", told)

    def followers(self):
        return [name for name in self.baton.members if name != self.leader]

    def test_who_answers_which_consistency(self):
        self.set_up()
        revision = self.put(self.leader, b"key", b"one")
        for consistency in (LEASE, QUORUM, STALE):
            for name in (self.leader, "proxy"):
                answer = self.get(name, b"key", consistency=consistency)
                self.assertEqual((answer.kv.value, answer.kv.mod_revision), (b"one", revision))
                page = self.call(name, "Range", kv.RangeRequest(consistency=consistency))[0]
                self.assertEqual([item.value for item in page.kvs], [b"one"])
        for follower in self.followers():
            for consistency in (LEASE, QUORUM):
                status, reason, _ = self.refused_get(follower, b"key", consistency=consistency)
                self.assertEqual((status, reason), (grpc.StatusCode.UNAVAILABLE, "NOT_LEADER"))
            # what it has written through another member, a client reads here
            answer, initial = self.call(follower, "Get", kv.GetRequest(key=b"key", consistency=STALE,
                                                                      min_revision=revision))
            self.assertGreaterEqual(answer.revision, revision)
            self.assertEqual((answer.kv.value, initial["baton-epoch"]), (b"one", str(self.epoch)))
        self.min_revisions()
        self.callers_that_leave()
        self.senseless_requests()

    def min_revisions(self):
        """Waits for what is written meanwhile; ends at its deadline with both revisions."""
        follower = self.followers()[0]
        now = self.get(self.leader, b"key").revision
        for name, consistency in ((self.leader, LEASE), (self.leader, QUORUM), (follower, STALE)):
            status, reason, text = self.late(name, consistency=consistency, min_revision=now + 1000000)
            self.assertEqual((status, reason), (grpc.StatusCode.DEADLINE_EXCEEDED, "TIMEOUT"))
            self.assertRegex(text, rf"revision \d+ .*min_revision {now + 1000000}")
        for round_number in range(5):
            now = self.get(self.leader, b"key").revision
            found = []
            readers = [threading.Thread(target=lambda n=name, c=consistency: found.append(
                self.get(n, b"key", consistency=c, min_revision=now + 1)))
                for name, consistency in ((self.leader, LEASE), (self.leader, QUORUM), (follower, STALE))]
            for reader in readers:
                reader.start()
            revision = self.put(self.leader, b"key", b"round %d" % round_number)
            for reader in readers:
                reader.join()
            self.assertEqual(len(found), 3)
            for answer in found:  # a heartbeat may have come first
                self.assertGreater(answer.revision, now)
                if answer.revision >= revision:
                    self.assertEqual(answer.kv.value, b"round %d" % round_number)

    def callers_that_leave(self):
        """What waits for somebody who is gone is dropped: the member has no calls in flight then."""
        far = self.get(self.leader, b"key").revision + 1000000
        for name in (self.leader, "proxy"):
            calls = [self.stub(name).Get.future(kv.GetRequest(key=b"key", min_revision=far)) for _ in range(50)]
            wait_until("they wait", lambda: self.baton.metric(self.leader, "baton_meta_rpcs_in_flight") >= 50)
            for call in calls:
                call.cancel()
            wait_until("nothing waits", lambda: self.baton.metric(self.leader, "baton_meta_rpcs_in_flight") < 5)

    def senseless_requests(self):
        bad = grpc.StatusCode.INVALID_ARGUMENT, "BAD_REQUEST"
        self.assertEqual(self.refused_get(self.leader, b"key", min_revision=-1)[:2], bad)
        self.assertEqual(self.refused_get(self.leader, b"key", consistency=7)[:2], bad)
        for get in (kv.GetRequest(key=b"key", consistency=QUORUM), kv.GetRequest(key=b"key", min_revision=3)):
            txn = kv.TxnRequest(then_ops=[kv.Operation(get=get)])
            self.assertEqual(self.refusal(self.leader, "Txn", txn)[:2], bad)
        for text in ("", "-1", "one", "1 ", "99999999999999999999"):
            for method, request in (("Get", kv.GetRequest(key=b"key")), ("Put", kv.PutRequest(key=b"k", value=b"v"))):
                status, reason, message = self.refusal(self.leader, method, request, baton_epoch=text)
                self.assertEqual((status, reason), bad)
                self.assertIn("baton-epoch", message)

    def test_a_member_without_a_whole_state_answers_nothing(self):
        self.set_up(members=2)
        revision = self.put(self.leader, b"key", b"one")
        follower, etcd = self.followers()[0], self.baton.process("etcd1")
        self.assertEqual(self.get(follower, b"key", consistency=STALE, min_revision=revision).kv.value, b"one")
        self.baton.run_script("stop", follower)
        shutil.rmtree(os.path.join(self.baton.directory, follower, "cache"))
        etcd.pause()  # so that it cannot list the state
        try:
            self.baton.restart(follower)
            status, reason, _ = self.refused_get(follower, b"key", consistency=STALE)
            self.assertEqual((status, reason), (grpc.StatusCode.UNAVAILABLE, "NOT_READY"))
        finally:
            self.baton.resume("etcd1")

        def found():
            try:
                return self.get(follower, b"key", consistency=STALE).kv.value == b"one"
            except grpc.RpcError as error:
                self.assertEqual(error.code(), grpc.StatusCode.UNAVAILABLE)
                return False
        wait_until("it has listed the state", found)

    def test_a_caller_who_knows_a_higher_epoch(self):
        self.set_up()
        requests = (("Get", kv.GetRequest(key=b"key")), ("Get", kv.GetRequest(key=b"key", consistency=QUORUM)),
                    ("Range", kv.RangeRequest()), ("Put", kv.PutRequest(key=b"key", value=b"v")),
                    ("Delete", kv.DeleteRequest(key=b"key")), ("Txn", kv.TxnRequest()))
        for name in (self.leader, "proxy"):
            for method, request in requests:
                for epoch in (1, self.epoch):
                    self.call(name, method, request, baton_epoch=str(epoch))
                status, reason, text = self.refusal(name, method, request, baton_epoch=str(self.epoch + 1))
                self.assertEqual((status, reason), (grpc.StatusCode.FAILED_PRECONDITION, "BAD_EPOCH"))
                self.assertIn(str(self.epoch + 1), text)
        self.put(self.leader, b"kept", b"1")
        self.refusal(self.leader, "Put", kv.PutRequest(key=b"kept", value=b"2"), baton_epoch=str(self.epoch + 1))
        self.assertEqual(self.get(self.leader, b"kept").kv.value, b"1")
        self.other_services_that_are_told_a_higher_epoch()
        self.assertEqual(self.baton.wait_leader(), (self.leader, self.epoch))

    def other_services_that_are_told_a_higher_epoch(self):
        higher = (("baton-epoch", str(self.epoch + 1)),)
        for name, service, method, request in (
                ("proxy", "ClusterMember", "TransferLeadership", member.TransferLeadershipRequest()),
                (self.leader, "ClusterMember", "RemoveMember", member.RemoveMemberRequest(id=self.followers()[0])),
                (self.leader, "ClusterMember", "Report", member.ReportRequest(member_id=self.leader)),
                (self.leader, "Maintenance", "RaiseEpoch", maintenance.RaiseEpochRequest(above=self.epoch + 5)),
                ("proxy", "Maintenance", "Export", maintenance.ExportRequest())):
            call = getattr(self.stub(name, service), method)
            with self.subTest(method), self.assertRaises(grpc.RpcError) as caught:
                answer = call(request, timeout=TIMEOUT_S, metadata=higher)
                list(answer)  # of a stream
            trailers = metadata(caught.exception.trailing_metadata())
            self.assertEqual((caught.exception.code(), trailers["baton-reason"], trailers["baton-epoch"]),
                             (grpc.StatusCode.FAILED_PRECONDITION, "BAD_EPOCH", str(self.epoch)))

    def test_quorum_reads_of_a_leader_that_was_stopped(self):
        """Reads that were on their way to it when it was stopped see what its successor has written, or fail."""
        self.set_up(ttl=4)
        self.put(self.leader, b"key", b"old")
        old, old_epoch = self.leader, self.epoch
        self.baton.process(old).pause()
        calls = [self.stub(old).Get.future(kv.GetRequest(key=b"key", consistency=QUORUM), timeout=60) for _ in range(20)]
        calls += [self.stub(old).Put.future(kv.PutRequest(key=b"other", value=b"x"), timeout=60,
                                            metadata=(("baton-epoch", str(old_epoch + 1)),))]
        try:
            self.leader, self.epoch = self.baton.wait_leader(above_epoch=old_epoch)
            self.put(self.leader, b"key", b"new")
        finally:
            self.baton.resume(old)
        for call in calls:
            error = call.exception()
            if error is None:
                self.assertEqual(call.result().kv.value, b"new")
            else:
                trailers = metadata(error.trailing_metadata())
                self.assertEqual(error.code(), grpc.StatusCode.UNAVAILABLE)
                self.assertEqual(trailers.get("baton-not-executed"), "1", trailers)
        self.assertFalse(self.get(self.leader, b"other").found)
        wait_until("the old leader follows", lambda: self.get(old, b"key", consistency=STALE).kv.value == b"new")

    def test_quorum_as_the_default(self):
        """Every read asks etcd, also those that ask for nothing; writes go on beside them."""
        self.set_up(members=2, member_args=["--default-consistency=quorum"])
        self.put(self.leader, b"key", b"0")
        end = threading.Event()
        faults = []

        def read():
            while not end.is_set():
                try:
                    self.get(self.leader, b"key")
                except grpc.RpcError as error:
                    faults.append(error)
        readers = [threading.Thread(target=read) for _ in range(4)]
        for reader in readers:
            reader.start()
        probes = self.baton.metric(self.leader, "baton_meta_commits_total")
        for number in range(200):
            self.put(self.leader, b"key", b"%d" % number)
            self.assertEqual(self.get(self.leader, b"key").kv.value, b"%d" % number)
        end.set()
        for reader in readers:
            reader.join()
        self.assertEqual(faults, [])
        self.assertGreater(self.baton.metric(self.leader, "baton_meta_commits_total") - probes, 400)
        # with etcd stopped nothing confirms it, so nothing is answered
        for etcd in self.baton.parts.names("etcd"):
            self.baton.process(etcd).pause()
        began = time.monotonic()
        try:
            status, _, text = self.refused_get(self.leader, b"key", 1)
        finally:
            for etcd in self.baton.parts.names("etcd"):
                self.baton.process(etcd).signal(18)
        self.assertIn(status, (grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAVAILABLE))
        self.assertLess(time.monotonic() - began, TIMEOUT_S, text)


if __name__ == "__main__":
    unittest.main()
