"""What the proxy sends again, and what it must not: the first rows of the table "what happened"."""
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from h2_backend import (GRPC, OK, Gate, answer, echo, goaway, in_turn, kill, not_executed, reset,
                        silent, trailers_only)
from h2_peer import CANCEL, LAST_ID, REFUSED_STREAM
from h2_stream import frame
from proxy_harness import GET, PUT, STREAM, UNARY, ProxyTest, main


class NotProcessedTest(ProxyTest):
    """Certainly nothing happened: sent again, whatever the method."""

    def test_connection_refused_until_the_leader_listens(self):
        cluster = self.cluster(2)
        cluster[0].refuse()
        proxy = self.proxy(cluster, ready=False)
        call = self.client(proxy).start(UNARY)
        cluster[1].wait_calls("/baton.v1.ClusterMemberService/WatchLeader")
        cluster[0].listen()
        self.assert_ok(self.clients[0].finish(call), b"hello")
        self.assertEqual(cluster.count(UNARY), 1)

    def test_refused_stream_is_sent_again(self):
        cluster, _, client = self.pair()
        cluster.on(UNARY, in_turn(reset(REFUSED_STREAM), reset(REFUSED_STREAM), echo))
        self.assert_ok(client.unary(UNARY), b"hello")
        self.assertEqual(cluster.count(UNARY), 3)

    def test_refused_stream_before_the_request_ended(self):
        cluster, _, client = self.pair()
        cluster.on(UNARY, in_turn(reset(REFUSED_STREAM, after_end=False), echo))
        call = client.open(UNARY)
        client.send_message(call, b"first")
        cluster[0].wait_calls(UNARY, 2)
        client.send_message(call, b"second", end=True)
        self.assertEqual(client.finish(call).messages, [b"first", b"second"])
        self.assert_ok(call)

    def test_above_the_last_id_of_a_goaway(self):
        cluster, _, client = self.pair()
        cluster.on(UNARY, in_turn(goaway(), echo))
        self.assert_ok(client.unary(UNARY), b"hello")
        first, second = cluster.calls_of(UNARY)
        self.assertIsNot(first.peer, second.peer)

    def test_above_the_last_id_of_a_goaway_that_closes(self):
        cluster, _, client = self.pair()
        cluster.on(UNARY, in_turn(goaway(close=True), echo))
        self.assert_ok(client.unary(UNARY), b"hello")
        self.assertEqual(cluster.count(UNARY), 2)

    def test_goaway_divides_the_calls_of_a_connection(self):
        """Calls up to the last id stay and are answered there; those above go to a new connection."""
        cluster, _, client = self.pair()
        gate = Gate(self.lab)
        cluster.on(UNARY, gate)
        calls = [client.start(UNARY, message=b"%d" % i) for i in range(6)]
        seen = cluster[0].wait_calls(UNARY, 6)
        last = sorted(call.id for call in seen)[2]
        self.lab.call(seen[0].peer.send_goaway, last)
        cluster[0].wait_calls(UNARY, 9)
        gate.open()
        for i, call in enumerate(calls):
            self.assert_ok(client.finish(call), b"%d" % i)
        self.assertEqual(cluster.count(UNARY), 9)

    def test_refused_as_not_executed(self):
        cluster, _, client = self.pair()
        cluster.on(UNARY, in_turn(not_executed(), not_executed(("baton-reason", "ACTIVATING")), echo))
        self.assert_ok(client.unary(UNARY), b"hello")
        self.assertEqual(cluster.count(UNARY), 3)

    def test_stock_client_sees_none_of_it(self):
        cluster = self.cluster()
        proxy = self.proxy(cluster)
        cluster.on(UNARY, in_turn(reset(REFUSED_STREAM), not_executed(), goaway(), echo))
        self.assertEqual(self.channel(proxy).unary_unary(UNARY)(b"x", timeout=60), b"x")
        self.assertEqual(cluster.count(UNARY), 4)

    def test_pushback_of_the_backend_is_kept(self):
        cluster, _, client = self.pair()
        times = []

        def noting(handler):
            async def noted(call):
                times.append(time.monotonic())
                await handler(call)
            return noted
        cluster.on(UNARY, in_turn(noting(not_executed(("grpc-retry-pushback-ms", "400"))),
                                  noting(echo)))
        self.assert_ok(client.unary(UNARY))
        self.assertGreaterEqual(times[1] - times[0], 0.39)

    def test_repeated_refusals_are_backed_off(self):
        """A leader that always refuses is not hammered: some tens of tries in the time, not thousands."""
        cluster, _, client = self.pair("--park-timeout", "1s")
        cluster.on(UNARY, not_executed())
        self.assert_not_executed(client.unary(UNARY))
        self.assertGreater(cluster.count(UNARY), 1)
        self.assertLess(cluster.count(UNARY), 200)

    def test_refusals_until_the_park_timeout(self):
        cluster, _, client = self.pair("--park-timeout", "1s")
        cluster.on(UNARY, reset(REFUSED_STREAM))
        self.assert_not_executed(client.unary(UNARY))

    def test_refusals_until_the_deadline(self):
        cluster, _, client = self.pair()
        cluster.on(UNARY, not_executed())
        call = client.unary(UNARY, grpc_timeout="2S")
        self.assertEqual(call.grpc_status, 4, call.describe())
        self.assertGreater(cluster.count(UNARY), 1)

    def test_refused_to_connect_until_the_park_timeout(self):
        cluster = self.cluster(2)
        cluster[0].refuse()
        proxy = self.proxy(cluster, "--park-timeout", "1s", ready=False)
        self.assert_not_executed(self.client(proxy).unary(UNARY))
        self.assertEqual(cluster.count(UNARY), 0)

    def test_large_request_is_complete_when_sent_again(self):
        body = os.urandom(1 << 20)
        cluster, _, client = self.pair()
        cluster.on(UNARY, in_turn(reset(REFUSED_STREAM), echo))
        self.assert_ok(client.unary(UNARY, message=body), body)


