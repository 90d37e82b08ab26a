"""The process: options, draining, several workers, and what it tells over HTTP."""
import json
import os
import re
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from h2_backend import GRPC, Gate, echo, in_turn, kill, silent
from h2_peer import LAST_ID, NO_ERROR
from proxy_harness import GET, PARKED, STREAM, UNARY, ProxyTest, main, run_proxy

OPTIONS = ("listen http members cluster-id workers park-timeout park-calls park-bytes replay-bytes "
           "replay-attempts replay-window leader-grace stream-window relay-bytes upstream-ping "
           "upstream-connections drain-timeout max-connections max-streams log-level").split()


class OptionsTest(ProxyTest):
    GOOD = ("--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--members", "127.0.0.1:1")

    def assert_usage(self, *args, says):
        """Refused with exit code 2, a message that names the culprit, and nothing on stdout."""
        code, out, errors = run_proxy(*args)
        self.assertEqual(code, 2, f"{args}: {out}{errors}")
        self.assertIn(says, errors)
        self.assertLess(len(errors.splitlines()), 10, errors)
        self.assertEqual(out, "")

    def test_help_names_every_option(self):
        code, out, _ = run_proxy("--help")
        self.assertEqual(code, 0)
        for name in OPTIONS:
            self.assertIn(f"--{name}", out)

    def test_version(self):
        code, out, _ = run_proxy("--version")
        self.assertEqual(code, 0)
        self.assertRegex(out, r"^baton-proxy \d+\.\d+\.\d+")

    def test_unknown_option(self):
        self.assert_usage(*self.GOOD, "--park-tiemout", "3s", says="park-timeout")
        self.assert_usage(*self.GOOD, "--no-such-thing", says="no-such-thing")

    def test_words_that_are_no_option(self):
        self.assert_usage(*self.GOOD, "start", says="start")

    def test_members_are_required(self):
        self.assert_usage("--listen", "127.0.0.1:0", says="members")
        self.assert_usage("--listen", "127.0.0.1:0", "--members", "", says="members")

    def test_bad_addresses(self):
        for bad in ("localhost", "host:port", "127.0.0.1:70000", "127.0.0.1:-1", ":", "a:b:c"):
            self.assert_usage("--members", "127.0.0.1:1", "--listen", bad, says="listen")
            self.assert_usage(*self.GOOD[:4], "--members", bad, says=bad)

    def test_values_out_of_range(self):
        for name, value in (("workers", "0"), ("workers", "x"), ("park-timeout", "soon"),
                            ("park-calls", "-1"), ("park-bytes", "1XB"), ("replay-attempts", "-1"),
                            ("stream-window", "1"), ("upstream-connections", "0"),
                            ("max-connections", "0"), ("max-streams", "0"), ("log-level", "loud")):
            self.assert_usage(*self.GOOD, f"--{name}", value, says=name)

    def test_value_is_missing(self):
        self.assert_usage(*self.GOOD, "--workers", says="workers")

    def test_taken_port(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            addr = "127.0.0.1:%d" % taken.getsockname()[1]
            for args in (("--listen", addr, "--http", "127.0.0.1:0"),
                         ("--listen", "127.0.0.1:0", "--http", addr)):
                code, _, errors = run_proxy(*args, "--members", "127.0.0.1:1")
                self.assertEqual(code, 1, errors)
                self.assertIn(addr, errors)

    def test_log_level(self):
        cluster = self.cluster()
        loud = self.proxy(cluster, "--log-level", "debug")
        self.assert_ok(self.client(loud).unary(UNARY))
        self.lab.wait(lambda: len(loud.lines) > 2, "it says more")

    def test_replay_methods(self):
        cluster, _, client = self.pair("--replay-methods", f"{UNARY[1:]},other.Svc/X")
        cluster.on(UNARY, in_turn(kill(), echo)).on("/test.Svc/Other", in_turn(kill(), echo))
        self.assert_ok(client.unary(UNARY))
        self.assert_unknown(client.unary("/test.Svc/Other"))

    def test_descriptor_set(self):
        """Idempotency levels of a user's own service, and request ids for its mutations."""
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "own.proto"), "w") as proto:
                proto.write('syntax = "proto3"; package own; message M {} service S {\n'
                            "rpc Read(M) returns (M) { option idempotency_level = NO_SIDE_EFFECTS; }\n"
                            "rpc Set(M) returns (M) { option idempotency_level = IDEMPOTENT; }\n"
                            "rpc Add(M) returns (M); }")
            out = os.path.join(folder, "own.desc")
            subprocess.run(["protoc", "-I", folder, f"--descriptor_set_out={out}", "own.proto"],
                           check=True)
            cluster, proxy, client = self.pair("--descriptor-set", out)
            deduped = self.client(self.proxy(cluster, "--descriptor-set", out, "--dedup-service", "own.S"))
        for path, replayed in (("/own.S/Read", True), ("/own.S/Set", True), ("/own.S/Add", False)):
            cluster.on(path, in_turn(kill(), echo))
            call = client.unary(path)
            self.assertEqual(call.grpc_status, 0 if replayed else 14, f"{path}: {call.describe()}")
        cluster.on("/own.S/Add", in_turn(kill(), echo))
        self.assert_ok(deduped.unary("/own.S/Add"))
        self.assertIsNotNone(cluster.calls_of("/own.S/Add")[-1].header("baton-request-id"))
        self.assertTrue(proxy.alive)

    def test_descriptor_set_that_is_none(self):
        code, _, errors = run_proxy(*self.GOOD, "--descriptor-set", "/nonexistent/x.desc")
        self.assertIn(code, (1, 2), errors)
        self.assertIn("/nonexistent/x.desc", errors)

    def test_authority(self):
        cluster, _, client = self.pair("--authority", "inner.example")
        self.assert_ok(client.unary(UNARY))
        self.assertEqual(cluster.calls_of(UNARY)[0].header(":authority"), "inner.example")


