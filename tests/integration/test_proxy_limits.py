"""Clients that are wrong, strange or hostile: a clear answer, bounded memory, and the others served."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from h2.settings import SettingCodes
from hyperframe.frame import (ContinuationFrame, DataFrame, HeadersFrame, PingFrame, PriorityFrame,
                              RstStreamFrame, SettingsFrame, WindowUpdateFrame)
from h2_backend import goaway, silent
from h2_client import request
from h2_peer import CANCEL, ENHANCE_YOUR_CALM, REFUSED_STREAM
from proxy_harness import GET, PARKED, STREAM, UNARY, ProxyTest, main

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
MIB = 1 << 20


def client_hello():
    """The first bytes of a TLS 1.2 handshake, shortened to its record and handshake headers."""
    body = bytes([1, 0, 0, 38, 3, 3]) + bytes(32) + bytes([0, 0, 2, 0x13, 0x01])
    return bytes([22, 3, 1]) + len(body).to_bytes(2, "big") + body


class HostileTest(ProxyTest):
    def setUp(self):
        super().setUp()
        self.members, self.proxy_, self.good = self.pair()

    def still_serving(self):
        self.assertTrue(self.proxy_.alive, self.proxy_.log)
        self.assert_ok(self.good.unary(UNARY), b"hello")
        self.assert_ok(self.client(self.proxy_).unary(UNARY), b"hello")


class NotHttp2Test(HostileTest):
    def talk(self, data):
        plain = self.plain_socket(self.proxy_)
        plain.send(data)
        return plain.read_to_end()

    def test_http_1(self):
        for text in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"POST /test.Svc/Unary HTTP/1.0\r\n\r\n"):
            lines = len(self.proxy_.lines)
            reply = self.talk(text)
            self.assertTrue(reply.startswith(b"HTTP/1."), reply)
            self.assertLess(len(reply), 1000)
            self.lab.wait(lambda: len(self.proxy_.lines) > lines, "it is logged")
            self.assertEqual(len(self.proxy_.lines), lines + 1, self.proxy_.log)
        self.still_serving()

    def test_tls_on_a_plaintext_port(self):
        lines = len(self.proxy_.lines)
        reply = self.talk(client_hello())
        self.assertLess(len(reply), 1000)
        self.lab.wait(lambda: len(self.proxy_.lines) > lines, "it is logged")
        self.assertIn("TLS", self.proxy_.lines[lines])
        self.still_serving()

    def test_garbage(self):
        for data in (b"\0" * 24, b"\xff" * 100, os.urandom(5000), PREFACE[:-1] + b"X" + bytes(50),
                     PREFACE + b"\xff" * 100, PREFACE + os.urandom(5000)):
            self.talk(data)
        self.still_serving()

    def test_preface_in_pieces(self):
        """Slow, not wrong: the first bytes come one by one."""
        plain = self.plain_socket(self.proxy_)
        for i in range(len(PREFACE)):
            plain.send(PREFACE[i:i + 1])
        plain.send(SettingsFrame(0).serialize())
        self.assertEqual(plain.sock.recv(9)[3], 4, "the proxy answers with SETTINGS")

    def test_connections_that_say_nothing(self):
        """Slow headers: after 10 s such a connection is closed; others are not disturbed."""
        idle = [self.plain_socket(self.proxy_) for _ in range(20)]
        half = self.plain_socket(self.proxy_)
        half.send(PREFACE + SettingsFrame(0).serialize())
        frame = HeadersFrame(1, data=b"\x83")
        half.send(frame.serialize())
        self.still_serving()
        for plain in idle + [half]:
            plain.sock.settimeout(60)
            plain.read_to_end()
        self.still_serving()


class FramesTest(HostileTest):
    def flood(self, data, times):
        """A client that repeats bytes until the proxy has had enough."""
        client = self.client(self.proxy_)
        client.ping()
        for _ in range(times):
            if client.closed or client.peer.goaways:
                break
            client.raw(data)
        self.lab.wait(lambda: client.closed or client.peer.goaways, "the proxy has had enough")
        return client

    def test_header_list_too_large(self):
        client = self.client(self.proxy_)
        call = client.finish(client.open(UNARY, *[(f"x-{i}", "v" * 1000) for i in range(60)], end=True))
        self.assertNotEqual(call.grpc_status, 0, call.describe())
        self.assertEqual(self.members.count(UNARY), 0)
        self.still_serving()

    def test_header_bomb(self):
        """A small block that repeats one indexed field of 4 KiB: megabytes once decoded."""
        client = self.client(self.proxy_)
        before = self.proxy_.rss()
        call = client.open_raw(request(UNARY) + [("x-bomb", "v" * 3900)] * 3000, end=True)
        self.lab.wait(lambda: call.done or client.closed, "an end of it")
        self.assertNotEqual(call.grpc_status, 0)
        self.assertEqual(self.members.count(UNARY), 0)
        self.assert_memory(self.proxy_, before, 32 * MIB)
        self.still_serving()

    def test_continuation_without_end(self):
        client = self.client(self.proxy_)
        client.ping()
        first = HeadersFrame(1, data=b"\x82").serialize()
        client.raw(first)
        for _ in range(3000):
            if client.closed or client.peer.goaways:
                break
            client.raw(ContinuationFrame(1, data=b"\x40\x01a" + b"\x7f\x81\x06" + b"v" * 900).serialize())
        self.lab.wait(lambda: client.closed or client.peer.goaways, "the proxy ends the connection")
        self.still_serving()

    def test_ping_flood(self):
        frames = b"".join(PingFrame(0, bytes(8)).serialize() for _ in range(100))
        self.flood(frames, 3000)
        self.still_serving()

    def test_settings_flood(self):
        frame = SettingsFrame(0, settings={SettingCodes.HEADER_TABLE_SIZE: 4096}).serialize()
        self.flood(frame * 100, 3000)
        self.still_serving()

    def test_empty_data_flood(self):
        client = self.client(self.proxy_)
        self.members.on(STREAM, silent)
        call = client.open(STREAM)
        self.members[0].wait_calls(STREAM)
        frames = b"".join(DataFrame(call.id, data=b"").serialize() for _ in range(100))
        for _ in range(3000):
            if client.closed or client.peer.goaways or call.done:
                break
            client.raw(frames)
        self.lab.wait(lambda: client.closed or client.peer.goaways or call.done,
                      "the proxy has had enough")
        self.still_serving()

    def test_priority_and_window_frames_cost_nothing(self):
        """Legal noise: ignored or refused, but never kept."""
        client = self.client(self.proxy_)
        client.ping()
        before = self.proxy_.rss()
        noise = b"".join(PriorityFrame(i * 2 + 1, depends_on=0, stream_weight=1).serialize()
                         for i in range(1000))
        for _ in range(20):
            if not client.closed:
                client.raw(noise)
        self.still_serving()
        self.assert_memory(self.proxy_, before, 16 * MIB)

    def test_frames_of_unknown_types_are_ignored(self):
        client = self.client(self.proxy_)
        call = client.open(UNARY)
        for stream_id in (0, call.id):
            client.raw(bytes([0, 0, 4, 0xfa, 0xff]) + stream_id.to_bytes(4, "big") + b"what")
        client.send_message(call, b"hello", end=True)
        self.assert_ok(client.finish(call), b"hello")

    def test_window_overflow(self):
        client = self.client(self.proxy_)
        client.ping()
        frame = WindowUpdateFrame(0, window_increment=2**31 - 1).serialize()
        client.raw(frame * 2)
        self.lab.wait(lambda: client.closed or client.peer.goaways, "the connection ends")
        self.still_serving()

    def test_data_beyond_the_window(self):
        client = self.client(self.proxy_)
        self.members.on(STREAM, silent)
        call = client.open(STREAM)
        self.members[0].wait_calls(STREAM)
        frames = DataFrame(call.id, data=bytes(16384)).serialize() * 64
        for _ in range(100):
            if client.closed or client.peer.goaways or call.done:
                break
            client.raw(frames)
        self.lab.wait(lambda: client.closed or client.peer.goaways or call.done, "it is refused")
        self.still_serving()

    def test_frame_too_large(self):
        client = self.client(self.proxy_)
        client.ping()
        client.raw((1 << 20).to_bytes(3, "big") + b"\0\0\0\0\0\1" + bytes(1000))
        self.lab.wait(lambda: client.closed or client.peer.goaways, "the connection ends")
        self.still_serving()

    def test_illegal_header_fields(self):
        """Refused on the stream or with the connection, and never passed on."""
        for bad in (("Upper-Case", "1"), ("connection", "close"), ("transfer-encoding", "chunked"),
                    ("x-nul", "a\0b"), ("x-newline", "a\r\nb"), ("te", "gzip"), (":authority", "twice"),
                    ("x y", "1"), ("", "1")):
            client = self.client(self.proxy_)
            call = client.open(UNARY, bad, end=True)
            self.lab.wait(lambda: call.done or client.closed, f"an answer to {bad}")
            if bad[0] != "te":
                self.assertNotEqual(call.grpc_status, 0, bad)
                self.assertEqual(self.members.count(UNARY), 0, bad)
            client.close()
        self.still_serving()

    def test_missing_pseudo_headers(self):
        for missing in (":path", ":method", ":scheme"):
            client = self.client(self.proxy_)
            call = client.open_raw([h for h in request(UNARY) if h[0] != missing], end=True)
            self.lab.wait(lambda: call.done or client.closed, f"an answer without {missing}")
            self.assertNotEqual(call.grpc_status, 0, missing)
        self.assertEqual(self.members.count(UNARY), 0)
        self.still_serving()

    def test_odd_paths(self):
        for path in ("*", "", "no-slash", "/", "//", "/a" * 3000):
            client = self.client(self.proxy_)
            call = client.start(path)
            self.lab.wait(lambda: call.done or client.closed, f"an answer to {path[:20]!r}")
        self.still_serving()

    def test_request_trailers(self):
        """gRPC has none, HTTP/2 allows them: the call ends well or is refused, the proxy goes on."""
        client = self.client(self.proxy_)
        call = client.open(UNARY)
        client.send_message(call, b"x")
        self.lab.call(lambda: call.send_headers([("x-trailer", "1")], end=True))
        self.lab.wait(lambda: call.done or client.closed, "an answer")
        self.still_serving()


class RapidResetTest(HostileTest):
    def test_resets_without_end(self):
        client = self.client(self.proxy_)
        client.ping()
        before = self.proxy_.rss()

        def burst():
            for _ in range(200):
                stream_id = client.peer.h2.get_next_available_stream_id()
                client.peer.h2.send_headers(stream_id, request(UNARY), end_stream=False)
                client.peer.h2.reset_stream(stream_id, CANCEL)
            client.peer.flush()
        for _ in range(50):
            if client.closed or client.peer.goaways:
                break
            self.lab.call(burst)
        self.lab.wait(lambda: client.closed or client.peer.goaways, "the proxy has had enough")
        if client.peer.goaways:
            self.assertIn(ENHANCE_YOUR_CALM, [code for code, _ in client.peer.goaways])
        self.assert_memory(self.proxy_, before, 48 * MIB)
        self.still_serving()

    def test_cancels_of_parked_calls_do_not_count(self):
        """A client whose calls waited for a leader in vain is not hostile."""
        _, proxy, client = self.pair("--max-streams", "2000", leader=None)
        calls = [client.start(UNARY) for _ in range(600)]
        proxy.wait_metric(PARKED, 600)
        for call in calls:
            client.cancel(call)
        self.lab.wait(lambda: proxy.metric(PARKED) == 0, "all left the lot")
        client.ping()
        self.assertEqual(client.peer.goaways, [])
        self.assertFalse(client.closed)

    def test_cancels_of_old_calls_do_not_count(self):
        """More than 500 resets, but of streams that lived for over a second."""
        client = self.client(self.proxy_)
        self.members.on(GET, silent)
        calls = [client.start(GET) for _ in range(600)]
        self.members[0].wait_calls(GET, 600)
        self._two_keepalives()
        for call in calls:
            client.cancel(call)
        client.ping()
        self.assertEqual(client.peer.goaways, [])
        self.assert_ok(client.unary(UNARY))

    def _two_keepalives(self):
        """The members repeat their state each second: two repetitions take at least a second."""
        member = self.members[0]
        before = member.keepalives
        self.lab.wait(lambda: member.keepalives >= before + 2, "two keepalives")


class LimitsTest(ProxyTest):
    def test_max_streams_is_advertised_and_kept(self):
        cluster, proxy, client = self.pair("--max-streams", "5")
        cluster.on(GET, silent)
        client.ping()
        limit = client.peer.remote_settings[int(SettingCodes.MAX_CONCURRENT_STREAMS)]
        self.assertEqual(limit, 5)
        calls = [client.start(GET) for _ in range(5)]
        cluster[0].wait_calls(GET, 5)
        # h2 would not let us overrun the limit: it is made to forget it.
        self.lab.call(lambda: client.peer.h2.remote_settings.update(
            {SettingCodes.MAX_CONCURRENT_STREAMS: 1000}))
        self.lab.call(client.peer.h2.remote_settings.acknowledge)
        over = client.start(GET)
        self.lab.wait(lambda: over.done or client.closed, "a refusal")
        self.assertIn(over.reset, (REFUSED_STREAM, None))
        self.assertEqual(cluster.count(GET), 5)
        if not client.closed:
            self.assertFalse(any(call.done for call in calls))
        self.assert_ok(self.client(proxy).unary(UNARY))

    def test_slots_come_back(self):
        _, _, client = self.pair("--max-streams", "5")
        for _ in range(30):
            self.assert_ok(client.unary(UNARY))

    def test_max_connections(self):
        cluster, proxy, client = self.pair("--max-connections", "4")
        self.assert_ok(client.unary(UNARY))
        others = [self.client(proxy) for _ in range(3)]
        for other in others:
            self.assert_ok(other.unary(UNARY))
        extra = self.client(proxy)
        self.lab.wait(lambda: extra.closed, "the connection over the limit is closed")
        self.assert_ok(client.unary(UNARY))
        others[0].close()

        def accepted():
            again = self.client(proxy)
            call = again.start(UNARY)
            self.lab.wait(lambda: call.done or again.closed, "an answer or the end")
            return call.grpc_status == 0
        self.lab.wait(accepted, "a place is free again")

    def test_connections_come_and_go(self):
        _, proxy, client = self.pair()
        before = self.open_files(proxy)
        for _ in range(100):
            other = self.client(proxy)
            other.ping()
            other.close(hard=True)
        self.lab.wait(lambda: self.open_files(proxy) <= before + 2, "their descriptors are closed")
        self.assert_ok(client.unary(UNARY))

    @staticmethod
    def open_files(proxy):
        return len(os.listdir(f"/proc/{proxy.process.pid}/fd"))


class BadBackendTest(ProxyTest):
    """A member is trusted with its calls, not with the proxy."""

    def bad(self, *chunks):
        cluster, proxy, client = self.pair(count=2)

        async def handler(call):
            for chunk in chunks:
                call.peer.write_raw(chunk(call) if callable(chunk) else chunk)
        cluster[0].on(UNARY, handler)
        call = client.start(UNARY)
        cluster[0].wait_calls(UNARY)
        self.lab.wait(lambda: call.done, f"the call ends: {call.describe()}")
        self.assertNotEqual(call.grpc_status, 0)
        self.assertTrue(proxy.alive)
        self.assertFalse(client.closed)
        cluster.lead(1)
        self.lab.wait(lambda: client.unary(UNARY).grpc_status == 0, "the other member serves")

    def test_garbage(self):
        self.bad(b"\xff" * 1000)

    def test_frame_too_large(self):
        self.bad((1 << 23).to_bytes(3, "big") + b"\0\0\0\0\0\1" + bytes(1000))

    def test_data_before_headers(self):
        self.bad(lambda call: DataFrame(call.id, data=b"early").serialize())

    def test_header_block_that_is_no_hpack(self):
        self.bad(lambda call: HeadersFrame(call.id, data=b"\xff\xff\xff\xff\xff\xff",
                                           flags=["END_HEADERS"]).serialize())

    def test_push(self):
        self.bad(bytes([0, 0, 5, 5, 4, 0, 0, 0, 1, 0, 0, 0, 2, 0x88]))

    def test_rst_on_an_idle_stream(self):
        self.bad(RstStreamFrame(99999, error_code=1).serialize())

    def test_goaway_on_every_connection(self):
        """A member that sends its clients away as they come: dialled again, but not in a storm."""
        cluster, proxy, client = self.pair(count=2)

        def go_away(peer):
            cluster[1].peers.append(peer)
            peer.start()
            peer.send_goaway(0)
            return False
        cluster[1].on_connected = go_away
        cluster[1].kill_connections()
        self.beat(cluster[0])
        before = len(cluster[1].peers)
        self.beat(cluster[0])
        self.assertLess(len(cluster[1].peers) - before, 60)
        self.assert_ok(client.unary(UNARY))

    def test_goaway_instead_of_answers(self):
        cluster, _, client = self.pair("--park-timeout", "1s")
        cluster.on(UNARY, goaway(0))
        self.assert_not_executed(client.unary(UNARY))
        self.assertLess(len(cluster[0].peers), 200)

    def beat(self, member):
        """Two keepalives: at least a second."""
        before = member.keepalives
        self.lab.wait(lambda: member.keepalives >= before + 2, "two keepalives")

    def test_response_headers_too_large(self):
        cluster, _, client = self.pair()

        async def huge(call):
            call.send_headers([(":status", "200"), ("content-type", "application/grpc")]
                              + [(f"x-{i}", "v" * 1000) for i in range(500)])
            call.send_headers([("grpc-status", "0")], end=True)
        cluster.on(UNARY, huge)
        call = client.unary(UNARY)
        self.assertNotEqual(call.grpc_status, 0, call.describe())
        cluster[0].handlers.pop(UNARY)
        self.lab.wait(lambda: client.unary(UNARY).grpc_status == 0, "later calls pass")


if __name__ == "__main__":
    main()
