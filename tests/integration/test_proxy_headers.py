"""The header rules: what is changed on the way, what is refused, and that nothing else is touched."""
import base64
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from h2.settings import SettingCodes
from hpack import NeverIndexedHeaderTuple
from h2_backend import GRPC, answer, echo, in_turn, kill, not_executed, silent, trailers_only
import stubs
from proxy_harness import GET, PARKED, PUT, UNARY, ProxyTest, main


class RequestTest(ProxyTest):
    def setUp(self):
        super().setUp()
        self.members, self.proxy_, self.raw = self.pair()

    def seen(self, *headers, path=UNARY, **replace):
        """What the backend saw of a call with these headers."""
        self.assert_ok(self.raw.unary(path, *headers, **replace))
        return self.members.calls_of(path)[-1]

    def refused_http(self, status, **replace):
        """Refused by the proxy with an HTTP status; the connection goes on."""
        before = self.members.count(UNARY)
        call = self.raw.finish(self.raw.open(UNARY, end=True, **replace))
        self.assertEqual(call.http_status, str(status), f"{replace}: {call.describe()}")
        self.assertEqual(self.members.count(UNARY), before)

    def test_methods(self):
        for method in ("GET", "PUT", "HEAD", "OPTIONS", "DELETE", "post"):
            self.refused_http(405, method=method)
        self.seen()

    def test_content_types(self):
        for good in ("application/grpc", "application/grpc+proto", "application/grpc+json",
                     "application/grpc;charset=utf-8"):
            self.assertEqual(self.seen(content_type=good).header("content-type"), good)
        for bad in ("application/grpcx", "application/grpc-web", "application/json", "text/plain", "",
                    None):
            self.refused_http(415, content_type=bad)

    def test_refused_while_the_body_comes(self):
        """A refusal does not wait for the request's end, and the body disturbs nobody."""
        call = self.raw.open(UNARY, method="PUT")
        self.raw.send_later(call, bytes(1 << 20), end=True)
        self.lab.wait(lambda: call.headers is not None, "the refusal comes")
        self.assertEqual(call.http_status, "405")
        self.seen()

    def test_scheme_is_the_upstream_transports(self):
        self.assertEqual(self.seen(scheme="https").header(":scheme"), "http")

    def test_authority_is_unchanged(self):
        self.assertEqual(self.seen(authority="meta.example:443").header(":authority"), "meta.example:443")

    def test_host_is_removed(self):
        call = self.seen(("host", "proxy.test"))
        self.assertIsNone(call.header("host"))
        self.assertEqual(call.header(":authority"), "proxy.test")

    def test_te_is_always_trailers(self):
        self.assertEqual(self.seen().all("te"), ["trailers"])
        self.assertEqual(self.seen(te=None).all("te"), ["trailers"])

    def test_content_length_is_removed(self):
        self.assertIsNone(self.seen(("content-length", "10")).header("content-length"))

    def test_content_length_that_lies(self):
        """HTTP/2 calls this malformed: the call is refused and never looks complete to the leader."""
        for length in ("3", "3000"):
            call = self.raw.unary(UNARY, ("content-length", length))
            self.assertNotEqual(call.grpc_status, 0, call.describe())
        for seen in self.members.calls_of(UNARY):
            self.lab.wait(lambda: seen.done, "it ends")
            self.assertFalse(seen.ended and seen.reset is None, seen.describe())
        self.seen()

    def test_path_with_odd_characters(self):
        path = "/weird.Svc-1/Me%20thod?x=1&y=%FF"
        self.seen(path=path)

    def test_everything_else_is_unchanged_and_in_order(self):
        headers = [("x-b", "2"), ("x-a", "1"), ("x-b", "1"), ("cookie", "a=1"), ("x-empty", ""),
                   ("user-agent", "grpc-c/1.51"), ("cookie", "b=2"), ("grpc-encoding", "gzip"),
                   ("data-bin", "AAECAw"), ("data-bin", "/+8="), ("x-long", "v" * 3000), ("x-a", "0"),
                   ("authorization", "Bearer x"), ("grpc-accept-encoding", "identity,gzip"),
                   ("many-bin", "AAEC,AwQF"), ("x-obs", "\x80\xff")]
        names = {name for name, _ in headers}
        call = self.seen(*headers)
        self.assertEqual([h for h in call.headers if h[0] in names], headers)

    def test_nothing_unknown_is_added(self):
        call = self.seen()
        known = {":method", ":scheme", ":path", ":authority", "te", "content-type", "via",
                 "x-forwarded-for"}
        self.assertLessEqual({name for name, _ in call.headers}, known)

    def test_never_indexed_stays_so(self):
        call = self.seen(NeverIndexedHeaderTuple("x-secret", "s3cret"), ("x-open", "o"))
        indexable = {h[0]: h.indexable for h in call.raw_headers}
        self.assertFalse(indexable["x-secret"])
        self.assertTrue(indexable["x-open"])

    def test_forwarded_for_is_appended(self):
        self.assertEqual(self.seen().all("x-forwarded-for"), ["127.0.0.1"])
        values = self.seen(("x-forwarded-for", "10.1.2.3")).all("x-forwarded-for")
        self.assertEqual(re.split(r",\s*", ",".join(values)), ["10.1.2.3", "127.0.0.1"])

    def test_forwarded_for_of_several_headers(self):
        """What a client says comes before what the proxy says, whatever its form."""
        call = self.seen(("x-forwarded-for", "10.1.2.3"), ("x-between", "1"), ("x-forwarded-for", "10.9.9.9"))
        values = re.split(r",\s*", ",".join(call.all("x-forwarded-for")))
        self.assertEqual(values, ["10.1.2.3", "10.9.9.9", "127.0.0.1"])

    def test_client_certificate_header_is_stripped(self):
        call = self.seen(("x-forwarded-client-cert", "Subject=\"CN=root\""))
        self.assertIsNone(call.header("x-forwarded-client-cert"))

    def test_loops_are_found(self):
        via = self.seen().header("via")
        self.assertRegex(via, r"^baton \S+$|baton")
        before = self.members.count(UNARY)
        call = self.raw.unary(UNARY, ("via", via))
        self.assertNotIn(call.grpc_status, (0, None), call.describe())
        self.assertEqual(self.members.count(UNARY), before)
        call = self.seen(("via", "baton somebody-else"))
        self.assertEqual(len(re.findall("baton ", ",".join(call.all("via")))), 2)

    def test_stock_metadata_passes(self):
        sent = (("x-text", "a"), ("x-text", "b"), ("x-data-bin", b"\x00\xff\x01"))
        self.members.on(UNARY, answer(b"x", headers=[("i-bin", "AP8B")], trailers=[("t-bin", "AP8B")]))
        call = self.channel(self.proxy_).unary_unary(UNARY)
        _, done = call.with_call(b"", metadata=sent, timeout=60)
        self.assertIn(("i-bin", b"\x00\xff\x01"), done.initial_metadata())
        self.assertIn(("t-bin", b"\x00\xff\x01"), done.trailing_metadata())
        got = self.members.calls_of(UNARY)[-1]
        self.assertEqual(got.all("x-text"), ["a", "b"])
        self.assertEqual(base64.b64decode(got.header("x-data-bin") + "=="), b"\x00\xff\x01")


