"""Stock Python clients that listen: they open their stream anew whenever it ends, with the last token, and record all that
they were told (see heard.py)."""
import threading

import grpc

import stubs
from cluster import channel, wait_until
from heard import EVENTS, PROGRESS, SNAPSHOT, Key, Told
from workload import describe_error

AGAIN_S = 0.05  # between two openings


def key_of(event):
    kv = event.kv
    return Key(kv.key.decode(), None if event.deleted else int(kv.value), kv.version, kv.mod_revision, event.deleted)


class Listener:
    """One at a time: start(), what happens to the cluster, stop(). told: all messages; ends: (code, reason) of each
    stream that ended, but for those that stop() or leave() ended."""

    def __init__(self, address):
        self.channel = channel(address)
        self.told, self.ends = [], []
        self.token, self.streams, self.whole = b"", 0, 0
        self.lock = threading.Lock()
        self.leaving, self.call, self.thread = threading.Event(), None, None

    def start(self):
        self.leaving.clear()
        self.thread = threading.Thread(target=self._loop, daemon=True)
        self.thread.start()
        return self

    def leave(self):
        """Ends the stream; start() goes on where it was."""
        with self.lock:
            self.leaving.set()
            if self.call:
                self.call.cancel()
        self.thread.join()

    def stop(self):
        self.leave()
        self.channel.close()

    def _loop(self):
        while not self.leaving.is_set():
            try:
                with self.lock:
                    if self.leaving.is_set():
                        return
                    self.call = self._open()
                for message in self.call:
                    self._take(message)
                self.ends.append(("OK", ""))
            except grpc.RpcError as error:
                if not self.leaving.is_set():
                    code, _, trailers, _ = describe_error(error)
                    self.ends.append((code, trailers.get("baton-reason", "")))
            self.streams += 1
            self.leaving.wait(AGAIN_S)

    def _take(self, message):
        told = self._read(message)
        self.told.append(told)
        if not told.more:
            self.token = message.resume_token
            self.whole = told.revision

    def wait_open(self):
        wait_until("the first message is told", lambda: self.told)
        return self

    def wait_told(self, revision):
        """Until all up to this revision was told."""
        wait_until(f"all up to {revision} is told", lambda: self.whole >= revision)


class Watcher(Listener):
    def __init__(self, address, *prefixes, snapshot=True, **request):
        super().__init__(address)
        self.kv = stubs.load("baton.v1.kv_pb2")
        self.stub = stubs.load("baton.v1.kv_pb2_grpc").KvServiceStub(self.channel)
        self.prefixes = [prefix.encode() for prefix in prefixes]
        self.snapshot, self.request = snapshot, request

    def _open(self):
        start = {"resume_token": self.token} if self.token else self.request
        return self.stub.Watch(self.kv.WatchRequest(prefixes=self.prefixes, snapshot=self.snapshot, **start))

    def _read(self, message):
        kind = (EVENTS, SNAPSHOT, PROGRESS)[message.kind]
        return Told(self.streams, kind, message.revision, message.epoch, message.cluster_id,
                    [key_of(event) for event in message.events], (), message.restart, message.more)

