"""A closed-loop load through the proxy: so many clients, each with one call in flight and no second attempt.

Clients of four trades: `put` unique keys; `add` one to a counter by compare-and-set; `write` a register of one's own
and `read` those of others. Every call is recorded.
"""
import itertools
import threading
import time
import uuid

import grpc

import history as histories
import stubs
from cluster import channel, wait_until

DEADLINE_S = 60  # of each call


def describe_error(error):
    """(code, outcome, metadata, details) of a grpc.RpcError."""
    trailers = dict(iter(error.trailing_metadata() or ()))
    outcome = "not executed" if trailers.get("baton-not-executed") == "1" else "unknown"
    return error.code().name, outcome, trailers, error.details()


def _ended_since(record, since):
    """Newest first; a record is in the order in which its calls ended."""
    return itertools.takewhile(lambda op: op.end >= since, reversed(list(record)))


class Clients:
    """What clients did below a prefix of their own, one list of records each, and whether it is sound."""

    def __init__(self, clients):
        self.kv = stubs.load("baton.v1.kv_pb2")
        self.stub_class = stubs.load("baton.v1.kv_pb2_grpc").KvServiceStub
        self.run = uuid.uuid4().hex[:8]
        self.records = [[] for _ in range(clients)]

    def history(self):
        return histories.History([op for record in self.records for op in list(record)])

    def acknowledged_puts(self, since=0.0):
        return sum(1 for record in self.records for op in _ended_since(record, since)
                   if op.kind == "put" and op.code == "OK" and op.begin >= since)

    def wait_progress(self, puts=200, since=None):
        """Until so many puts issued after `since` (now) are acknowledged."""
        since = time.monotonic() if since is None else since
        wait_until(f"{puts} puts are acknowledged", lambda: self.acknowledged_puts(since) >= puts)

    def _key(self, *parts):
        return "/".join(["load", self.run, *map(str, parts)])

    def _addition(self, seen):
        """(value, request) that adds one to the counter as it was seen."""
        key, value = self._key("counter").encode(), int(seen.kv.value or b"0") + 1
        unchanged = self.kv.Compare(key=key, target=self.kv.Compare.TARGET_MOD_REVISION,
                                    result=self.kv.Compare.RESULT_EQUAL, number=seen.kv.mod_revision)
        put = self.kv.Operation(put=self.kv.PutRequest(key=key, value=str(value).encode()))
        return value, self.kv.TxnRequest(compare=[unchanged], then_ops=[put])

    def _record(self, client, kind, key, value, begin, answer, told, read):
        """A call that has ended; told: code, outcome, metadata, detail. Gives the answer back."""
        end = time.monotonic()
        code, outcome, metadata, detail = told
        if answer is not None and read:
            value = read(answer)
        self.records[client].append(histories.Op(
            client, kind, key, value, begin, end, code, outcome, answer.revision if answer else 0,
            int(metadata.get("baton-epoch", 0)), detail))
        return answer

    def _forget_if_lost(self, client, answer):
        """An addition whose comparison failed added nothing."""
        if answer is not None and not answer.succeeded:
            lost = self.records[client].pop()
            self.records[client].append(lost._replace(kind="add lost"))

    def stored(self, address, *parts):
        """key -> (value, version, mod_revision) of what is there now below the load's own prefix."""
        found, key, prefix = {}, self._key(*parts).encode() + b"/", self._key(*parts).encode() + b"0"
        with channel(address) as made:
            stub = self.stub_class(made)
            while key:
                page = stub.Range(self.kv.RangeRequest(key=key, range_end=prefix), timeout=DEADLINE_S)
                for kv in page.kvs:
                    found[kv.key.decode()] = (int(kv.value), kv.version, kv.mod_revision)
                key = page.next_key if page.more else b""
        return found

    def counter(self, address):
        with channel(address) as made:
            request = self.kv.GetRequest(key=self._key("counter").encode())
            return int(self.stub_class(made).Get(request, timeout=DEADLINE_S).kv.value or b"0")

    def problems(self, cluster, errors_allowed=False):
        """Everything that must be true after any fault; empty when it is."""
        history = self.history()
        found = [] if errors_allowed else list(histories.check_errors(history))
        found += histories.check_unique_keys(history, self.stored(cluster.proxy, "unique"))
        found += histories.check_counter(history, self.counter(cluster.proxy))
        found += histories.check_registers(history)
        found += histories.check_epochs_seen(history)
        found += histories.check_leaderships(cluster.history())
        return found


class Load(Clients):
    """clients: how many calls are always in flight. start(), faults, stop() -> History; then verify()."""

    def __init__(self, address, clients=64):
        super().__init__(clients)
        self.channels = [channel(address) for _ in range(4)]
        adders, writers = max(1, clients // 16), max(1, clients // 8)
        self.writers = writers
        self.stopping = threading.Event()
        self.threads = []
        for client in range(clients):
            work = (self._add if client < adders else self._write if client < adders + writers
                    else self._read if client < adders + 2 * writers else self._put)
            self.threads.append(threading.Thread(target=self._loop, args=(client, work), daemon=True))

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        self.wait_progress()
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join()
        for made in self.channels:
            made.close()
        self.channels = []
        return self.history()

    # The clients.

    def _loop(self, client, work):
        stub = self.stub_class(self.channels[client % len(self.channels)])
        turn = 0
        while not self.stopping.is_set():
            turn += 1
            work(client, stub, turn)

    def _call(self, client, kind, key, value, method, request, read=None):
        """One attempt, recorded. read: takes the value from the answer."""
        begin = time.monotonic()
        answer = None
        try:
            answer, call = method.with_call(request, timeout=DEADLINE_S)
            told = "OK", "done", dict(call.initial_metadata()), ""
        except grpc.RpcError as error:
            told = describe_error(error)
        return self._record(client, kind, key, value, begin, answer, told, read)

    def _put(self, client, stub, turn):
        key = self._key("unique", client, turn)
        self._call(client, "put", key, turn, stub.Put,
                   self.kv.PutRequest(key=key.encode(), value=str(turn).encode()))

    def _write(self, client, stub, turn):
        key = self._key("register", client)
        self._call(client, "write", key, turn, stub.Put,
                   self.kv.PutRequest(key=key.encode(), value=str(turn).encode()))

    def _read(self, client, stub, turn):
        key = self._key("register", client - self.writers)
        self._call(client, "read", key, 0, stub.Get, self.kv.GetRequest(key=key.encode()),
                   read=lambda answer: int(answer.kv.value or b"0"))

    def _add(self, client, stub, turn):
        key = self._key("counter")
        seen = self._call(client, "look", key, 0, stub.Get, self.kv.GetRequest(key=key.encode()))
        if seen is None:
            return
        value, request = self._addition(seen)
        self._forget_if_lost(client, self._call(client, "add", key, value, stub.Txn, request))
