"""Corners of HTTP/2 and of the sockets below it: PINGs, SETTINGS, header tables, descriptors, IPv6."""
import os
import resource
import socket
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
import stubs
from h2.settings import SettingCodes
from h2_backend import echo, goaway, in_turn, not_executed, silent, source
from h2_client import request
from h2_peer import ENHANCE_YOUR_CALM, LAST_ID
from proxy_harness import GET, PARKED, PUT, STREAM, UNARY, ProxyTest, main


class PingTest(ProxyTest):
    """The liveness of a leader with calls pending, and a leader that does not like to be asked."""

    def beats(self, member, count):
        """Waits for keepalives of the member's own clock: one each second."""
        before = member.keepalives
        self.lab.wait(lambda: member.keepalives >= before + count, f"{count} keepalives")

    def pings(self, member):
        return sum(peer.pings for peer in member.peers)

    def test_asked_while_calls_are_pending(self):
        cluster, _, client = self.pair("--upstream-ping", "200ms")
        cluster[0].watch_silent = True
        cluster.on(GET, silent)
        call = client.start(GET)
        self.lab.wait(lambda: self.pings(cluster[0]) >= 2, "two PINGs")
        self.assertFalse(call.done)

    def test_switched_off(self):
        cluster, _, client = self.pair("--upstream-ping", "0s")
        cluster.on(GET, silent)
        call = client.start(GET)
        self.beats(cluster[0], 2)
        self.assertEqual(self.pings(cluster[0]), 0)
        self.assertFalse(call.done)

    def test_too_many_pings_switches_them_off(self):
        """A default gRPC server answers PINGs with this GOAWAY; one log line, and no more PINGs."""
        cluster, proxy, client = self.pair("--upstream-ping", "200ms")
        cluster[0].watch_silent = True
        cluster.on(GET, silent)
        client.start(GET)
        self.lab.wait(lambda: self.pings(cluster[0]) >= 1, "a PING")
        old = cluster[0].live_peers()
        cluster[0].each_peer(lambda peer: (
            peer.send_goaway(LAST_ID, ENHANCE_YOUR_CALM, b"too_many_pings"), peer.drop()))
        self.lab.wait(lambda: len(cluster[0].peers) > len(old), "a new connection")
        again = client.start(GET)
        seen = cluster[0].wait_calls(GET, 2)
        self.beats(cluster[0], 2)
        self.assertEqual([call.peer.pings for call in seen if call.peer not in old], [0, 0][:len(seen) - 1])
        self.lab.wait(lambda: proxy.find_lines("(?i)ping"), "it is logged")
        self.assertEqual(len(proxy.find_lines("(?i)ping")), 1, proxy.log)
        self.assertFalse(again.done)

    def test_client_pings_are_answered(self):
        _, _, client = self.pair()
        for _ in range(5):
            client.ping()
        self.assertEqual(client.peer.ping_acks, 5)


class SettingsTest(ProxyTest):
    def test_header_tables_of_any_size(self):
        """0, tiny, large, and changed in between, on both sides: fields stay what they are."""
        for client_size, backend_size in ((0, 0), (64, 64), (65536, 65536), (4096, 0)):
            cluster = self.cluster(settings={SettingCodes.HEADER_TABLE_SIZE: backend_size})
            client = self.client(self.proxy(cluster), {SettingCodes.HEADER_TABLE_SIZE: client_size})
            for i in range(20):
                sent = [(f"x-{j}", f"value {i * j % 7}") for j in range(20)]
                self.assert_ok(client.unary(UNARY, *sent))
                got = [h for h in cluster.calls_of(UNARY)[-1].headers if h[0].startswith("x-")
                       and h[0] != "x-forwarded-for"]
                self.assertEqual(got, sent)
                if i == 10:
                    self.lab.call(client.peer.change_settings, {SettingCodes.HEADER_TABLE_SIZE: 256})
                    cluster[0].each_peer(
                        lambda peer: peer.change_settings({SettingCodes.HEADER_TABLE_SIZE: 128}))

    def test_client_with_a_small_header_list_limit(self):
        """Advisory in HTTP/2: whatever becomes of the call, the connection lives."""
        cluster = self.cluster()
        client = self.client(self.proxy(cluster), {SettingCodes.MAX_HEADER_LIST_SIZE: 2000})
        self.assert_ok(client.unary(UNARY))
        self.assert_ok(client.unary(UNARY))

    def test_client_with_large_frames(self):
        body = os.urandom(1 << 20)
        cluster = self.cluster()
        client = self.client(self.proxy(cluster), {SettingCodes.MAX_FRAME_SIZE: 1 << 20})
        self.assert_ok(client.unary(UNARY, message=body), body)

    def test_host_stands_in_for_authority(self):
        cluster, _, client = self.pair()
        headers = [h for h in request(UNARY) if h[0] != ":authority"] + [("host", "from.host")]
        call = client.open_raw(headers)
        client.send_message(call, b"hello", end=True)
        self.assert_ok(client.finish(call), b"hello")
        seen, = cluster.calls_of(UNARY)
        self.assertEqual((seen.header(":authority"), seen.header("host")), ("from.host", None))

    def test_neither_host_nor_authority(self):
        """Malformed for HTTP/2 libraries: refused on its stream, the connection goes on."""
        cluster, _, client = self.pair()
        call = client.open_raw([h for h in request(UNARY) if h[0] != ":authority"])
        client.finish(call)
        self.assertNotEqual(call.grpc_status, 0)
        self.assertEqual(cluster.count(UNARY), 0)
        self.assert_ok(client.unary(UNARY))


