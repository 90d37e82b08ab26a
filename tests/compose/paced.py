"""A load at a steady rate through the published ports: many clients, each with a schedule of its own and one call in
flight, who know both proxies' addresses and make no second attempt themselves. Every call is recorded, as
tests/lib/workload.py does.

A client whose turn comes while its call still waits leaves that turn out, so that what waits is bounded by the number
of clients."""
import asyncio
import collections
import math
import statistics
import threading
import time
import uuid

import grpc

import workload
from cluster import CHANNEL_OPTIONS

DEADLINE_S = 15  # of each call, with its repetitions
REPEAT_PAUSE_S = 0.05
CHANNELS = 8
# A GOAWAY makes gRPC's own library drop calls that it has not sent yet, and take them to another connection; with retries
# off it tells them to fail. So they are left as they are by default: on, without a policy, so that nothing which was sent
# is sent again.
OPTIONS = [option for option in CHANNEL_OPTIONS if option[0] != "grpc.enable_retries"]
ADDERS, WRITERS, READERS = 2, 4, 8  # besides those who put
SLOW_PERIOD_S = 0.2                 # of the turns of these


class PacedLoad(workload.Clients):
    """rate: puts a second in all. repeat: calls that end with UNAVAILABLE are made again, under the same request id."""

    def __init__(self, addresses, rate=1000, putters=500, repeat=False):
        super().__init__(putters + ADDERS + WRITERS + READERS)
        self.addresses, self.putters, self.period_s, self.repeat = addresses, putters, putters / rate, repeat
        self.attempts = 0
        self.begin = self.end = None
        self.stopping = threading.Event()
        self.failure = None
        self.thread = threading.Thread(target=self._run_thread, daemon=True)

    def __enter__(self):
        self.begin = time.monotonic()
        self.thread.start()
        self.wait_progress()
        return self

    def __exit__(self, *_):
        self.stop()

    def acknowledged_puts(self, since=0.0):
        if self.failure:
            raise self.failure
        return super().acknowledged_puts(since)

    def stop(self):
        self.stopping.set()
        self.thread.join()
        self.end = self.end or time.monotonic()
        return self.history()

    def rate(self):
        """Puts acknowledged in the median second."""
        seconds = collections.Counter(int(op.end - self.begin) for op in self.history().acknowledged("put"))
        return statistics.median(seconds[number] for number in range(math.ceil(self.end - self.begin)))

    # The clients.

    def _channel(self, number):
        """Half of the channels prefer the second proxy."""
        order = self.addresses if number % 2 == 0 else self.addresses[::-1]
        return grpc.aio.insecure_channel("ipv4:" + ",".join(order), options=OPTIONS)

    def _run_thread(self):
        try:
            asyncio.run(self._run())
        except Exception as failure:
            self.failure = failure

    async def _run(self):
        channels = [self._channel(number) for number in range(CHANNELS)]
        works = ([self._put] * self.putters + [self._add] * ADDERS + [self._write] * WRITERS + [self._read] * READERS)
        await asyncio.gather(*(self._loop(client, work, self.stub_class(channels[client % CHANNELS]))
                               for client, work in enumerate(works)))
        for channel in channels:
            await channel.close()

    async def _loop(self, client, work, stub):
        period = self.period_s if client < self.putters else SLOW_PERIOD_S
        due = time.monotonic() + period * client / len(self.records)
        turn = 0
        while not self.stopping.is_set():
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            if self.stopping.is_set():
                break
            turn += 1
            await work(client, stub, turn)
            due += period * (1 + max(0.0, time.monotonic() - due) // period)

    async def _call(self, client, kind, key, value, method, request, read=None):
        """One call, recorded. read: takes the value from the answer."""
        begin = time.monotonic()
        try:
            answer, metadata = await self._attempts(method, request, begin + DEADLINE_S)
            told = "OK", "done", metadata, ""
        except grpc.RpcError as error:
            answer = None
            told = workload.describe_error(error)
        return self._record(client, kind, key, value, begin, answer, told, read)

    async def _attempts(self, method, request, until):
        """(answer, its metadata) of the only attempt, or of the first one that does not end with UNAVAILABLE."""
        sent = [("baton-request-id", uuid.uuid4().hex)] if self.repeat else None
        while True:
            self.attempts += 1
            call = method(request, timeout=until - time.monotonic(), metadata=sent)
            try:
                answer = await call
                return answer, dict(iter(await call.initial_metadata()))
            except grpc.RpcError as error:
                if not self.repeat or error.code() != grpc.StatusCode.UNAVAILABLE:
                    raise
                if time.monotonic() + REPEAT_PAUSE_S > until:
                    raise
            await asyncio.sleep(REPEAT_PAUSE_S)

    async def _put(self, client, stub, turn):
        await self._store(client, "put", self._key("unique", client, turn), turn, stub)

    async def _write(self, client, stub, turn):
        await self._store(client, "write", self._key("register", client), turn, stub)

    async def _store(self, client, kind, key, value, stub):
        request = self.kv.PutRequest(key=key.encode(), value=str(value).encode())
        await self._call(client, kind, key, value, stub.Put, request)

    async def _look(self, client, kind, key, stub):
        return await self._call(client, kind, key, 0, stub.Get, self.kv.GetRequest(key=key.encode()),
                                read=lambda answer: int(answer.kv.value or b"0"))

    async def _read(self, client, stub, turn):
        written = self.putters + ADDERS + client % WRITERS
        await self._look(client, "read", self._key("register", written), stub)

    async def _add(self, client, stub, turn):
        key = self._key("counter")
        seen = await self._look(client, "look", key, stub)
        if seen is None:
            return
        value, request = self._addition(seen)
        self._forget_if_lost(client, await self._call(client, "add", key, value, stub.Txn, request))
