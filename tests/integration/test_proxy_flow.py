"""Bytes through the proxy: large messages, slow readers, windows, and bounded memory."""
import hashlib
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from h2.settings import SettingCodes
from h2_backend import GRPC, OK, echo, echo_stream, silent, source, trailers_only
from h2_peer import CANCEL
from h2_stream import frame
from proxy_harness import GET, STREAM, UNARY, ProxyTest, main

MIB = 1 << 20


async def sink(call):
    """Takes everything and answers the size and the hash of it."""
    digest = hashlib.sha256()
    call.keep_body = True
    while not (call.ended and not call.body):
        await call.until(lambda: call.body or call.ended)
        digest.update(call.body)
        call.body.clear()
    call.send_headers(GRPC)
    await call.send_message(b"%d %s" % (call.received, digest.hexdigest().encode()))
    call.send_headers(OK, end=True)


class LargeMessagesTest(ProxyTest):
    def test_10_mib_both_ways_with_a_stock_client(self):
        body = os.urandom(10 * MIB)
        cluster = self.cluster()
        call = self.channel(self.proxy(cluster)).unary_unary(UNARY)
        self.assertEqual(hashlib.sha256(call(body, timeout=60)).digest(), hashlib.sha256(body).digest())

    def test_64_mib_to_the_backend(self):
        body = frame(bytes(64 * MIB))
        cluster, proxy, client = self.pair()
        cluster.on(UNARY, sink)
        before = proxy.rss()
        call = client.open(UNARY)
        client.send(call, body, end=True)
        self.assert_ok(client.finish(call), b"%d %s" % (len(body), hashlib.sha256(body).hexdigest().encode()))
        self.assert_memory(proxy, before, 24 * MIB)

    def test_64_mib_from_the_backend(self):
        cluster, proxy, client = self.pair()
        cluster.on(UNARY, source(64 * MIB))
        before = proxy.rss()
        call = client.unary(UNARY)
        self.assert_ok(call)
        self.assertEqual(call.received, 64 * MIB + 5)
        self.assertEqual(call.body.count(0), call.received - 1, "all bytes are as they were sent")
        self.assert_memory(proxy, before, 24 * MIB)

    def test_many_messages_both_ways_at_once(self):
        cluster = self.cluster()
        cluster.on(STREAM, echo_stream)
        call = self.channel(self.proxy(cluster)).stream_stream(STREAM)
        sent = [bytes([i % 256]) * (i * 37 % 5000) for i in range(500)]
        self.assertEqual(list(call(iter(sent), timeout=60)), sent)

    def test_conversation(self):
        """Each message waits for the answer to the one before: nothing is held back."""
        cluster, _, client = self.pair()
        cluster.on(STREAM, echo_stream)
        call = client.open(STREAM)
        for i in range(50):
            client.send_message(call, b"%d" % i)
            self.lab.wait(lambda: len(call.messages) == i + 1, f"answer {i}")
        client.half_close(call)
        self.assert_ok(client.finish(call))

    def test_half_closed_client_is_still_answered(self):
        cluster, _, client = self.pair()

        async def after_end(call):
            call.send_headers(GRPC)
            await call.until_request_ended()
            for i in range(3):
                await call.send_message(b"%d" % i)
            call.send_headers(OK, end=True)
        cluster.on(STREAM, after_end)
        call = client.wait_headers(client.open(STREAM))
        client.half_close(call)
        self.assert_ok(client.finish(call))
        self.assertEqual(call.messages, [b"0", b"1", b"2"])

    def test_empty_bodies(self):
        cluster, _, client = self.pair()

        async def nothing(call):
            await call.until_request_ended()
            call.send_headers(GRPC)
            await call.send_data(b"")
            call.send_headers(OK, end=True)
        cluster.on(UNARY, nothing)
        for call in (client.open(UNARY, end=True), client.open(UNARY)):
            if not call.sent_end:
                client.half_close(call)
            self.assert_ok(client.finish(call))
            self.assertEqual(call.received, 0)
        self.assertEqual([call.received for call in cluster.calls_of(UNARY)], [0, 0])

    def test_messages_cut_anywhere(self):
        cluster, _, client = self.pair()
        body = frame(b"abc") + frame(b"", compressed=True) + frame(b"defg")
        call = client.open(UNARY)
        for i in range(len(body)):
            client.send(call, body[i:i + 1], end=i == len(body) - 1)
        self.assert_ok(client.finish(call))
        self.assertEqual(bytes(call.body), body)