class DrainTest(ProxyTest):
    def test_idle_proxy_ends_at_once(self):
        _, proxy, client = self.pair("--drain-timeout", "60s")
        self.assert_ok(client.unary(UNARY))
        proxy.term()
        self.assertEqual(proxy.wait_exit(), 0)
        self.lab.wait(lambda: client.closed, "the client has read all of it")
        self.assertEqual(client.peer.goaways[-1][0], NO_ERROR)

    def test_calls_in_flight_are_finished(self):
        cluster, proxy, client = self.pair("--drain-timeout", "60s")
        gate = Gate(self.lab)
        cluster.on(UNARY, gate)
        calls = [client.start(UNARY, message=b"%d" % i) for i in range(5)]
        cluster[0].wait_calls(UNARY, 5)
        proxy.term()
        self.lab.wait(lambda: client.peer.goaways, "GOAWAY")
        self.assertEqual(client.peer.goaways[0], (NO_ERROR, LAST_ID), "the first step disowns nothing")
        self.assertFalse(any(call.done for call in calls))
        gate.open()
        for i, call in enumerate(calls):
            self.assert_ok(client.finish(call), b"%d" % i)
        self.assertEqual(proxy.wait_exit(), 0)
        self.assertEqual(client.peer.pings_before_goaway, 0, "who answers the PING has seen the first step")
        self.assertEqual(client.peer.pings, 1)

    def test_calls_between_the_two_steps_are_served(self):
        """A call that crossed the first GOAWAY on the wire is answered, or refused as not processed."""
        cluster, proxy, client = self.pair("--drain-timeout", "60s")
        cluster.on(GET, silent)
        held = client.start(GET)
        cluster[0].wait_calls(GET)
        proxy.term()
        self.lab.wait(lambda: client.peer.goaways, "GOAWAY")
        crossing = client.start(UNARY)

        def disowned():
            """The second step was there already when the call started."""
            return client.peer.goaways[-1][1] < crossing.id
        self.lab.wait(lambda: crossing.done or disowned(), "an end of the crossing call")
        if not (crossing.refused or crossing.reset == 7 or disowned()):
            self.assert_ok(crossing)
        client.cancel(held)
        self.assertEqual(proxy.wait_exit(), 0)

    def test_slow_client_loses_no_call(self):
        """It reads of the end long after another client has left for it, and starts calls until then."""
        _, proxy, slow = self.pair("--drain-timeout", "60s")
        quick = self.client(proxy)
        for client in (slow, quick):
            self.assert_ok(client.unary(UNARY))
        self.lab.call(slow.peer.freeze)
        proxy.term()
        self.lab.wait(lambda: quick.closed, "the other client has left")
        call = slow.start(UNARY)
        self.lab.call(slow.peer.thaw)
        self.assert_ok(slow.finish(call))
        self.assertEqual(proxy.wait_exit(), 0)

    def test_no_new_connections(self):
        cluster, proxy, client = self.pair("--drain-timeout", "60s")
        cluster.on(UNARY, silent)
        call = client.start(UNARY)
        cluster[0].wait_calls(UNARY)
        proxy.term()

        def refused():
            try:
                socket.create_connection(tuple(proxy.addr.rsplit(":", 1)), 5).close()
                return False
            except ConnectionResetError:  # it was still queued when the listener was closed
                return False
            except ConnectionRefusedError:
                return True
        self.lab.wait(refused, "new connections are refused")
        client.cancel(call)
        self.assertEqual(proxy.wait_exit(), 0)

    def test_long_streams_end_with_unavailable(self):
        cluster, proxy, client = self.pair("--drain-timeout", "1s")

        async def begin(call):
            call.send_headers(GRPC)
            await call.send_message(b"one")
        cluster.on(STREAM, begin).on(UNARY, silent)
        stream, call = client.start(STREAM), client.start(UNARY)
        self.lab.wait(lambda: stream.messages, "the first message")
        cluster[0].wait_calls(UNARY)
        proxy.term()
        self.assert_status(client.finish(stream), 14, baton_reason="DRAINING")
        self.assertEqual(stream.messages, [b"one"])
        self.assert_unknown(client.finish(call))
        self.assert_status(call, 14, baton_reason="DRAINING")
        self.assertEqual(proxy.wait_exit(), 0)

    def test_parked_calls_end_as_not_executed(self):
        _, proxy, client = self.pair("--drain-timeout", "1s", leader=None)
        call = client.start(UNARY)
        proxy.wait_metric(PARKED, 1)
        proxy.term()
        self.assert_not_executed(client.finish(call))
        self.assertEqual(proxy.wait_exit(), 0)

    def test_parked_calls_are_served_if_a_leader_comes(self):
        cluster, proxy, client = self.pair("--drain-timeout", "60s", leader=None)
        call = client.start(UNARY)
        proxy.wait_metric(PARKED, 1)
        proxy.term()
        self.lab.wait(lambda: client.peer.goaways, "GOAWAY")
        cluster.lead(0)
        self.assert_ok(client.finish(call))
        self.assertEqual(proxy.wait_exit(), 0)

    def test_stock_client_moves_to_another_proxy(self):
        """Unary calls of a client that knows two proxies: not one fails."""
        cluster = self.cluster()
        first, second = self.proxy(cluster, "--workers", "2"), self.proxy(cluster)
        both = f"ipv4:{first.addr},{second.addr}"
        call = self.channel(both).unary_unary(UNARY)
        answers = [call(b"%d" % i, timeout=60) for i in range(20)]
        pending = [call.future(b"%d" % i, timeout=60) for i in range(20)]
        first.term()
        answers += [call(b"%d" % i, timeout=60, wait_for_ready=True) for i in range(20)]
        answers += [future.result() for future in pending]
        self.assertEqual(len(answers), 60)
        self.assertEqual(first.wait_exit(), 0)

    def test_second_term_ends_at_once(self):
        """Also while one worker has ended and the other one has not."""
        cluster, proxy, client = self.pair("--drain-timeout", "10m", "--workers", "2")
        cluster.on(UNARY, silent)
        client.start(UNARY)
        cluster[0].wait_calls(UNARY)
        proxy.term()
        self.lab.wait(lambda: client.peer.goaways, "GOAWAY")
        self.lab.wait(lambda: len(cluster[0].live_peers()) == 1, "the idle worker leaves the member")
        proxy.term()
        self.assertEqual(proxy.wait_exit(), 1)
        proxy.expected_exit = 1

    def test_client_that_left_in_good_order(self):
        """GOAWAY of a client: its calls are finished all the same."""
        cluster, _, client = self.pair()
        gate = Gate(self.lab)
        cluster.on(UNARY, gate)
        call = client.start(UNARY)
        cluster[0].wait_calls(UNARY)
        self.lab.call(client.peer.send_goaway, 0)
        gate.open()
        self.assert_ok(client.finish(call), b"hello")

    def test_term_before_any_leader(self):
        proxy = self.proxy("127.0.0.1:1", ready=False)
        proxy.term()
        self.assertEqual(proxy.wait_exit(), 0)


