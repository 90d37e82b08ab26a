"""Stock Python clients that listen: watchers and subscribers that open their stream anew whenever it ends, with the last
token, and record all that they were told (see heard.py)."""
import threading

import grpc

import stubs
from cluster import channel, wait_until
from heard import EVENTS, PROGRESS, QUIET, SNAPSHOT, Key, Life, Told
from workload import describe_error

AGAIN_S = 0.05  # between two openings


def key_of(event):
    kv = event.kv
    return Key(kv.key.decode(), None if event.deleted else int(kv.value), kv.version, kv.mod_revision, event.deleted)


def life_of(worker, gone=False, expired=False):
    return Life(worker.id, worker.incarnation, worker.type, worker.addr, worker.slot if worker.has_slot else None,
                worker.slot_grant, worker.mod_revision, gone, expired)


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


class Subscriber(Listener):
    """Of all topics. leaders: (id, epoch) as told; members: the sets of ids as told."""

    def __init__(self, address, *prefixes, kind="test", topics=("MEMBERS", "LEADER", "WORKERS", "KEYS"), worker_types=()):
        super().__init__(address)
        self.pb = stubs.load("baton.v1.notification_pb2")
        self.stub = stubs.load("baton.v1.notification_pb2_grpc").NotificationServiceStub(self.channel)
        self.request = self.pb.SubscribeRequest(
            kind=kind, topics=[self.pb.Topic.Value("TOPIC_" + topic) for topic in topics],
            prefixes=[prefix.encode() for prefix in prefixes], worker_types=worker_types)
        self.leaders, self.members = [], []

    def _open(self):
        self.request.resume_token = self.token
        return self.stub.Subscribe(self.request)

    def _read(self, message):
        if message.HasField("leader") and message.leader.known:
            self.leaders.append((message.leader.id, message.leader.epoch))
        if message.HasField("members"):
            self.members.append({member.id for member in message.members.members})
        return Told(self.streams, self._kind(message), message.version, message.epoch, message.cluster_id,
                    [key_of(event) for event in message.keys],
                    [life_of(event.worker, event.gone, event.expired) for event in message.workers],
                    message.restart, message.more)

    @staticmethod
    def _kind(message):
        if message.snapshot:
            return SNAPSHOT
        if message.progress:
            return PROGRESS
        return EVENTS if message.keys or message.workers else QUIET