class SlowReaderTest(ProxyTest):
    def test_slow_client_stream_stops_no_other(self):
        """Many streams of one connection that do not read, and calls between them."""
        cluster, _, client = self.pair()
        cluster.on(STREAM, source(8 * MIB))
        slow = [client.start(STREAM, hold=True) for _ in range(20)]
        self.lab.wait(lambda: all(call.received for call in slow), "all streams got something")
        for _ in range(5):
            self.assert_ok(client.unary(UNARY, message=bytes(200_000)), bytes(200_000))
        client.release(slow[0])
        self.assert_ok(client.finish(slow[0]))
        self.assertEqual(slow[0].received, 8 * MIB + 5)
        self.assert_ok(client.unary(UNARY))

    def test_slow_backend_stream_stops_no_other(self):
        cluster, proxy, client = self.pair()

        async def hold(call):
            call.hold = True
            call.send_headers(GRPC)
        cluster.on(STREAM, hold)
        slow = [client.wait_headers(client.open(STREAM)) for _ in range(20)]
        for call in slow:
            client.send_later(call, bytes(4 * MIB))
        held = cluster[0].wait_calls(STREAM, 20)
        self.lab.wait(lambda: all(call.held for call in held), "all streams hold something back")
        for _ in range(5):
            self.assert_ok(client.unary(UNARY, message=bytes(200_000)), bytes(200_000))
        other = self.client(proxy)
        self.assert_ok(other.unary(UNARY, message=bytes(200_000)))
        self.lab.call(held[0].release)
        self.lab.wait(lambda: held[0].received == 4 * MIB, "the released stream gets the rest")

    def test_client_that_never_reads_its_streams(self):
        """64 streams of 16 MiB: what waits in the proxy is a window each, not the answers."""
        cluster = self.cluster()
        proxy = self.proxy(cluster)
        client = self.client(proxy, {SettingCodes.INITIAL_WINDOW_SIZE: 65535})
        cluster.on(STREAM, source(16 * MIB))
        before = proxy.rss()
        calls = [client.start(STREAM, hold=True) for _ in range(64)]
        self.lab.wait(lambda: all(call.received for call in calls), "all streams got something")
        self.quiet(lambda: sum(call.sent_bytes for call in cluster.calls_of(STREAM)))
        self.assert_memory(proxy, before, 48 * MIB)
        self.assert_ok(self.client(proxy).unary(UNARY))
        for call in calls:
            client.cancel(call)
        self.assert_ok(client.unary(UNARY))

    def test_client_that_never_reads_its_socket(self):
        cluster, proxy, client = self.pair()
        cluster.on(STREAM, source(16 * MIB))
        before = proxy.rss()
        for _ in range(32):
            client.start(STREAM)
        cluster[0].wait_calls(STREAM, 32)
        self.lab.call(client.peer.freeze)
        other = self.client(proxy)
        for _ in range(5):
            self.assert_ok(other.unary(UNARY, message=bytes(200_000)))
        self.assert_memory(proxy, before, 96 * MIB)
        self.lab.call(client.peer.thaw)

    def test_backend_that_never_reads(self):
        """Uploads to a backend that grants nothing: the clients are throttled, the memory bounded."""
        cluster, proxy, client = self.pair(settings={SettingCodes.INITIAL_WINDOW_SIZE: 0})
        cluster.on(STREAM, silent)
        before = proxy.rss()
        calls = [client.open(STREAM) for _ in range(32)]
        for call in calls:
            client.send_later(call, bytes(8 * MIB))
        cluster[0].wait_calls(STREAM, 32)
        self.quiet(lambda: client.peer.h2.outbound_flow_control_window)
        self.assert_memory(proxy, before, 96 * MIB)
        self.assertEqual([call.received for call in cluster.calls_of(STREAM)], [0] * 32)

    def test_relay_bytes_bound_all_streams_together(self):
        cluster = self.cluster()
        proxy = self.proxy(cluster, "--relay-bytes", "16MiB", "--stream-window", "1MiB")
        client = self.client(proxy, {SettingCodes.INITIAL_WINDOW_SIZE: 65535})
        cluster.on(STREAM, source(4 * MIB))
        before = proxy.rss()
        calls = [client.start(STREAM, hold=True) for _ in range(100)]
        cluster[0].wait_calls(STREAM, 1)
        self.quiet(lambda: sum(call.sent_bytes for call in cluster.calls_of(STREAM)))
        self.assert_memory(proxy, before, 48 * MIB)
        for call in calls[4:]:
            client.cancel(call)
        for call in calls[:4]:
            client.release(call)
            self.assert_ok(client.finish(call))
            self.assertEqual(call.received, 4 * MIB + 5)
        self.assert_ok(client.unary(UNARY))

    def quiet(self, measure):
        """Until a measure did not move during 20 round trips through the proxy."""
        proxy = self.proxies[0]
        last, same = measure(), 0

        def stands_still():
            nonlocal last, same
            proxy.get("/healthz")
            now = measure()
            same = same + 1 if now == last else 0
            last = now
            return same >= 20
        self.lab.wait(stands_still, "the flow stands still")