class WorkersTest(ProxyTest):
    def test_two_workers_share_the_connections(self):
        cluster = self.cluster(2)
        proxy = self.proxy(cluster, "--workers", "2")
        clients = [self.client(proxy) for _ in range(10)]
        calls = [client.start(UNARY, message=b"%d" % i) for i, client in enumerate(clients)]
        for i, call in enumerate(calls):
            self.assert_ok(clients[i].finish(call), b"%d" % i)
        used = {call.peer for call in cluster.calls_of(UNARY)}
        self.assertGreaterEqual(len(used), 2, "each worker has connections of its own")
        cluster.lead(1)
        for client in clients:
            self.lab.wait(lambda: client.unary(UNARY).grpc_status == 0
                          and cluster[1].count(UNARY) > 0, "every worker follows")
        self.assertGreaterEqual(len({call.peer for call in cluster[1].calls_of(UNARY)}), 2)
        proxy.term()
        self.assertEqual(proxy.wait_exit(), 0)

    def test_parked_on_both_workers(self):
        cluster = self.cluster(leader=None)
        proxy = self.proxy(cluster, "--workers", "2", ready=False)
        clients = [self.client(proxy) for _ in range(4)]
        calls = [(client, client.start(UNARY)) for client in clients]
        proxy.wait_metric(PARKED, 4)
        cluster.lead(0)
        for client, call in calls:
            self.assert_ok(client.finish(call))

    def test_drain_of_both_workers(self):
        cluster = self.cluster()
        proxy = self.proxy(cluster, "--workers", "2", "--drain-timeout", "60s")
        gate = Gate(self.lab)
        cluster.on(UNARY, gate)
        clients = [self.client(proxy) for _ in range(4)]
        calls = [(client, client.start(UNARY)) for client in clients]
        cluster[0].wait_calls(UNARY, 4)
        proxy.term()
        for client in clients:
            self.lab.wait(lambda: client.peer.goaways, "GOAWAY on every connection")
        gate.open()
        for client, call in calls:
            self.assert_ok(client.finish(call))
        self.assertEqual(proxy.wait_exit(), 0)


