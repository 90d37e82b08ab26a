"""Calls without a leader wait in the parking lot; deadlines, patience and cancellation end the wait."""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
import grpc
from h2.settings import SettingCodes
from h2_backend import GRPC, Gate, answer, echo, in_turn, not_executed, silent
from h2_client import request
from h2_peer import CANCEL
from proxy_harness import GET, PARKED, PUT, STREAM, UNARY, ProxyTest, main, run_proxy


class ParkingTest(ProxyTest):
    def lot(self, *args, count=1):
        """Members without a leader, a proxy, a raw client."""
        return self.pair(*args, count=count, leader=None)

    def test_parked_until_a_leader_appears(self):
        cluster, proxy, client = self.lot(count=3)
        calls = [client.start(path) for path in (UNARY, GET, PUT)]
        proxy.wait_metric(PARKED, 3)
        self.assertEqual(cluster.count(UNARY), 0)
        cluster.lead(1)
        for call in calls:
            self.assert_ok(client.finish(call), b"hello")
        self.assertEqual(cluster[1].count(UNARY), 1)
        proxy.lab.wait(lambda: proxy.metric(PARKED) == 0, "the lot is empty")

    def test_parked_with_no_member_at_all(self):
        cluster = self.cluster(2, leader=None, listening=False)
        proxy = self.proxy(cluster, ready=False)
        client = self.client(proxy)
        call = client.start(UNARY)
        proxy.wait_metric(PARKED, 1)
        cluster.lead(1)
        cluster[1].listen()
        self.assert_ok(client.finish(call))

    def test_parked_when_the_leader_ends(self):
        """(N, none) from the leader of N ends N."""
        cluster, proxy, client = self.pair(count=3)
        self.assert_ok(client.unary(UNARY))
        cluster.no_leader()
        self.lab.wait(lambda: proxy.get("/readyz?leader")[0] != 200, "the end of the leadership is known")
        call = client.start(UNARY)
        proxy.wait_metric(PARKED, 1)
        cluster.lead(2)
        self.assert_ok(client.finish(call))
        self.assertEqual(cluster[2].count(UNARY), 1)

    def test_parked_when_the_leader_dies(self):
        cluster, proxy, client = self.pair(count=3)
        self.assert_ok(client.unary(UNARY))
        cluster[0].refuse()
        call = client.start(UNARY)
        proxy.wait_metric(PARKED, 1)
        cluster.lead(1)
        self.assert_ok(client.finish(call))

    def test_stock_client_waits_too(self):
        cluster = self.cluster(leader=None)
        proxy = self.proxy(cluster, ready=False)
        call = self.channel(proxy).unary_unary(UNARY).future(b"x", timeout=60)
        proxy.wait_metric(PARKED, 1)
        cluster.lead(0)
        self.assertEqual(call.result(timeout=60), b"x")

    def test_park_timeout(self):
        cluster, _, client = self.lot("--park-timeout", "1s")
        begin = time.monotonic()
        call = client.unary(UNARY)
        self.assert_not_executed(call)
        self.assertGreaterEqual(time.monotonic() - begin, 0.95)
        self.assertTrue(call.trailers_only)
        self.assertIsNotNone(call.trailer("baton-reason"))
        cluster.lead(0)
        self.assert_ok(client.unary(UNARY))
        self.assertEqual(cluster.count(UNARY), 1)

    def test_lot_full(self):
        cluster, proxy, client = self.lot("--park-calls", "3")
        parked = [client.start(UNARY) for _ in range(3)]
        proxy.wait_metric(PARKED, 3)
        for _ in range(3):
            refused = client.unary(UNARY)
            self.assert_not_executed(refused)
            self.assert_status(refused, 14, grpc_retry_pushback_ms=any)
        client.cancel(parked.pop())
        self.lab.wait(lambda: proxy.metric(PARKED) == 2, "a place is free")
        parked.append(client.start(UNARY))
        proxy.wait_metric(PARKED, 3)
        cluster.lead(0)
        for call in parked:
            self.assert_ok(client.finish(call))

    def test_lot_bytes_are_checked_at_start(self):
        """park-calls x window must fit in park-bytes."""
        code, _, errors = run_proxy("--listen", "127.0.0.1:0", "--members", "127.0.0.1:1",
                                    "--park-calls", "1000000", "--park-bytes", "1MiB")
        self.assertEqual(code, 2, errors)
        self.assertIn("park", errors)

    def test_parked_uploads_get_no_more_credit_than_the_buffer(self):
        """While parked, a client cannot push more than the replay buffer; afterwards all arrives."""
        cluster, proxy, client = self.lot()
        call = client.open(UNARY)
        body = os.urandom(6 << 20)
        sending = client.send_later(call, body, end=True)
        proxy.wait_metric(PARKED, 1)
        for _ in range(5):
            client.ping()
        self.assertFalse(sending.done(), "six MiB do not fit into the buffer of a parked call")
        cluster.lead(0)
        client.finish(call)
        self.assert_ok(call)
        self.assertEqual(bytes(call.body), body)

    def test_parked_uploads_stay_within_park_bytes(self):
        """Two hundred parked uploads of 64 KiB: the clients can push no more than --park-bytes of them."""
        cluster, proxy, client = self.lot("--park-calls", "250", "--park-bytes", "2MiB")
        cluster.on(UNARY, answer(b"got it"))
        before = proxy.rss()
        calls = [client.open(UNARY) for _ in range(200)]
        for call in calls:
            client.send_later(call, bytes(1 << 16), end=True)
        proxy.wait_metric(PARKED, 200)
        for _ in range(5):
            client.ping()
        self.assertLessEqual(sum(call.sent_bytes for call in calls), 2 << 20)
        self.assert_memory(proxy, before, 16 << 20)
        cluster.lead(0)
        for call in calls:
            self.assert_ok(client.finish(call), b"got it")
        self.assertEqual(cluster.count(UNARY), 200)

    def test_initial_window_is_small(self):
        _, _, client = self.lot()
        client.ping()
        window = client.peer.remote_settings.get(int(SettingCodes.INITIAL_WINDOW_SIZE), 65535)
        self.assertLessEqual(window, 65535)

    def test_cancelled_while_parked(self):
        cluster, proxy, client = self.lot()
        first, second = client.start(UNARY, message=b"1"), client.start(UNARY, message=b"2")
        proxy.wait_metric(PARKED, 2)
        client.cancel(first)
        self.lab.wait(lambda: proxy.metric(PARKED) == 1, "the cancelled call left the lot")
        cluster.lead(0)
        self.assert_ok(client.finish(second), b"2")
        self.assertEqual(cluster.count(UNARY), 1, "a cancelled parked call is never sent")

    def test_client_connection_lost_while_parked(self):
        cluster, proxy, client = self.lot()
        for _ in range(10):
            client.start(UNARY)
        proxy.wait_metric(PARKED, 10)
        client.close(hard=True)
        self.lab.wait(lambda: proxy.metric(PARKED) == 0, "its calls left the lot")
        cluster.lead(0)
        self.assert_ok(self.client(proxy).unary(UNARY))
        self.assertEqual(cluster.count(UNARY), 1)