class WindowTest(ProxyTest):
    def test_client_with_a_window_of_one_byte(self):
        cluster = self.cluster()
        client = self.client(self.proxy(cluster), {SettingCodes.INITIAL_WINDOW_SIZE: 1})
        call = client.unary(UNARY, message=b"one byte at a time")
        self.assert_ok(call, b"one byte at a time")

    def test_client_with_no_window_gets_headers(self):
        cluster = self.cluster()
        client = self.client(self.proxy(cluster), {SettingCodes.INITIAL_WINDOW_SIZE: 0})
        call = client.start(UNARY)
        client.wait_headers(call)
        self.assertFalse(call.done)
        self.lab.call(client.peer.change_settings, {SettingCodes.INITIAL_WINDOW_SIZE: 100})
        self.assert_ok(client.finish(call), b"hello")

    def test_client_that_shrinks_its_window_below_zero(self):
        cluster, _, client = self.pair()
        cluster.on(STREAM, source(3 * MIB))
        call = client.start(STREAM, hold=True)
        self.lab.wait(lambda: call.received == MIB, "the window is used up")
        self.lab.call(client.peer.change_settings, {SettingCodes.INITIAL_WINDOW_SIZE: 1000})
        client.ping()
        self.assertEqual(call.received, MIB)
        client.release(call)
        self.assert_ok(client.finish(call))

    def test_backend_with_a_window_of_one_byte(self):
        cluster, _, client = self.pair(settings={SettingCodes.INITIAL_WINDOW_SIZE: 1})
        self.assert_ok(client.unary(UNARY, message=b"one byte at a time"), b"one byte at a time")

    def test_backend_with_large_frames(self):
        cluster, _, client = self.pair(settings={SettingCodes.MAX_FRAME_SIZE: 1 << 20})
        body = os.urandom(3 * MIB)
        self.assert_ok(client.unary(UNARY, message=body), body)

    def test_credit_of_uploads_cut_short_is_given_back(self):
        """Early answers leave unread request bytes behind, in all more than half the connection's window:
        an update must have come by then."""
        cluster, _, client = self.pair()
        cluster.on(STREAM, trailers_only(3))
        client.ping()
        room, sent = client.peer.h2.outbound_flow_control_window, 0
        while sent < room * 0.6:
            calls = [client.start(STREAM, message=bytes(60_000)) for _ in range(100)]
            for call in calls:
                self.lab.wait(lambda: call.trailers is not None or call.done, "early answer")
                self.assert_status(call, 3)
            sent += 100 * 60_000
        client.ping()
        self.assertGreater(client.peer.h2.outbound_flow_control_window, room * 0.5)
        self.assert_ok(client.unary(UNARY, message=bytes(MIB)))

    def test_credit_of_cancelled_downloads_is_given_back(self):
        """The same towards the backend: answers that fill a stream's window and are cancelled."""
        cluster = self.cluster()
        client = self.client(self.proxy(cluster), {SettingCodes.INITIAL_WINDOW_SIZE: 0})
        cluster.on(STREAM, source(4 * MIB))
        room, sent = max(self.upstream_windows(cluster)), 0
        while sent < room * 0.6:
            before = cluster.count(STREAM)
            calls = [client.start(STREAM) for _ in range(64)]
            upstream = cluster[0].wait_calls(STREAM, before + 64)[before:]
            self.lab.wait(lambda: all(self.used_up(call) for call in upstream), "windows are used up")
            sent += sum(call.sent_bytes for call in upstream)
            for call in calls:
                client.cancel(call)
            self.lab.wait(lambda: all(call.reset is not None for call in upstream), "all cancelled")
        self.lab.wait(lambda: min(self.upstream_windows(cluster)) > room * 0.5, "credit comes back")
        other = self.client(self.proxies[0])
        self.assert_ok(other.unary(UNARY, message=bytes(3 * MIB)))

    @staticmethod
    def upstream_windows(cluster):
        return [peer.h2.outbound_flow_control_window for peer in cluster[0].live_peers()]

    @staticmethod
    def used_up(call):
        return call.peer.h2.local_flow_control_window(call.id) == 0

    def test_stream_window_is_an_option(self):
        _, _, client = self.pair("--stream-window", "128KiB")
        self.assert_ok(client.unary(UNARY))
        window = client.peer.remote_settings.get(int(SettingCodes.INITIAL_WINDOW_SIZE), 65535)
        self.assertLessEqual(window, 128 * 1024)