class BinaryMetadataTest(ProxyTest):
    """A C core server would fail every call of the connection for these: they stop at the proxy."""

    def test_values_that_are_no_base64(self):
        cluster, _, client = self.pair()
        for bad in ("!", "A", "AAAAA", "AA=A", "====", "A A=", "AA\x80=", "AAEC,!", "AAE==", "-_-_"):
            call = client.unary(UNARY, ("x-bin", bad))
            self.assertEqual(call.grpc_status, 3, f"{bad!r}: {call.describe()}")
            self.assertEqual(call.http_status, "200")
        self.assertEqual(cluster.count(UNARY), 0)
        self.assert_ok(client.unary(UNARY))

    def test_values_that_are(self):
        cluster, _, client = self.pair()
        for good in ("", "AA", "AA==", "AAE", "AAE=", "AAEC", "AAEC,AA==", "+/+/"):
            self.assert_ok(client.unary(UNARY, ("x-bin", good)))
            self.assertEqual(cluster.calls_of(UNARY)[-1].header("x-bin"), good)

    def test_refused_calls_hurt_only_their_sender(self):
        cluster, proxy, client = self.pair()
        cluster.on(UNARY, echo).on(GET, silent)
        waiting = client.start(GET)
        cluster[0].wait_calls(GET)
        self.assertEqual(self.client(proxy).unary(UNARY, ("x-bin", "*")).grpc_status, 3)
        self.assert_ok(client.unary(UNARY))
        self.assertFalse(waiting.done)