class HttpTest(ProxyTest):
    def test_health(self):
        _, proxy, _ = self.pair()
        self.assertEqual(proxy.get("/healthz")[0], 200)
        self.assertEqual(proxy.get("/no-such-page")[0], 404)

    def test_ready_once_a_leader_was_known(self):
        cluster = self.cluster(leader=None)
        proxy = self.proxy(cluster, ready=False)
        self.assertEqual(proxy.get("/healthz")[0], 200)
        self.assertEqual(proxy.get("/readyz")[0], 503)
        self.assertEqual(proxy.get("/readyz?leader")[0], 503)
        cluster.lead(0)
        self.lab.wait(lambda: proxy.get("/readyz")[0] == 200, "ready")
        proxy.wait_ready()
        cluster.no_leader()
        self.lab.wait(lambda: proxy.get("/readyz?leader")[0] == 503, "the strict one sees the failover")
        self.assertEqual(proxy.get("/readyz")[0], 200, "parking is the product")

    def test_not_ready_while_draining(self):
        cluster, proxy, client = self.pair("--drain-timeout", "60s")
        cluster.on(UNARY, silent)
        call = client.start(UNARY)
        cluster[0].wait_calls(UNARY)
        proxy.term()
        self.lab.wait(lambda: proxy.get("/readyz")[0] == 503, "not ready any more")
        self.assertEqual(proxy.get("/healthz")[0], 200)
        client.cancel(call)
        self.assertEqual(proxy.wait_exit(), 0)

    def test_status_names_the_leader(self):
        cluster, proxy, _ = self.pair(count=2)
        status, text = proxy.get("/status")
        self.assertEqual(status, 200)
        self.assertIn(cluster[0].addr, text)
        json.loads(text)

    def test_metrics_are_well_formed(self):
        _, proxy, client = self.pair()
        self.assert_ok(client.unary(UNARY))
        _, text = proxy.get("/metrics")
        typed, helped = (set(re.findall(rf"^# {kind} (\S+)", text, re.M)) for kind in ("TYPE", "HELP"))
        self.assertEqual(typed, helped)
        for name, _ in proxy.metrics():
            base = re.sub(r"_(bucket|sum|count)$", "", name)
            self.assertTrue(name in typed or base in typed, f"{name} has no TYPE")
        for name in typed:
            self.assertRegex(name, r"^(baton_(proxy|build)_|process_)\w+$")

    def test_metrics_move(self):
        cluster, proxy, client = self.pair()
        cluster.on(GET, in_turn(kill(), echo))
        before = proxy.metrics()
        self.assert_ok(client.unary(UNARY))
        self.assert_ok(client.unary(GET))

        def moved(*words):
            return [name for (name, labels), value in proxy.metrics().items()
                    if value > before.get((name, labels), 0) and any(word in name for word in words)]
        self.lab.wait(lambda: moved("calls", "requests"), "the calls are counted")
        self.lab.wait(lambda: moved("replay", "retries", "attempt"), "the repetition is counted")

    def test_limits_are_counted(self):
        _, proxy, client = self.pair("--park-calls", "1", leader=None)
        client.start(UNARY)
        proxy.wait_metric(PARKED, 1)
        self.assert_not_executed(client.unary(UNARY))
        client.unary(UNARY, ("x-big", "v" * 20_000))
        for limit in ("park", "headers"):
            proxy.wait_metric("baton_proxy_limit_hits_total", 1, limit=limit)
            self.assertEqual(proxy.metric("baton_proxy_limit_hits_total", limit=limit), 1, limit)

    def test_outcomes_are_counted(self):
        cluster, proxy, client = self.pair()
        cluster.on(GET, in_turn(kill(), echo)).on(UNARY, kill())
        self.assert_ok(client.unary(GET))
        self.assert_unknown(client.unary(UNARY))
        proxy.wait_metric("baton_proxy_calls_total", 2)
        self.assertEqual(proxy.metric("baton_proxy_calls_total", status="OK"), 1)
        self.assertEqual(proxy.metric("baton_proxy_calls_total", status="UNAVAILABLE"), 1)
        self.assertEqual(proxy.metric("baton_proxy_replays_total"), 1)
        self.assertEqual(proxy.metric("baton_proxy_leader_epoch"), 1)

    def test_http_survives_nonsense(self):
        _, proxy, client = self.pair()
        with socket.create_connection(tuple(proxy.http_addr.rsplit(":", 1)), 5) as plain:
            plain.sendall(b"\0\xff nonsense\r\n\r\n" * 100)
        self.assertEqual(proxy.get("/healthz")[0], 200)
        self.assert_ok(client.unary(UNARY))


if __name__ == "__main__":
    main()
