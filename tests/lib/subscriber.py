"""A subscriber of notifications that opens its stream anew with its last token, and checks what it is told."""
import threading

import grpc

import stubs
from cluster import channel, wait_until

notification = stubs.load("baton.v1.notification_pb2")
TOPICS = {"members": notification.TOPIC_MEMBERS, "leader": notification.TOPIC_LEADER,
          "workers": notification.TOPIC_WORKERS, "keys": notification.TOPIC_KEYS}


def reason_of(error):
    return dict(error.trailing_metadata() or ()).get("baton-reason")


class Subscriber:
    """Begins when made; close() ends it. Fields may be read any time; `problems` must stay empty."""

    def __init__(self, address, topics="members leader workers keys", prefixes=(), types=(), kind="test", token=b"",
                 again=True):
        self.fields = {"kind": kind, "topics": [TOPICS[name] for name in topics.split()], "prefixes": prefixes,
                       "worker_types": types}
        self.token, self.again = token, again
        self.keys, self.workers = {}, {}  # as told: key -> KeyValue, id -> Worker
        self.members = self.leader = self.cluster_id = None
        self.members_version = self.version = self.epoch = 0
        self.told_keys, self.told_workers = [], []  # (KeyEvent), (WorkerEvent) of changes, in order
        self.messages = []
        self.snapshots = self.streams = 0
        self.problems, self.errors = [], []  # errors: how streams ended
        self._parts, self._stopped, self._call = [], False, None
        self._channel = channel(address)
        self._stub = stubs.load("baton.v1.notification_pb2_grpc").NotificationServiceStub(self._channel)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        while not self._stopped:
            request = notification.SubscribeRequest(resume_token=self.token, **self.fields)
            self._parts, first = [], True
            try:
                self._call = self._stub.Subscribe(request, wait_for_ready=True)
                for message in self._call:
                    self._take(message, first)
                    first = False
                self._wrong("a stream ended without an error")
            except grpc.RpcError as error:
                if self._stopped:
                    return
                self.errors.append(error)
                if error.code() != grpc.StatusCode.UNAVAILABLE and self.again:
                    self._wrong(f"a stream ended with {error.code()} {reason_of(error)}: {error.details()}")
            if not self.again:
                return

    def _wrong(self, text):
        self.problems.append(text)

    def _expect(self, holds, text, message):
        if not holds:
            self._wrong(f"{text}, at version {self.version}, epoch {self.epoch}: {str(message)[:500]}")

    def _take(self, message, first):
        """One message; what is told of one version counts once it is whole."""
        self.messages.append(message)
        self.cluster_id = self.cluster_id or message.cluster_id
        self._expect(message.cluster_id == self.cluster_id, "another cluster", message)
        self._expect(message.epoch >= self.epoch, "a lower epoch", message)
        self._expect(message.more == (not message.resume_token), "a token, or none, in the wrong place", message)
        self._expect(not self._parts or message.version == self._parts[0].version, "parts of two versions", message)
        self._expect(not message.restart or (message.snapshot and not self._parts), "restarts in between", message)
        wants_leader = notification.TOPIC_LEADER in self.fields["topics"]
        self._expect(message.HasField("leader") or not first or not wants_leader, "no leader at first", message)
        self.streams += first
        self.epoch = message.epoch
        self._parts.append(message)
        if not message.more:
            parts, self._parts = self._parts, []
            self._whole(parts)

    def _whole(self, parts):
        keys = [event for part in parts for event in part.keys]
        workers = [event for part in parts for event in part.workers]
        last = parts[-1]
        if last.snapshot:
            self._expect(parts[0].restart, "a snapshot that does not begin", parts[0])
            self._expect(last.version >= self.version, "a snapshot of before", last)
            self.keys, self.workers = {}, {}
            self.snapshots += 1
        elif keys or workers:
            self._expect(last.version > self.version, "changes of before", last)
            wrong = [event for event in keys if event.kv.mod_revision != last.version]
            self._expect(not wrong, "changes of another version", last)
            self.told_keys += keys
            self.told_workers += workers
        else:
            self._expect(last.version >= self.version, "news of before", last)
        for event in keys:
            self.keys.pop(event.kv.key, None)
            if not event.deleted:
                self.keys[event.kv.key] = event.kv
        for event in workers:
            self.workers.pop(event.worker.id, None)
            if not event.gone:
                self.workers[event.worker.id] = event.worker
        for part in parts:
            if part.HasField("members"):
                self.members = {member.id: member for member in part.members.members}
                self.members_version = part.members.version
            if part.HasField("leader"):
                self.leader = part.leader
        self.version, self.token = last.version, last.resume_token

    def values(self):
        return {key: kv.value for key, kv in dict(self.keys).items()}

    def wait(self, what, condition):
        """Until it was told something; at once wrong when it was told something wrong."""
        wait_until(what, lambda: self.problems or condition(self))
        if self.problems:
            raise AssertionError("\n".join(self.problems))

    def close(self):
        self._stopped = True
        if self._call is not None:
            self._call.cancel()
        self._channel.close()
        self._thread.join(30)
        return self.problems
