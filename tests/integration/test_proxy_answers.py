"""Answers that the proxy passes on, and what a client gets when one breaks off."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
import grpc
from h2_backend import GRPC, OK, answer, echo, in_turn, kill, reset, silent, trailers_only
from h2_peer import (CANCEL, ENHANCE_YOUR_CALM, INTERNAL_ERROR, NO_ERROR, PROTOCOL_ERROR,
                     REFUSED_STREAM)
from h2_stream import frame
from proxy_harness import GET, STREAM, UNARY, ProxyTest, main


class PassedTest(ProxyTest):
    def test_every_status_as_it_is(self):
        cluster, _, client = self.pair()
        for status in range(1, 17):
            cluster.on(UNARY, trailers_only(status, ("grpc-message", f"m%25{status}"),
                                            ("grpc-status-details-bin", "AAEC")))
            self.assert_status(client.unary(UNARY), status, grpc_message=f"m%25{status}",
                               grpc_status_details_bin="AAEC")
            cluster.on(UNARY, answer(status=status, trailers=[("x-t", "1")]))
            self.assert_status(client.unary(UNARY), status, x_t="1")
        self.assertEqual(cluster.count(UNARY), 32)

    def test_reset_before_headers(self):
        cluster, _, client = self.pair()
        for code in (PROTOCOL_ERROR, INTERNAL_ERROR, CANCEL, ENHANCE_YOUR_CALM, 13):
            cluster.on(GET, reset(code))
            call = client.unary(GET)
            self.assertEqual(call.reset, code, call.describe())
        self.assertEqual(cluster.count(GET), 5, "never sent again")

    def test_reset_after_headers(self):
        cluster, _, client = self.pair()
        for code in (INTERNAL_ERROR, CANCEL, ENHANCE_YOUR_CALM):
            cluster.on(GET, reset(code, after_headers=True))
            call = client.unary(GET)
            self.assertEqual(call.reset, code, call.describe())
            self.assertEqual(call.http_status, "200")

    def test_refused_stream_after_headers_is_no_refusal(self):
        """Passed on as it is, a client would send the call again by itself: it must not."""
        cluster, _, client = self.pair()
        cluster.on(UNARY, reset(REFUSED_STREAM, after_headers=True))
        call = client.unary(UNARY)
        self.assertNotEqual(call.reset, REFUSED_STREAM, call.describe())
        self.assertNotEqual(call.grpc_status, 0, call.describe())
        self.assertEqual(cluster.count(UNARY), 1)

    def test_no_error_reset_after_trailers_is_a_normal_end(self):
        cluster, _, client = self.pair()

        async def early(call):
            await call.until(lambda: call.messages)  # the reset must not meet the client still sending
            call.send_headers(GRPC)
            await call.send_message(b"enough")
            call.send_headers(OK, end=True)
            call.send_rst(NO_ERROR)
        cluster.on(STREAM, early)
        call = client.open(STREAM)
        client.send_message(call, b"and there is more")
        self.lab.wait(lambda: call.trailers is not None, "trailers come")
        self.assert_ok(call, b"enough")

    def test_early_answer_without_reset(self):
        """The answer is complete while the client still sends: it arrives, the rest is dropped."""
        cluster, _, client = self.pair()
        cluster.on(STREAM, trailers_only(3, ("x-early", "yes")))
        call = client.open(STREAM)
        client.send_later(call, bytes(4 << 20), end=True)
        self.lab.wait(lambda: call.trailers is not None, "the early answer comes")
        self.assert_status(call, 3, x_early="yes")
        self.assert_ok(client.unary(UNARY))

    def test_headers_are_not_held_back_for_a_message(self):
        cluster, _, client = self.pair()

        async def headers_only(call):
            call.send_headers(GRPC + [("x-first", "1")])
        cluster.on(STREAM, headers_only)
        call = client.wait_headers(client.open(STREAM))
        self.assertEqual(call.header("x-first"), "1")
        self.assertFalse(call.done)

    def test_informational_answers_are_swallowed(self):
        cluster, _, client = self.pair()

        async def hints(call):
            call.send_headers([(":status", "103"), ("link", "</x>")])
            call.send_headers([(":status", "100")])
            await echo(call)
        cluster.on(UNARY, hints)
        call = client.unary(UNARY)
        self.assert_ok(call, b"hello")
        self.assertEqual(call.informational, [])

    def test_answers_that_are_no_grpc(self):
        cluster, _, client = self.pair()

        async def html(call):
            call.send_headers([(":status", "503"), ("content-type", "text/html"), ("server", "nginx")])
            await call.send_data(b"<html>busy</html>", end=True)

        async def empty(call):
            call.send_headers([(":status", "502")], end=True)
        cluster.on(UNARY, in_turn(html, empty))
        call = client.unary(UNARY)
        self.assertEqual((call.http_status, call.header("content-type"), bytes(call.body)),
                         ("503", "text/html", b"<html>busy</html>"))
        self.assertTrue(call.ended)
        self.assertEqual(client.unary(UNARY).http_status, "502")
        self.assertEqual(cluster.count(UNARY), 2)

    def test_no_grpc_200_without_trailers(self):
        cluster, _, client = self.pair()

        async def text(call):
            call.send_headers([(":status", "200"), ("content-type", "text/plain")])
            await call.send_data(b"hi", end=True)
        cluster.on(UNARY, text)
        call = client.unary(UNARY)
        self.assertEqual((call.http_status, bytes(call.body), call.ended), ("200", b"hi", True))

    def test_stock_client_sees_status_and_details(self):
        cluster = self.cluster()
        cluster.on(UNARY, trailers_only(9, ("grpc-message", "not%20yet"), ("baton-reason", "STALE_EPOCH")))
        with self.assertRaises(grpc.RpcError) as caught:
            self.channel(self.proxy(cluster)).unary_unary(UNARY)(b"", timeout=60)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.FAILED_PRECONDITION)
        self.assertEqual(caught.exception.details(), "not yet")
        self.assertIn(("baton-reason", "STALE_EPOCH"), caught.exception.trailing_metadata())


class BrokenOffTest(ProxyTest):
    """Lost after the response headers went to the client."""

    def test_after_headers(self):
        cluster, _, client = self.pair()
        cluster.on(UNARY, kill(after_headers=True))
        call = client.unary(UNARY)
        self.assert_unknown(call)
        self.assertFalse(call.trailers_only)
        self.assertEqual(cluster.count(UNARY), 1, "never sent again")

    def test_after_a_message(self):
        cluster, _, client = self.pair()
        cluster.on(STREAM, kill(after_headers=True, body=frame(b"one")))
        call = client.unary(STREAM)
        self.assertEqual(call.messages, [b"one"])
        self.assert_status(call, 14)

    def test_within_a_message(self):
        cluster, _, client = self.pair()
        cluster.on(STREAM, kill(after_headers=True, body=frame(b"one") + frame(b"two")[:-2]))
        call = client.unary(STREAM)
        self.assertEqual(call.messages, [b"one"])
        self.assertTrue(call.reset is not None or call.grpc_status == 14, call.describe())

    def test_stock_client_gets_no_truncated_stream(self):
        cluster = self.cluster()
        proxy = self.proxy(cluster)
        cluster.on(STREAM, kill(after_headers=True, body=frame(b"one") + frame(b"two")))
        call = self.channel(proxy).unary_stream(STREAM)(b"", timeout=60)
        got = []
        with self.assertRaises(grpc.RpcError) as caught:
            for message in call:
                got.append(message)
        self.assertEqual(got, [b"one", b"two"])
        self.assertEqual(caught.exception.code(), grpc.StatusCode.UNAVAILABLE)

    def test_end_of_stream_without_trailers(self):
        """A gRPC answer that ends with DATA: passed on, it is no status at all, never OK."""
        cluster, _, client = self.pair()

        async def no_trailers(call):
            call.send_headers(GRPC)
            await call.send_data(frame(b"one"), end=True)
        cluster.on(UNARY, no_trailers)
        self.assertNotEqual(client.unary(UNARY).grpc_status, 0)

    def test_frozen_after_headers(self):
        cluster, _, client = self.pair("--upstream-ping", "1s")

        async def headers_only(call):
            call.send_headers(GRPC)
        cluster.on(STREAM, headers_only)
        call = client.wait_headers(client.start(STREAM))
        cluster[0].freeze()
        self.assert_status(client.finish(call), 14)

    def test_other_calls_of_the_client_go_on(self):
        """The loss of the upstream connection ends its calls, not the client's connection."""
        cluster, _, client = self.pair()
        cluster.on(STREAM, silent)
        streams = [client.start(STREAM) for _ in range(5)]
        cluster[0].wait_calls(STREAM, 5)
        cluster[0].kill_connections()
        for call in streams:
            self.assert_unknown(client.finish(call))
        self.assert_ok(client.unary(UNARY))
        self.assertFalse(client.closed)


if __name__ == "__main__":
    main()