class PassedOnTest(ProxyTest):
    """What looks like a refusal and is an answer."""

    def test_unavailable_without_the_mark(self):
        cluster, _, client = self.pair()
        cluster.on(UNARY, trailers_only(14, ("grpc-message", "no"), ("x-why", "because")))
        self.assert_status(client.unary(UNARY), 14, grpc_message="no", x_why="because",
                           baton_not_executed=None, baton_outcome=None)
        self.assertEqual(cluster.count(UNARY), 1)

    def test_mark_with_another_status(self):
        cluster, _, client = self.pair()
        cluster.on(UNARY, trailers_only(8, ("baton-not-executed", "1"), ("baton-reason", "OVERLOADED")))
        self.assert_status(client.unary(UNARY), 8, baton_not_executed="1", baton_reason="OVERLOADED")
        self.assertEqual(cluster.count(UNARY), 1)

    def test_mark_after_response_headers(self):
        cluster, _, client = self.pair()
        cluster.on(UNARY, answer(status=14, trailers=[("baton-not-executed", "1")]))
        self.assert_status(client.unary(UNARY), 14, baton_not_executed="1")
        self.assertEqual(cluster.count(UNARY), 1)

    def test_mark_with_another_value(self):
        cluster, _, client = self.pair()
        cluster.on(UNARY, trailers_only(14, ("baton-not-executed", "0")))
        self.assert_status(client.unary(UNARY), 14)
        self.assertEqual(cluster.count(UNARY), 1)