class RampTest(ProxyTest):
    def test_in_order_and_not_all_at_once(self):
        cluster, proxy, client = self.pair("--park-calls", "1000", leader=None)
        gate = Gate(self.lab)
        cluster.on(UNARY, gate)
        calls = [client.start(UNARY, message=b"%d" % i) for i in range(300)]
        proxy.wait_metric(PARKED, 300)
        cluster.lead(0)
        seen = cluster[0].wait_calls(UNARY)
        for _ in range(10):
            client.ping()
        self.assertLess(cluster.count(UNARY), 300, "a new leader is met with a ramp")
        gate.open()
        for i, call in enumerate(calls):
            self.assert_ok(client.finish(call), b"%d" % i)
        self.assertEqual(cluster.count(UNARY), 300, "each was sent once")
        order = [int(call.messages[0]) for call in seen if call.messages]
        self.assertEqual(order, sorted(order))

    def test_calls_that_never_answer_do_not_block_the_others_for_ever(self):
        """The first of the parked calls are streams without an answer yet; later calls pass."""
        cluster, proxy, client = self.pair(leader=None)
        cluster.on(STREAM, silent)
        streams = [client.open(STREAM) for _ in range(100)]
        proxy.wait_metric(PARKED, 100)
        call = client.start(UNARY)
        proxy.wait_metric(PARKED, 101)
        cluster.lead(0)
        self.assert_ok(client.finish(call))
        self.assertFalse(any(stream.done for stream in streams))