class HeaderListSizeTest(ProxyTest):
    def test_lists_over_the_backends_limit_stop_here(self):
        cluster, _, client = self.pair(settings={SettingCodes.MAX_HEADER_LIST_SIZE: 4096})
        call = client.unary(UNARY, ("x-big", "v" * 5000))
        self.assertTrue(call.grpc_status in (3, 8) or call.http_status == "431", call.describe())
        self.assertEqual(cluster.count(UNARY), 0)
        self.assert_ok(client.unary(UNARY, ("x-big", "v" * 2000)))

    def test_lists_over_the_proxys_limit(self):
        cluster, _, client = self.pair()
        call = client.unary(UNARY, ("x-big", "v" * 40000))
        self.assertNotEqual(call.grpc_status, 0, call.describe())
        self.assertTrue(call.done)
        self.assertEqual(cluster.count(UNARY), 0)
        if client.closed:
            client = self.client(self.proxies[0])
        self.assert_ok(client.unary(UNARY, ("x-big", "v" * 8000)))

    def test_limit_is_advertised(self):
        _, _, client = self.pair()
        self.assert_ok(client.unary(UNARY))
        limit = client.peer.remote_settings.get(int(SettingCodes.MAX_HEADER_LIST_SIZE))
        self.assertIsNotNone(limit)
        self.assertLessEqual(limit, 65536)


class TimeoutTest(ProxyTest):
    def test_byte_for_byte_when_sent_at_once(self):
        cluster, _, client = self.pair()
        for value in ("5S", "00005S", "1H", "99999999S", "20000m", "10000000u", "99999999H", "3M",
                      "30000000u"):
            self.assert_ok(client.unary(UNARY, grpc_timeout=value))
            self.assertEqual(cluster.calls_of(UNARY)[-1].header("grpc-timeout"), value)

    def test_malformed(self):
        cluster, _, client = self.pair()
        for value in ("", "5", "S", "-5S", "+5S", "5 S", "123456789S", "5X", "5.5S", "5SS", "5s", "0x5S"):
            call = client.unary(UNARY, grpc_timeout=value)
            self.assertEqual(call.grpc_status, 3, f"{value!r}: {call.describe()}")
        self.assertEqual(cluster.count(UNARY), 0)
        self.assert_ok(client.unary(UNARY))

    def test_no_time_at_all(self):
        cluster, _, client = self.pair()
        for value in ("0S", "0n"):
            self.assert_status(client.unary(UNARY, grpc_timeout=value), 4, baton_not_executed="1")
        self.assertEqual(cluster.count(UNARY), 0)

    def test_what_is_left_when_sent_again(self):
        cluster, _, client = self.pair()
        cluster.on(UNARY, in_turn(not_executed(("grpc-retry-pushback-ms", "300")), echo))
        self.assert_ok(client.unary(UNARY, grpc_timeout="20S"))
        first, second = [call.header("grpc-timeout") for call in cluster.calls_of(UNARY)]
        self.assertEqual(first, "20S")
        self.assertLessEqual(self.milliseconds(second), 19_710)
        self.assertGreater(self.milliseconds(second), 5_000)

    def test_what_is_left_after_parking(self):
        cluster = self.cluster(leader=None)
        proxy = self.proxy(cluster, ready=False)
        client = self.client(proxy)
        call = client.start(UNARY, grpc_timeout="20000m")
        proxy.wait_metric(PARKED, 1)
        cluster.lead(0)
        self.assert_ok(client.finish(call))
        left = cluster.calls_of(UNARY)[0].header("grpc-timeout")
        self.assertLess(self.milliseconds(left), 20_000)
        self.assertGreater(self.milliseconds(left), 5_000)

    def milliseconds(self, value):
        self.assertRegex(value, r"^\d{1,8}[HMSmun]$")
        unit = {"H": 3600e3, "M": 60e3, "S": 1e3, "m": 1, "u": 1e-3, "n": 1e-6}[value[-1]]
        return int(value[:-1]) * unit