class LostTest(ProxyTest):
    """The connection was lost with the request sent and no response headers."""

    def test_read_is_sent_again(self):
        cluster, _, client = self.pair()
        cluster.on(GET, in_turn(kill(), echo))
        self.assert_ok(client.unary(GET), b"hello")
        first, second = cluster.calls_of(GET)
        self.assertIsNone(first.header("grpc-previous-rpc-attempts"))
        self.assertEqual(second.header("grpc-previous-rpc-attempts"), "1")

    def test_server_stream_of_a_read_is_sent_again(self):
        watch = "/baton.v1.ClusterMemberService/GetHistory"
        cluster, _, client = self.pair()
        cluster.on(watch, in_turn(kill(hard=False), echo))
        self.assert_ok(client.unary(watch), b"hello")
        self.assertEqual(cluster.count(watch), 2)

    def test_mutation_with_request_id_is_sent_again(self):
        cluster, _, client = self.pair()
        cluster.on(PUT, in_turn(kill(), kill(), echo))
        self.assert_ok(client.unary(PUT), b"hello")
        ids = {call.header("baton-request-id") for call in cluster.calls_of(PUT)}
        self.assertEqual(cluster.count(PUT), 3)
        self.assertEqual(len(ids), 1, "one effect, one id")
        self.assertNotIn(None, ids)

    def test_other_methods_are_not(self):
        cluster, _, client = self.pair()
        cluster.on(UNARY, in_turn(kill(), echo))
        self.assert_unknown(client.unary(UNARY))
        self.assertEqual(cluster.count(UNARY), 1)
        self.assert_ok(client.unary(UNARY))

    def test_connection_that_ends_in_good_order_counts_as_lost(self):
        cluster, _, client = self.pair()
        cluster.on(UNARY, in_turn(kill(hard=False), echo)).on(GET, in_turn(kill(hard=False), echo))
        self.assert_unknown(client.unary(UNARY))
        self.assert_ok(client.unary(GET))

    def test_closed_when_only_the_headers_had_come(self):
        cluster, _, client = self.pair()
        cluster.on(UNARY, in_turn(kill(when_ended=False), echo))
        call = client.open(UNARY)
        self.assert_unknown(client.finish(call))

    def test_at_most_two_more_attempts(self):
        cluster, _, client = self.pair()
        cluster.on(GET, kill())
        self.assert_unknown(client.unary(GET))
        self.assertEqual(cluster.count(GET), 3)

    def test_attempts_are_an_option(self):
        cluster, _, client = self.pair("--replay-attempts", "0")
        cluster.on(GET, kill())
        self.assert_unknown(client.unary(GET))
        self.assertEqual(cluster.count(GET), 1)

    def test_not_past_the_replay_window(self):
        cluster, _, client = self.pair("--replay-window", "1s")
        gate = Gate(self.lab, then=kill())
        cluster.on(GET, gate)
        call = client.start(GET)
        sent = time.monotonic()
        cluster[0].wait_calls(GET)
        self.lab.wait(lambda: time.monotonic() - sent > 1.1, "the window is over")
        gate.open()
        self.assert_unknown(client.finish(call))
        self.assertEqual(cluster.count(GET), 1)

    def test_frozen_leader_is_declared_dead(self):
        """Half-open: no FIN, no answer to PING. The call is sent again on a new connection."""
        cluster, _, client = self.pair("--upstream-ping", "1s")
        cluster.on(GET, in_turn(silent, echo)).on(UNARY, silent)
        read, other = client.start(GET), client.start(UNARY)
        cluster[0].wait_calls(GET)
        cluster[0].wait_calls(UNARY)
        cluster[0].freeze()
        self.assert_ok(client.finish(read), b"hello")
        self.assert_unknown(client.finish(other))

    def test_leader_that_never_speaks(self):
        cluster, proxy, client = self.pair(count=2)
        cluster[0].mute = True
        cluster[0].kill_connections()
        call = client.start(GET)
        self.lab.wait(lambda: cluster[0].live_peers(), "the proxy dials the mute member")
        cluster.lead(1)
        self.assert_ok(client.finish(call), b"hello")
        self.assertEqual(cluster[1].count(GET), 1)

    def test_request_that_outgrew_the_buffer(self):
        body = bytes(3 << 20)
        cluster, _, client = self.pair()
        cluster.on(PUT, in_turn(kill(), echo))
        self.assert_unknown(client.unary(PUT, message=body))
        self.assertEqual(cluster.count(PUT), 1)
        self.assert_ok(client.unary(PUT, message=body), body)

    def test_request_within_the_buffer(self):
        body = os.urandom(1 << 20)
        cluster, _, client = self.pair()
        cluster.on(PUT, in_turn(kill(), echo))
        self.assert_ok(client.unary(PUT, message=body), body)

    def test_replay_bytes_limit_all_calls_together(self):
        """Room for two buffers of four: at least two calls go on without, none fails for it."""
        body = bytes(1 << 20)
        cluster, _, client = self.pair("--replay-bytes", "2560KiB")
        gate = Gate(self.lab, then=kill())
        cluster.on(PUT, gate)
        calls = [client.start(PUT, message=body) for _ in range(4)]
        seen = cluster[0].wait_calls(PUT, 4)
        self.lab.wait(lambda: all(call.ended for call in seen), "all requests arrived")
        cluster.on(PUT, echo)
        gate.open()
        ended = [client.finish(call).grpc_status for call in calls]
        self.assertGreaterEqual(ended.count(14), 2, ended)
        self.assertGreaterEqual(ended.count(0), 1, ended)

    def test_unknown_stays_unknown(self):
        """After one lost attempt no later refusal makes the call "not executed"."""
        cluster, _, client = self.pair("--park-timeout", "1s")
        cluster.on(PUT, in_turn(kill(), not_executed()))
        call = client.unary(PUT)
        self.assert_unknown(call)
        sent = cluster.calls_of(PUT)[0].header("baton-request-id")
        self.assertEqual(call.trailer("baton-request-id"), sent)

    def test_not_executed_of_a_final_answer_after_a_lost_attempt(self):
        cluster, _, client = self.pair()
        cluster.on(PUT, in_turn(kill(), trailers_only(8, ("baton-not-executed", "1"))))
        call = client.unary(PUT)
        self.assert_unknown(call, 8)

    def test_streaming_call_of_an_unknown_service(self):
        cluster, _, client = self.pair()

        async def after_a_message(call):
            await call.until(lambda: call.messages)
            call.peer.drop(hard=True)
        cluster.on(STREAM, after_a_message)
        call = client.open(STREAM)
        client.send_message(call, b"one")
        self.assert_unknown(client.finish(call))
        self.assertEqual(cluster.count(STREAM), 1)