class HalfWayTest(ProxyTest):
    """Refused before the request is complete: the next attempt gets all of it."""

    def refused_midway(self, path, *refusals):
        parts = [os.urandom(50_000) for _ in range(len(refusals) + 1)]
        cluster, _, client = self.pair()
        cluster.on(path, in_turn(*[self._after_bytes(r, 30_000 + 40_000 * i)
                                   for i, r in enumerate(refusals)], echo))
        call = client.open(path)
        for i, part in enumerate(parts):
            client.send(call, part, end=i == len(refusals))
            cluster[0].wait_calls(path, min(i + 2, len(refusals) + 1))
        client.finish(call)
        self.assertEqual(bytes(call.body), b"".join(parts), call.describe())
        self.assert_ok(call)

    @staticmethod
    def _after_bytes(handler, count):
        async def late(call):
            await call.until(lambda: call.received >= count)
            await handler(call)
        return late

    def test_not_executed(self):
        self.refused_midway(UNARY, not_executed(), not_executed())

    def test_goaway(self):
        self.refused_midway(UNARY, goaway(), goaway())

    def test_connection_lost(self):
        async def die(call):
            call.peer.drop(hard=True)
        self.refused_midway(PUT, die, die)

    def test_all_in_turn(self):
        async def die(call):
            call.peer.drop(hard=True)
        self.refused_midway(GET, not_executed(), die, goaway())


class MemberServiceTest(ProxyTest):
    """Clients may ask the member service through the proxy, too: it is a service like any other."""

    def test_watch_through_the_proxy(self):
        pb = stubs.load("baton.v1.member_pb2")
        service = stubs.load("baton.v1.member_pb2_grpc")
        cluster = self.cluster(2)
        stub = service.ClusterMemberServiceStub(self.channel(self.proxy(cluster)))
        watch = stub.WatchLeader(pb.WatchLeaderRequest(), timeout=60)
        self.assertEqual(next(watch).addr, cluster[0].addr)
        cluster[0].says(revision=77)
        self.assertEqual(next(state for state in watch if state.revision == 77).epoch, 1)
        watch.cancel()
        self.assertEqual(stub.GetLeaderAddr(pb.GetLeaderAddrRequest(), timeout=60).id, "m1")
        self.assertEqual(len(stub.ListMembers(pb.ListMembersRequest(), timeout=60).members), 2)


class SocketTest(ProxyTest):
    def test_ipv6(self):
        try:
            socket.socket(socket.AF_INET6).bind(("::1", 0))
        except OSError:
            raise unittest.SkipTest("no IPv6 here") from None
        cluster = self.cluster()
        proxy = self.proxy(cluster, listen="[::1]:0")
        call = self.channel(proxy.addr.replace("localhost", "[::1]")).unary_unary(UNARY)
        self.assertEqual(call(b"six", timeout=60), b"six")
        self.assertEqual(cluster.calls_of(UNARY)[0].header("x-forwarded-for"), "::1")

    def test_few_descriptors(self):
        """The process has 160: clients are kept waiting before the proxy itself runs dry."""
        cluster = self.cluster(2)
        proxy = self.proxy(cluster)
        resource.prlimit(proxy.process.pid, resource.RLIMIT_NOFILE, (160, 160))
        first = self.client(proxy)
        self.assert_ok(first.unary(UNARY))
        crowd = [self.plain_socket(proxy) for _ in range(200)]
        self.assert_ok(first.unary(UNARY))
        # The proxy can still open what it needs for itself.
        cluster[0].kill_connections()
        cluster.lead(1)
        self.lab.wait(lambda: first.unary(UNARY).grpc_status == 0 and cluster[1].count(UNARY),
                      "calls reach the new leader")
        self.assertEqual(proxy.get("/healthz")[0], 200)
        for plain in crowd:
            plain.close()

        def served():
            client = self.client(proxy)
            call = client.start(UNARY)
            self.lab.wait(lambda: call.done or client.closed, "an answer or the end")
            return call.grpc_status == 0
        self.lab.wait(served, "new clients are served again")

    def test_many_clients(self):
        cluster, proxy, _ = self.pair()
        clients = [self.client(proxy) for _ in range(50)]
        calls = [(client, client.start(UNARY, message=b"%d" % i)) for i, client in enumerate(clients)]
        for i, (client, call) in enumerate(calls):
            self.assert_ok(client.finish(call), b"%d" % i)
        self.assertLessEqual(len(cluster[0].live_peers()), 5, "clients share connections upstream")


