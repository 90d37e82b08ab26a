"""The scripted peers themselves, without a proxy between: what the other tests stand on."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
import grpc
import stubs
from h2_backend import (echo_stream, goaway, in_turn, kill, not_executed, reset, silent, source,
                        trailers_only)
from h2_backend_member import LIST
from h2_peer import ENHANCE_YOUR_CALM, LAST_ID, REFUSED_STREAM
from h2_stream import frame
from proxy_harness import ProxyTest, STREAM, UNARY, main


class FakesTest(ProxyTest):
    def setUp(self):
        super().setUp()
        self.members = self.cluster(1)
        self.member = self.members[0]

    def raw(self, **settings):
        return self.client(self.member.addr, **settings)

    def test_stock_client_gets_its_echo(self):
        call = self.channel(self.member.addr).unary_unary(UNARY)
        self.assertEqual(call(b"hello", timeout=60), b"hello")
        self.assertEqual(call(b"x" * 5_000_000, timeout=60), b"x" * 5_000_000)

    def test_raw_client_sees_headers_and_trailers(self):
        answer = self.raw().unary(UNARY, ("x-a", "1"), ("x-a", "2"))
        self.assert_ok(answer, b"hello")
        call, = self.member.calls_of(UNARY)
        self.assertEqual(call.all("x-a"), ["1", "2"])

    def test_watch_delivers_changes(self):
        grpc_stub = stubs.load("baton.v1.member_pb2_grpc")
        pb = stubs.load("baton.v1.member_pb2")
        stub = grpc_stub.ClusterMemberServiceStub(self.channel(self.member.addr))
        watch = stub.WatchLeader(pb.WatchLeaderRequest(), timeout=60)
        self.assertEqual(next(watch).epoch, 1)
        self.member.says(epoch=7)
        self.assertEqual(next(watch).epoch, 7)
        watch.cancel()
        self.assertEqual(len(stub.ListMembers(pb.ListMembersRequest(), timeout=60).members), 1)
        self.assertEqual(self.member.count(LIST), 1)

    def test_refusals(self):
        self.member.on(UNARY, in_turn(reset(REFUSED_STREAM), trailers_only(14), not_executed(),
                                      reset(ENHANCE_YOUR_CALM, after_headers=True)))
        client = self.raw()
        self.assertEqual(client.unary(UNARY).reset, REFUSED_STREAM)
        self.assert_status(client.unary(UNARY), 14, baton_not_executed=None)
        refused = client.unary(UNARY)
        self.assert_not_executed(refused)
        self.assertTrue(refused.trailers_only)
        broken = client.unary(UNARY)
        self.assertEqual((broken.http_status, broken.reset), ("200", ENHANCE_YOUR_CALM))

    def test_goaway_disowns_or_keeps(self):
        self.member.on(UNARY, in_turn(goaway(LAST_ID), goaway()))
        client = self.raw()
        self.assert_ok(client.unary(UNARY))
        self.assertTrue(client.unary(UNARY).refused)

    def test_connection_dies(self):
        self.member.on(UNARY, kill())
        self.assertTrue(self.raw().unary(UNARY).lost)
        self.member.on(UNARY, kill(after_headers=True, body=frame(b"abc")[:-1]))
        call = self.raw().unary(UNARY)
        self.assertTrue(call.lost and call.headers)
        self.assertEqual(call.received, 7)

    def test_refused_connections(self):
        self.member.refuse()
        with self.assertRaises(ConnectionRefusedError):
            self.raw()
        self.member.listen()
        self.assert_ok(self.raw().unary(UNARY))

    def test_frozen_peer_answers_no_ping(self):
        self.member.on(UNARY, silent)
        client = self.raw()
        call = client.start(UNARY)
        self.member.wait_calls(UNARY)
        self.member.freeze()
        self.lab.call(client.peer.send_ping)
        self.member.each_peer(lambda peer: peer.thaw())
        self.lab.wait(lambda: client.peer.ping_acks == 1, "the thawed peer answers")
        self.assertFalse(call.done)

    def test_held_credit_stops_only_its_stream(self):
        self.member.on(STREAM, source(3 << 20))
        client = self.raw()
        slow = client.start(STREAM, hold=True)
        self.lab.wait(lambda: slow.received == 1 << 20, "the stream's window is used up")
        self.assert_ok(client.unary(UNARY))
        client.release(slow)
        self.assert_ok(client.finish(slow), bytes(3 << 20))

    def test_streaming_echo(self):
        self.member.on(STREAM, echo_stream)
        call = self.channel(self.member.addr).stream_stream(STREAM)
        self.assertEqual(list(call(iter([b"a", b"b", b""]), timeout=60)), [b"a", b"b", b""])

    def test_unavailable_to_stock_client(self):
        self.member.on(UNARY, kill())
        with self.assertRaises(grpc.RpcError) as caught:
            self.channel(self.member.addr).unary_unary(UNARY)(b"", timeout=60)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.UNAVAILABLE)


if __name__ == "__main__":
    main()