WINDOW = 65535  # what is held of an answer stays below


class HeldTest(ProxyTest):
    """Lost within the answer of a unary method that may be replayed: as without any answer."""

    def test_lost_after_the_headers(self):
        cluster, _, client = self.pair()
        for path in (GET, PUT):
            cluster.on(path, in_turn(kill(after_headers=True), echo))
            self.assert_ok(client.unary(path), b"hello")
            self.assertEqual(cluster.count(path), 2)
        ids = {call.header("baton-request-id") for call in cluster.calls_of(PUT)}
        self.assertEqual(len(ids), 1, "one effect, one id")

    def test_lost_within_the_message(self):
        half = frame(bytes(1000))[:500]
        cluster, _, client = self.pair()
        for path in (GET, PUT):
            cluster.on(path, in_turn(kill(after_headers=True, body=half), echo))
            call = client.unary(path)
            self.assert_ok(call)
            self.assertEqual(bytes(call.body), frame(b"hello"), "nothing of the first answer")
            self.assertEqual(cluster.count(path), 2)

    def test_lost_before_the_trailers(self):
        cluster, _, client = self.pair()
        cluster.on(PUT, in_turn(kill(after_headers=True, body=frame(b"first")), answer(b"second")))
        self.assert_ok(client.unary(PUT), b"second")

    def test_headers_of_the_lost_answer_are_dropped(self):
        async def marked(call):
            call.send_headers(GRPC + [("x-attempt", "1")])
            call.peer.drop()
        cluster, _, client = self.pair()
        cluster.on(GET, in_turn(marked, echo))
        call = client.unary(GET)
        self.assert_ok(call, b"hello")
        self.assertIsNone(call.header("x-attempt"))

    def test_stock_client_sees_none_of_it(self):
        cluster = self.cluster()
        proxy = self.proxy(cluster)
        cluster.on(GET, in_turn(kill(after_headers=True), kill(after_headers=True, body=b"\0"), echo))
        self.assertEqual(self.channel(proxy).unary_unary(GET)(b"x", timeout=60), b"x")

    def test_lost_each_time(self):
        cluster, _, client = self.pair()
        cluster.on(GET, kill(after_headers=True, body=b"\0"))
        self.assert_unknown(client.unary(GET))
        self.assertEqual(cluster.count(GET), 3)

    def test_next_leader_gets_what_a_frozen_one_began(self):
        cluster, proxy, client = self.pair(count=2)
        gate = Gate(self.lab)
        cluster[0].on(GET, self.begun(b"\0", gate))
        call = client.start(GET)
        self.wait_received(proxy, 1)
        cluster[0].freeze()
        cluster.lead(1)
        self.assert_ok(client.finish(call), b"hello")

    def test_whole_answer_passes_in_pieces(self):
        """All that a scattered answer consists of arrives, however long it was held."""
        message = os.urandom(40000)
        cluster, proxy, client = self.pair()
        gate = Gate(self.lab, then=self.rest(frame(message)[20000:]))
        cluster.on(GET, self.begun(frame(message)[:20000], gate))
        call = client.start(GET)
        self.wait_received(proxy, 20000)
        client.ping()
        self.assertIsNone(call.headers, "held")
        gate.open()
        self.assert_ok(client.finish(call), message)
        self.assertEqual(cluster.count(GET), 1)

    def test_larger_answer_is_passed_on(self):
        """From a whole window on it waits no longer: the member has no credit to send more."""
        for size in (WINDOW, WINDOW + 5000):
            cluster, _, client = self.pair()
            gate = Gate(self.lab, then=self.rest(b""))
            cluster.on(GET, self.begun(frame(bytes(size - 5)), gate))
            call = client.start(GET)
            self.lab.wait(lambda: call.received == size, f"{size} bytes arrive before the end")
            gate.open()
            self.assert_ok(client.finish(call), bytes(size - 5))

    def test_larger_answer_of_a_small_window(self):
        cluster, _, client = self.pair("--stream-window", "16KiB")
        cluster.on(GET, answer(bytes(1 << 20)))
        self.assert_ok(client.unary(GET), bytes(1 << 20))

    def test_larger_answer_that_is_lost(self):
        cluster, _, client = self.pair()
        cluster.on(GET, kill(after_headers=True, body=frame(bytes(100000))[:90000]))
        call = client.unary(GET)
        self.assert_unknown(call)
        self.assertFalse(call.trailers_only)
        self.assertEqual(cluster.count(GET), 1)

    def test_deadline_while_held(self):
        cluster, _, client = self.pair()
        cluster.on(GET, self.begun(b"\0", Gate(self.lab)))
        call = client.unary(GET, grpc_timeout="2S")
        self.assert_unknown(call, 4)
        self.assertTrue(call.trailers_only)
        upstream = cluster.calls_of(GET)[0]
        self.lab.wait(lambda: upstream.reset == CANCEL, "the upstream call is cancelled")

    def test_client_leaves_while_held(self):
        cluster, proxy, client = self.pair()
        cluster.on(GET, self.begun(b"\0", Gate(self.lab)))
        call = client.start(GET)
        self.wait_received(proxy, 1)
        client.cancel(call)
        upstream = cluster.calls_of(GET)[0]
        self.lab.wait(lambda: upstream.reset == CANCEL, "the upstream call is cancelled")
        self.lab.wait(lambda: proxy.metric("baton_proxy_relay_bytes") == 0, "nothing is held")

    def test_reset_passes_with_what_came_before(self):
        async def begun_and_reset(call):
            call.send_headers(GRPC + [("x-attempt", "1")])
            await call.send_data(b"part")
            call.send_rst(CANCEL)
        cluster, _, client = self.pair()
        cluster.on(GET, begun_and_reset)
        call = client.unary(GET)
        self.assertEqual((call.reset, call.header("x-attempt"), bytes(call.body)), (CANCEL, "1", b"part"))
        self.assertEqual(cluster.count(GET), 1)

    def test_other_methods_get_their_headers_at_once(self):
        cluster, _, client = self.pair()
        gate = Gate(self.lab, then=self.rest(frame(b"late")))
        cluster.on(UNARY, self.begun(b"", gate))
        call = client.wait_headers(client.start(UNARY))
        self.assertFalse(call.done)
        gate.open()
        self.assert_ok(client.finish(call), b"late")

    def test_no_replays_nothing_held(self):
        cluster, _, client = self.pair("--replay-attempts", "0")
        cluster.on(GET, self.begun(b"", Gate(self.lab)))
        self.assertFalse(client.wait_headers(client.start(GET)).done)

    def test_streams_get_their_headers_at_once(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "own.proto"), "w") as proto:
                proto.write('syntax = "proto3"; package own; message M {} service S {\n'
                            "rpc Out(M) returns (stream M) { option idempotency_level = IDEMPOTENT; }\n"
                            "rpc In(stream M) returns (M) { option idempotency_level = IDEMPOTENT; } }")
            out = os.path.join(folder, "own.desc")
            subprocess.run(["protoc", "-I", folder, f"--descriptor_set_out={out}", "own.proto"],
                           check=True)
            cluster, _, client = self.pair("--descriptor-set", out)
        for path in ("/own.S/Out", "/own.S/In"):
            cluster.on(path, self.begun(b"", Gate(self.lab)))
            self.assertFalse(client.wait_headers(client.start(path)).done)

    def begun(self, part, then):
        """A handler that sends HEADERS and a part of the answer, and goes on with another one."""
        async def handler(call):
            call.send_headers(GRPC)
            if part:
                await call.send_data(part)
            await then(call)
        return handler

    def rest(self, data):
        async def handler(call):
            if data:
                await call.send_data(data)
            call.send_headers(OK, end=True)
        return handler

    def wait_received(self, proxy, count):
        proxy.wait_metric("baton_proxy_answer_bytes_total", count)