class IdleTest(ProxyTest):
    """Waiting costs nothing: no scene below keeps the loop busy."""

    def test_waiting_costs_nothing(self):
        """All scenes at once, over two keepalives of a member: more than a second."""
        scenes = {scene.__name__: scene() for scene in (
            self._nothing_to_do, self._parked_calls, self._leader_that_is_down,
            self._leader_without_a_free_stream, self._peers_that_do_not_read,
            self._half_closed_clients)}
        before = {name: self.seconds(proxy) for name, proxy in scenes.items()}
        member = self.clusters[0][0]
        beats = member.keepalives
        self.lab.wait(lambda: member.keepalives >= beats + 2, "two keepalives")
        for name, proxy in scenes.items():
            used = self.seconds(proxy) - before[name]
            self.assertLess(used, 0.5 if proxy.sanitized else 0.2, f"{name}: seconds of processor time")

    @staticmethod
    def seconds(proxy):
        """Processor time the proxy has used."""
        with open(f"/proc/{proxy.process.pid}/stat") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _nothing_to_do(self):
        cluster, proxy, client = self.pair()
        self.assert_ok(client.unary(UNARY))
        return proxy

    def _parked_calls(self):
        cluster, proxy, client = self.pair(leader=None)
        for _ in range(50):
            client.start(UNARY)
        proxy.wait_metric(PARKED, 50)
        return proxy

    def _leader_that_is_down(self):
        cluster, proxy, client = self.pair(count=2)
        cluster[0].refuse()
        for _ in range(50):
            client.start(UNARY)
        return proxy

    def _leader_without_a_free_stream(self):
        cluster, proxy, client = self.pair(settings={SettingCodes.MAX_CONCURRENT_STREAMS: 2})
        cluster.on(GET, silent)
        for _ in range(50):
            client.start(GET)
        cluster[0].wait_calls(GET, 2)
        return proxy

    def _peers_that_do_not_read(self):
        """A client that reads nothing, one without credit, a backend without credit."""
        cluster, proxy, client = self.pair(settings={SettingCodes.INITIAL_WINDOW_SIZE: 0})
        cluster.on(STREAM, source(4 << 20)).on(GET, silent)
        frozen, starved = self.client(proxy), self.client(proxy)
        for _ in range(20):
            frozen.open(STREAM)
        cluster[0].wait_calls(STREAM, 20)
        self.lab.call(frozen.peer.freeze)
        starved.open(STREAM, hold=True)
        upload = client.open(GET)
        client.send_later(upload, bytes(1 << 20))
        cluster[0].wait_calls(STREAM, 21)
        return proxy

    def _half_closed_clients(self):
        """Clients that closed their side only, and some that sent half a frame."""
        cluster, proxy, _ = self.pair()
        for data in (b"", b"PRI * HTTP/2.0\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0"):
            plain = self.plain_socket(proxy)
            plain.send(data)
            plain.sock.shutdown(socket.SHUT_WR)
        return proxy


class LongTest(ProxyTest):
    def test_one_client_many_calls_one_after_another(self):
        """Nothing is left behind by calls: descriptors, memory, gauges."""
        cluster, proxy, client = self.pair()
        for _ in range(100):
            self.assert_ok(client.unary(UNARY))
        before = proxy.rss()
        for i in range(500):
            self.assert_ok(client.unary((UNARY, GET, PUT)[i % 3], message=bytes(i)))
        self.assert_memory(proxy, before, 4 << 20)
        for gauge in ("calls", "relay_bytes", "replay_bytes", "parked_calls"):
            self.lab.wait(lambda: proxy.metric(f"baton_proxy_{gauge}") == 0, f"{gauge} is 0 again")
        proxy.wait_metric("baton_proxy_calls_total", 600)
        self.assertEqual(proxy.metric("baton_proxy_calls_total", status="OK"), 600)
        self.assertEqual(cluster.count(STREAM), 0)


if __name__ == "__main__":
    main()