class PaddingTest(ProxyTest):
    """Padding costs window and is not body: its credit comes back as well."""
    FRAMES = 400  # of 255 bytes of padding: more than a first window of 64 KiB

    async def padded(self, stream, parts, end):
        for i, part in enumerate(parts):
            await stream.until(lambda: stream.peer.h2.local_flow_control_window(stream.id) > 300)
            stream.peer.h2.send_data(stream.id, part, pad_length=255,
                                     end_stream=end and i == len(parts) - 1)
            stream.peer.flush()

    def test_from_the_client(self):
        cluster, _, client = self.pair()
        parts = [b"%d," % i for i in range(self.FRAMES)]
        call = client.open(UNARY)
        self.lab.run(self.padded(call, parts, True))
        self.assert_ok(client.finish(call))
        self.assertEqual(bytes(call.body), b"".join(parts))

    def test_from_the_backend(self):
        cluster, _, client = self.pair()
        parts = [b"%d," % i for i in range(self.FRAMES)]

        async def pads(call):
            call.send_headers(GRPC)
            await self.padded(call, parts, False)
            call.send_headers(OK, end=True)
        cluster.on(UNARY, pads)
        call = client.unary(UNARY)
        self.assert_ok(call)
        self.assertEqual(bytes(call.body), b"".join(parts))


class ConcurrencyTest(ProxyTest):
    """MAX_CONCURRENT_STREAMS of the backend: python3-h2 complains when it is overrun."""

    def test_backend_with_two_streams(self):
        cluster, _, client = self.pair(settings={SettingCodes.MAX_CONCURRENT_STREAMS: 2})
        calls = [client.start(UNARY, message=b"%d" % i) for i in range(50)]
        for i, call in enumerate(calls):
            self.assert_ok(client.finish(call), b"%d" % i)
        self.assertEqual(cluster.count(UNARY), 50)

    def test_backend_that_shrinks(self):
        cluster, _, client = self.pair(settings={SettingCodes.MAX_CONCURRENT_STREAMS: 100})
        calls = [client.start(UNARY, message=b"%d" % i) for i in range(20)]
        cluster[0].each_peer(
            lambda peer: peer.change_settings({SettingCodes.MAX_CONCURRENT_STREAMS: 1}))
        calls += [client.start(UNARY, message=b"%d" % i) for i in range(20, 60)]
        for i, call in enumerate(calls):
            self.assert_ok(client.finish(call), b"%d" % i)

    def test_backend_that_shrinks_to_nothing_and_recovers(self):
        cluster, _, client = self.pair("--upstream-connections", "1")
        cluster[0].settings = {SettingCodes.MAX_CONCURRENT_STREAMS: 0}
        cluster[0].each_peer(
            lambda peer: peer.change_settings({SettingCodes.MAX_CONCURRENT_STREAMS: 0}))
        self.lab.wait(lambda: all(p.settings_acked for p in cluster[0].live_peers()), "acknowledged")
        call = client.start(UNARY)
        client.ping()
        self.assertEqual(cluster.count(UNARY), 0)
        cluster[0].each_peer(
            lambda peer: peer.change_settings({SettingCodes.MAX_CONCURRENT_STREAMS: 10}))
        self.assert_ok(client.finish(call), b"hello")

    def test_more_connections_up_to_the_option(self):
        cluster, _, client = self.pair("--upstream-connections", "3",
                                       settings={SettingCodes.MAX_CONCURRENT_STREAMS: 4})
        cluster.on(GET, silent)
        for _ in range(30):
            client.start(GET)
        self.lab.wait(lambda: len({c.peer for c in cluster.calls_of(GET)}) >= 2,
                      "the calls spread over more than one connection")
        self.assertLessEqual(len({c.peer for c in cluster.calls_of(GET)}), 3)
        self.assertLessEqual(cluster.count(GET), 12)

    def test_watches_leave_room_for_calls(self):
        """A backend with a single stream a connection: the proxy's own watch must not starve it."""
        cluster, _, client = self.pair(settings={SettingCodes.MAX_CONCURRENT_STREAMS: 1})
        self.assert_ok(client.unary(UNARY))

    def test_many_calls_at_once(self):
        cluster, _, client = self.pair()
        calls = [client.start(UNARY, message=b"%d" % i) for i in range(500)]
        for i, call in enumerate(calls):
            self.assert_ok(client.finish(call), b"%d" % i)

    def test_cancel_within_a_transfer(self):
        cluster, _, client = self.pair()
        cluster.on(STREAM, echo_stream).on(UNARY, echo)
        calls = [client.open(STREAM) for _ in range(20)]
        for call in calls:
            client.send_later(call, bytes(MIB))
        cluster[0].wait_calls(STREAM, 20)
        for call in calls:
            client.cancel(call, CANCEL)
        self.lab.wait(lambda: all(c.reset is not None for c in cluster.calls_of(STREAM)),
                      "all cancelled upstream")
        self.assert_ok(client.unary(UNARY))


if __name__ == "__main__":
    main()