class RequestIdTest(ProxyTest):
    FORM = r"^[\x21-\x3f\x41-\x7e]{8,40}@\d+$"

    def test_added_to_mutations(self):
        cluster, _, client = self.pair()
        cluster[0].says(revision=4711)
        self.assert_ok(client.unary(PUT))
        self.assert_ok(client.unary(PUT))
        first, second = [call.header("baton-request-id") for call in cluster.calls_of(PUT)]
        for value in (first, second):
            self.assertRegex(value, self.FORM)
            self.assertTrue(16 <= len(value) <= 64, value)
        self.assertNotEqual(first, second)

    def test_revision_is_one_the_members_told(self):
        cluster, _, client = self.pair()
        cluster[0].says(revision=4711)

        def told():
            self.assert_ok(client.unary(PUT))
            return cluster.calls_of(PUT)[-1].header("baton-request-id").endswith("@4711")
        self.lab.wait(told, "request ids carry the revision of the leader's last state")

    def test_never_indexed(self):
        cluster, _, client = self.pair()
        self.assert_ok(client.unary(PUT))
        tuples = {h[0]: h for h in cluster.calls_of(PUT)[0].raw_headers}
        self.assertFalse(tuples["baton-request-id"].indexable)

    def test_the_clients_own_is_kept(self):
        cluster, _, client = self.pair()
        cluster.on(PUT, in_turn(kill(), echo))
        self.assert_ok(client.unary(PUT, ("baton-request-id", "mine-0123456789abcdef@5")))
        for call in cluster.calls_of(PUT):
            self.assertEqual(call.all("baton-request-id"), ["mine-0123456789abcdef@5"])

    def test_not_added_to_reads_and_strangers(self):
        cluster, _, client = self.pair()
        for path in (GET, UNARY, "/baton.v1.KvService/NoSuchMethod"):
            self.assert_ok(client.unary(path))
            self.assertIsNone(cluster.calls_of(path)[0].header("baton-request-id"), path)

    def test_stock_client(self):
        pb, service = stubs.load("baton.v1.kv_pb2"), stubs.load("baton.v1.kv_pb2_grpc")
        cluster = self.cluster()
        done = pb.PutResponse(revision=9).SerializeToString()
        cluster.on(PUT, in_turn(kill(), answer(done, headers=[("baton-epoch", "1")])))
        stub = service.KvServiceStub(self.channel(self.proxy(cluster)))
        self.assertEqual(stub.Put(pb.PutRequest(key=b"k", value=b"v"), timeout=60).revision, 9)
        self.assertEqual(cluster.count(PUT), 2)


class PreviousAttemptsTest(ProxyTest):
    def test_counts_what_was_sent_and_lost(self):
        cluster, _, client = self.pair()
        cluster.on(GET, in_turn(kill(), kill(), echo))
        self.assert_ok(client.unary(GET))
        counts = [call.all("grpc-previous-rpc-attempts") for call in cluster.calls_of(GET)]
        self.assertEqual(counts, [[], ["1"], ["2"]])

    def test_parked_calls_were_never_sent(self):
        cluster = self.cluster(leader=None)
        proxy = self.proxy(cluster, ready=False)
        client = self.client(proxy)
        call = client.start(GET)
        proxy.wait_metric(PARKED, 1)
        cluster.lead(0)
        self.assert_ok(client.finish(call))
        self.assertEqual(cluster.calls_of(GET)[0].all("grpc-previous-rpc-attempts"), [])


class ResponseTest(ProxyTest):
    HEADERS = [("x-b", "2"), ("x-a", "1"), ("x-b", "1"), ("i-bin", "AAEC"), ("set-cookie", "a=1"),
               ("set-cookie", "b=2"), ("x-empty", ""), ("baton-epoch", "7"), ("server", "c-core")]

    def test_headers_and_trailers_unchanged_and_in_order(self):
        cluster, _, client = self.pair()
        cluster.on(UNARY, answer(b"m", headers=self.HEADERS, trailers=self.HEADERS))
        call = client.unary(UNARY)
        self.assert_ok(call, b"m")
        self.assertEqual([h for h in call.headers if h not in (GRPC)], self.HEADERS)
        self.assertEqual([(k, v) for k, v in call.trailers if k != "grpc-status"], self.HEADERS)

    def test_trailers_only_stays_so(self):
        cluster, _, client = self.pair()
        cluster.on(UNARY, trailers_only(5, ("x-a", "1"), ("x-a", "2")))
        call = client.unary(UNARY)
        self.assertTrue(call.trailers_only)
        self.assertEqual(call.all("x-a", "trailers"), ["1", "2"])

    def test_large_headers_and_trailers(self):
        """Within what the client allows (h2's 64 KiB), over one frame."""
        cluster, _, client = self.pair()
        big = [(f"x-{i}", "v" * 1000) for i in range(40)]
        cluster.on(UNARY, answer(b"m", headers=big, trailers=big))
        call = client.unary(UNARY)
        self.assert_ok(call, b"m")
        self.assertEqual(call.header("x-39"), "v" * 1000)
        self.assertEqual(call.trailer("x-39"), "v" * 1000)

    def test_never_indexed_stays_so(self):
        cluster, _, client = self.pair()
        cluster.on(UNARY, answer(b"m", headers=[NeverIndexedHeaderTuple("x-secret", "s"), ("x-open", "o")]))
        call = client.unary(UNARY)
        indexable = {h[0]: h.indexable for h in call.raw_headers}
        self.assertEqual((indexable["x-secret"], indexable["x-open"]), (False, True))


if __name__ == "__main__":
    main()