class DeadlineTest(ProxyTest):
    def test_while_parked(self):
        _, proxy, client = self.pair(leader=None)
        call = client.unary(UNARY, grpc_timeout="300m")
        self.assert_not_executed(call, 4)
        self.lab.wait(lambda: proxy.metric(PARKED) == 0, "it left the lot")

    def test_after_sending(self):
        cluster, _, client = self.pair()
        cluster.on(UNARY, silent)
        self.assert_unknown(client.unary(UNARY, grpc_timeout="2S"), 4)
        call, = cluster.calls_of(UNARY)
        self.lab.wait(lambda: call.reset is not None, "the upstream call is reset")
        self.assertEqual(call.reset, CANCEL)

    def test_after_response_headers(self):
        cluster, _, client = self.pair()

        async def headers_only(call):
            call.send_headers(GRPC)
            await call.send_message(b"part")
        cluster.on(STREAM, headers_only)
        call = client.unary(STREAM, grpc_timeout="2S")
        self.assertEqual(call.messages, [b"part"])
        self.assert_status(call, 4)
        upstream, = cluster.calls_of(STREAM)
        self.lab.wait(lambda: upstream.reset is not None, "the upstream call is reset")

    def test_streams_without_deadline_outlive_the_park_timeout(self):
        cluster, _, client = self.pair("--park-timeout", "1s")
        cluster.on(STREAM, silent)
        call = client.open(STREAM)
        self.assert_not_executed(self._patience_of_another(client, cluster))
        self.assertFalse(call.done)

    def _patience_of_another(self, client, cluster):
        """A refused call that ends with the park timeout: proof that it has passed."""
        cluster.on(UNARY, not_executed())
        return client.unary(UNARY)

    def test_backend_that_answers_just_in_time(self):
        cluster, _, client = self.pair()
        gate = Gate(self.lab)
        cluster.on(UNARY, gate)
        call = client.start(UNARY, grpc_timeout="60S")
        cluster[0].wait_calls(UNARY)
        gate.open()
        self.assert_ok(client.finish(call))

    def test_stock_client(self):
        cluster = self.cluster()
        cluster.on(UNARY, silent)
        with self.assertRaises(grpc.RpcError) as caught:
            self.channel(self.proxy(cluster)).unary_unary(UNARY)(b"", timeout=2)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.DEADLINE_EXCEEDED)
        call, = cluster.calls_of(UNARY)
        self.lab.wait(lambda: call.reset is not None, "the upstream call is reset")


class CancelTest(ProxyTest):
    def test_client_cancels_a_sent_call(self):
        cluster, _, client = self.pair()
        cluster.on(UNARY, silent)
        for i, code in enumerate((CANCEL, 0, 2)):
            call = client.start(UNARY)
            upstream = cluster[0].wait_calls(UNARY, i + 1)[i]
            client.cancel(call, code)
            self.lab.wait(lambda: upstream.reset is not None, "the upstream call is reset")
            self.assertEqual(upstream.reset, CANCEL)

    def test_cancelled_in_the_flight_it_came_with(self):
        """HEADERS and RST_STREAM in one packet, several times: nothing of it is left behind."""
        _, _, client = self.pair("--upstream-connections", "1")
        self.assert_ok(client.unary(UNARY))

        def open_and_cancel():
            stream_id = client.peer.h2.get_next_available_stream_id()
            client.peer.h2.send_headers(stream_id, request(UNARY))
            client.peer.h2.reset_stream(stream_id, CANCEL)
            client.peer.flush()
        for _ in range(5):
            self.lab.call(open_and_cancel)
            client.ping()
        self.assert_ok(client.unary(UNARY))

    def test_client_cancels_a_stream(self):
        cluster, _, client = self.pair()

        async def endless(call):
            call.send_headers(GRPC)
            while True:
                await call.send_message(bytes(1000))
        cluster.on(STREAM, endless)
        call = client.start(STREAM)
        self.lab.wait(lambda: call.received > 100_000, "messages flow")
        client.cancel(call)
        upstream, = cluster.calls_of(STREAM)
        self.lab.wait(lambda: upstream.reset == CANCEL, "the upstream stream is cancelled")

    def test_client_disappears(self):
        for hard in (True, False):
            cluster, _, client = self.pair()
            cluster.on(UNARY, silent)
            for _ in range(5):
                client.start(UNARY)
            upstream = cluster[0].wait_calls(UNARY, 5)
            client.close(hard=hard)
            self.lab.wait(lambda: all(call.reset == CANCEL for call in upstream), "all are cancelled")

    def test_cancel_between_attempts(self):
        cluster, _, client = self.pair()
        cluster.on(UNARY, in_turn(not_executed(("grpc-retry-pushback-ms", "500")), echo))
        call = client.start(UNARY)
        cluster[0].wait_calls(UNARY)
        client.cancel(call)
        client.ping()
        self.assert_ok(client.unary(UNARY, message=b"next"), b"next")
        other = cluster.calls_of(UNARY)[1:]
        self.assertEqual([call.messages for call in other], [[b"next"]])

    def test_stock_client_cancels(self):
        cluster = self.cluster()
        cluster.on(UNARY, silent)
        future = self.channel(self.proxy(cluster)).unary_unary(UNARY).future(b"")
        upstream, = cluster[0].wait_calls(UNARY)
        future.cancel()
        self.lab.wait(lambda: upstream.reset == CANCEL, "the upstream call is cancelled")


if __name__ == "__main__":
    main()