class GoawayTest(ProxyTest):
    """A healthy leader that renews its connections."""

    def test_graceful_goaway_disturbs_nobody(self):
        cluster, _, client = self.pair()
        gate = Gate(self.lab)
        cluster.on(UNARY, gate)
        old = client.start(UNARY, message=b"old")
        first = cluster[0].wait_calls(UNARY)[0]
        self.lab.call(first.peer.send_goaway, LAST_ID)
        cluster.on(UNARY, echo)
        # The GOAWAY and a later answer on the same connection arrive in order.
        self.lab.wait(lambda: self._moved(client, cluster, first), "new calls use a new connection")
        self.lab.call(first.peer.send_goaway, first.id)
        gate.open()
        self.assert_ok(client.finish(old), b"old")

    def _moved(self, client, cluster, first):
        self.assert_ok(client.unary(UNARY, message=b"new"), b"new")
        return cluster.calls_of(UNARY)[-1].peer is not first.peer

    def test_dials_again_at_once(self):
        cluster, _, client = self.pair()
        self.assert_ok(client.unary(UNARY))
        before = len(cluster[0].peers)
        cluster[0].each_peer(lambda peer: peer.send_goaway(LAST_ID))
        self.lab.wait(lambda: len(cluster[0].peers) > before, "a new connection without a new call")
        self.assert_ok(client.unary(UNARY))


if __name__ == "__main__":
    main()
