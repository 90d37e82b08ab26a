"""Random faults from all sides at once; then each call must have ended, and truthfully.

Members draw what they do with a call: execute it, refuse it in one of the ways that mean "not executed",
or die before, while or after executing it. Meanwhile leaders change, connections die, clients give up.
BATON_SEED repeats the draws of a failed run (not its timing).
"""
import asyncio
import collections
import os
import random
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from h2_backend import GRPC, echo, not_executed
from h2_client import request
from h2_peer import CANCEL, INTERNAL_ERROR, REFUSED_STREAM
from h2_stream import frame
from proxy_harness import GET, PUT, UNARY, ProxyTest, main

PATHS = (UNARY, GET, PUT)
SECONDS = float(os.environ.get("BATON_CHAOS_SECONDS", "4"))


def key_of(message):
    """Messages are a number, and perhaps a weight after it."""
    return bytes(message).split(b"|")[0]


def weight(rng):
    """Mostly none; some need several frames and windows; a few outgrow the replay buffer."""
    dice = rng.randrange(100)
    size = 0 if dice < 75 else rng.randrange(400_000) if dice < 98 else 1_400_000
    return b"|" + bytes(size) if size else b""


class Executions:
    """What members really did: message -> [(member, request id)]."""

    def __init__(self, rng):
        self.rng, self.done, self.calm = rng, collections.defaultdict(list), False

    def member(self, name):
        async def handler(call):
            await call.until_request_ended()
            if call.id > getattr(call.peer, "disowned_above", 2**31):
                return
            await self.rng.choice(self.good if self.calm else self.all)(self, name, call)
        return handler

    def execute(self, name, call):
        self.done[key_of(call.messages[0])].append((name, call.header("baton-request-id")))

    async def answers(self, name, call):
        self.execute(name, call)
        await echo(call)

    async def answers_later(self, name, call):
        self.execute(name, call)
        await asyncio.sleep(self.rng.random() * 0.1)
        await echo(call)

    async def refuses_stream(self, name, call):
        call.send_rst(REFUSED_STREAM)

    async def refuses(self, name, call):
        await not_executed()(call)

    async def goes_away(self, name, call):
        """Disowns this call and whatever comes after it; an honest server cannot disown earlier ones."""
        if call.id == max(call.peer.streams):
            call.peer.disowned_above = call.id - 2
            call.peer.send_goaway(max(call.id - 2, 0))
        else:
            call.send_rst(REFUSED_STREAM)

    async def dies_before(self, name, call):
        call.peer.drop(hard=True)

    async def dies_after(self, name, call):
        self.execute(name, call)
        call.peer.drop(hard=True)

    async def dies_while_answering(self, name, call):
        self.execute(name, call)
        call.send_headers(GRPC)
        await call.send_data(frame(call.messages[0])[:3])
        call.peer.drop()

    async def breaks(self, name, call):
        self.execute(name, call)
        call.send_rst(INTERNAL_ERROR)

    async def fails(self, name, call):
        self.execute(name, call)
        call.send_headers(GRPC)
        call.send_headers([("grpc-status", "10")], end=True)

    good = (answers,)
    all = (answers,) * 12 + (answers_later,) * 6 + (
        refuses_stream, refuses, refuses, goes_away, dies_before, dies_after, dies_while_answering,
        breaks, fails)


class ChaosTest(ProxyTest):
    def test_every_call_ends_truthfully(self):
        seed = int(os.environ.get("BATON_SEED", time.time_ns() % 1_000_000))
        rng = random.Random(seed)
        with self.subTest(seed=seed):
            self._run(rng, "--workers", "2")

    def _run(self, rng, *options):
        cluster = self.cluster(3)
        truth = Executions(rng)
        for member in cluster.members:
            for path in PATHS:
                member.on(path, truth.member(member.name))
        proxy = self.proxy(cluster, *options)
        clients = [self.client(proxy) for _ in range(4)]
        calls = []
        end = time.monotonic() + SECONDS
        while time.monotonic() < end or len(calls) <= 100:
            self.lab.call(self._start_some, rng, clients, calls)
            self._disturb(rng, cluster, calls)
        truth.calm = True
        cluster.lead(0)
        for client, path, text, call in calls:
            client.finish(call)
        self.assertGreater(len(calls), 100)
        for client, path, text, call in calls:
            self._judge(path, text, call, truth.done[key_of(text)])
        self.assertFalse(any(client.closed for client in clients))
        for client in clients:
            self.assert_ok(client.unary(UNARY, message=b"end"))

    def _start_some(self, rng, clients, calls):
        """In the loop's thread: several calls leave in one flight."""
        for _ in range(rng.randrange(1, 20)):
            client, path = rng.choice(clients), rng.choice(PATHS)
            text = b"%d" % len(calls) + weight(rng)
            time_left = rng.choice(("12S", "12S", "12S", "100m"))
            call = client.peer.new_stream()
            call.send_headers(request(path, grpc_timeout=time_left))
            self.lab.spawn(call.send_message(text, end=True))
            calls.append((client, path, text, call))

    def _disturb(self, rng, cluster, calls):
        dice = rng.randrange(20)
        if dice == 0:
            cluster.lead(rng.randrange(3))
        elif dice == 1:
            cluster.no_leader()
        elif dice == 2:
            cluster[rng.randrange(3)].kill_connections()
        elif dice < 6 and calls:
            client, _, _, call = rng.choice(calls[-30:])
            if not call.done:
                call.cancelled = True
                client.cancel(call, CANCEL)
                call.lost = True  # for `finish`: nothing more comes
        else:
            rng.choice(calls)[0].ping()
        if not cluster[0].state.known and rng.randrange(3) == 0:
            cluster.lead(rng.randrange(3))

    def _judge(self, path, text, call, executions):
        about = f"{path} {text[:20]} of {len(text)}: {call.describe()}; executed {executions}"
        if path == UNARY:
            self.assertLessEqual(len(executions), 1, f"sent again, though it may not be: {about}")
        self.assertLessEqual(len(executions), 3, about)
        if path == PUT:
            self.assertLessEqual(len({request_id for _, request_id in executions}), 1, about)
        if getattr(call, "cancelled", False):
            return
        nothing, unknown = call.trailer("baton-not-executed"), call.trailer("baton-outcome")
        if call.grpc_status == 0:
            self.assertTrue(call.messages == [text], about)
            self.assertGreaterEqual(len(executions), 1, about)
        elif call.grpc_status in (4, 14):
            self.assertEqual([nothing, unknown].count(None), 1, f"one of both must be said: {about}")
        elif call.grpc_status != 10:
            self.assertEqual(call.reset, INTERNAL_ERROR, about)
        if nothing is not None:
            self.assertEqual(executions, [], f"it was executed: {about}")


if __name__ == "__main__":
    main()
