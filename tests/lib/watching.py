"""Readers of KvService.Watch that check each message as it comes."""
import threading

import grpc

import stubs
from cluster import wait_until

kv = stubs.load("baton.v1.kv_pb2")


class Watch:
    """One stream and what it told: `state` is the keys as they are after it, `events` all changes in order. Reads on a
    thread of its own, until the stream ends; `wrong` is the first thing that must not be."""

    def __init__(self, stub, request, follower=False, before=None):
        """before: the Watch that this one goes on from."""
        self.state = dict(before.state) if before else {}
        self.events = list(before.events) if before else []
        self.revision = before.revision if before else 0
        self.token = before.token if before else b""
        self.snapshots, self.progress, self.messages, self.cluster_id, self.epochs = 0, 0, 0, None, []
        self.wrong = self.error = None
        self._pending, self._kind = [], None
        metadata = [("baton-allow-follower", "1")] if follower else []
        self._call = stub.Watch(request, metadata=metadata)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        try:
            for message in self._call:
                self._take(message)
        except grpc.RpcError as error:
            self.error = error
        except AssertionError as error:
            self.wrong = str(error)
            self._call.cancel()

    def _take(self, m):
        self.messages += 1
        self.cluster_id = m.cluster_id
        self.epochs.append(m.epoch)
        assert m.more == (not m.resume_token), "a token exactly with what is whole"
        assert self.epochs[-1] >= self.epochs[0] > 0, "epochs do not fall"
        if m.kind == kv.WATCH_KIND_PROGRESS:
            assert not m.events and m.revision >= self.revision, f"progress to {m.revision} at {self.revision}"
            self.progress += 1
        elif m.kind == kv.WATCH_KIND_SNAPSHOT:
            self._take_snapshot(m)
        else:
            self._take_events(m)
        if not m.more:
            self.revision, self.token = m.revision, m.resume_token

    def _take_snapshot(self, m):
        if m.restart:
            self._pending, self.snapshots = [], self.snapshots + 1
        self._pending += m.events
        if m.more:
            return
        keys = [event.kv.key for event in self._pending]
        assert keys == sorted(set(keys)), "a snapshot tells each key once, in order"
        assert all(event.kv.mod_revision <= m.revision for event in self._pending), "nothing newer than its revision"
        self.state = {event.kv.key: event.kv.value for event in self._pending}
        self._pending = []

    def _take_events(self, m):
        assert m.events and m.revision > self.revision, f"revision {m.revision} at {self.revision}"
        assert all(event.kv.mod_revision == m.revision for event in m.events), "of one commit"
        self._pending += m.events
        if m.more:
            return
        keys = [event.kv.key for event in self._pending]
        assert len(keys) == len(set(keys)), "a commit changes a key once"
        for event in self._pending:
            self.events.append((m.revision, event.kv.key, None if event.deleted else event.kv.value))
            if event.deleted:
                assert self.state.pop(event.kv.key, b"") is not None
            else:
                self.state[event.kv.key] = event.kv.value
        self._pending = []

    def check(self):
        if self.wrong:
            raise AssertionError(self.wrong)

    def wait(self, what, condition):
        def look():
            self.check()
            return condition(self)
        return wait_until(what, look)

    def wait_revision(self, revision):
        self.wait(f"the watch is told revision {revision}", lambda w: w.revision >= revision)

    def wait_begun(self):
        self.wait("the watch has begun", lambda w: w.messages > 0)

    def wait_end(self):
        """Status and reason it ended with."""
        wait_until("the watch ends", lambda: not self._thread.is_alive())
        self.check()
        trailers = dict(self.error.trailing_metadata() or ()) if self.error else {}
        return self.error and self.error.code(), trailers.get("baton-reason"), trailers

    def cancel(self):
        self._call.cancel()
        self._thread.join()
        self.check()
