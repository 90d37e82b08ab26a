"""NotificationService.Subscribe: a snapshot, then every change once, through whatever happens to the leader."""
import os
import sys
import unittest

import grpc

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
import stubs  # noqa: E402
from cluster import ClusterTest, wait_until  # noqa: E402
from subscriber import Subscriber, notification, reason_of  # noqa: E402

kv = stubs.load("baton.v1.kv_pb2")
workers = stubs.load("baton.v1.cluster_pb2")
TIMEOUT_S = 30


class Notifications(ClusterTest):
    def set_up(self, **options):
        self.baton = self.cluster(**{"members": 3, "proxies": 1, "ttl": 2, **options})
        self.leader, self.epoch = self.baton.wait_leader()
        self.store = self.baton.stub(self.baton.proxy)
        self.written = []  # (key, revision) of what was answered

    def put(self, key, value=b"v"):
        answer = self.store.Put(kv.PutRequest(key=key, value=value), timeout=TIMEOUT_S)
        self.written.append((key, answer.revision))
        return answer.revision

    def delete(self, key):
        return self.store.Delete(kv.DeleteRequest(key=key), timeout=TIMEOUT_S).revision

    def subscriber(self, name="", **fields):
        made = Subscriber(self.baton.members[name] if name else self.baton.proxy, **fields)
        self.addCleanup(lambda: self.assertEqual(made.close(), []))
        return made

    def told(self, subscriber):
        return [(event.kv.key, event.kv.mod_revision) for event in list(subscriber.told_keys)]

    def refused(self, name, **fields):
        call = self.baton.stub(self.baton.members[name], "Notification").Subscribe(
            notification.SubscribeRequest(**fields), timeout=TIMEOUT_S)
        with self.assertRaises(grpc.RpcError) as caught:
            list(call)
        return caught.exception.code(), reason_of(caught.exception), caught.exception.details()

    def test_what_is_told_of_a_quiet_cluster(self):
        self.set_up(ttl=10)
        for i in range(3):
            self.put(b"a/%d" % i)
        before = self.put(b"b/1", b"large" * 100000)
        everything = self.subscriber()
        some = self.subscriber(self.leader, topics="keys", prefixes=[b"a/", b"a/1", b"c"])
        for subscriber in (everything, some):
            subscriber.wait("the snapshot is there", lambda s: s.snapshots == 1)
            self.assertGreaterEqual(subscriber.version, before)
            self.assertEqual(subscriber.epoch, self.epoch)
        self.assertEqual(sorted(everything.keys), [b"a/0", b"a/1", b"a/2", b"b/1"])
        self.assertEqual(sorted(some.keys), [b"a/0", b"a/1", b"a/2"])
        self.assertEqual((some.members, some.leader), (None, None))
        everything.wait("all members are there", lambda s: s.members and len(s.members) == 3)
        self.assertEqual(everything.leader.id, self.leader)
        self.assertEqual(everything.leader.epoch, self.epoch)
        self.assertEqual(everything.members[self.leader].addr, self.baton.members[self.leader])
        revision = self.put(b"a/3", b"new")
        gone = self.delete(b"a/0")
        other = self.put(b"b/2")
        last = self.put(b"c", b"last")
        everything.wait("all changes are told", lambda s: s.version >= last)
        some.wait("its changes are told", lambda s: s.version >= last)
        self.assertEqual(self.told(everything), [(b"a/3", revision), (b"a/0", gone), (b"b/2", other), (b"c", last)])
        self.assertEqual(self.told(some), [(b"a/3", revision), (b"a/0", gone), (b"c", last)])
        self.assertEqual([event.deleted for event in some.told_keys], [False, True, False])
        some.wait("progress is told to the idle", lambda s: any(m.progress for m in s.messages))
        self.assertEqual(self.baton.metric(self.leader, "baton_meta_subscribers", kind="test"), 2)
        some.close()
        wait_until("it is not counted any more",
                   lambda: self.baton.metric(self.leader, "baton_meta_subscribers", kind="test") == 1)
        self.senseless_requests()

    def senseless_requests(self):
        bad = grpc.StatusCode.INVALID_ARGUMENT, "BAD_REQUEST"
        leader = [notification.TOPIC_LEADER]
        for field, request in (("kind", {"topics": leader}), ("topics", {"kind": "k"}),
                               ("topics", {"kind": "k", "topics": [0]}),
                               ("prefixes", {"kind": "k", "topics": leader, "prefixes": [b"a"]}),
                               ("worker", {"kind": "k", "topics": leader, "worker_types": ["t"]})):
            code, reason, text = self.refused(self.leader, **request)
            self.assertEqual((code, reason), bad)
            self.assertIn(field, text)
        follower = next(name for name in self.baton.members if name != self.leader)
        self.assertEqual(self.refused(follower, kind="k", topics=leader)[:2],
                         (grpc.StatusCode.UNAVAILABLE, "NOT_LEADER"))

    def test_changes_of_leader(self):
        """Versions go on; nothing that was written is missing, nothing is told twice."""
        self.set_up()
        self.put(b"k/first")
        follows = self.subscriber(prefixes=[b"k/"])
        follows.wait("the snapshot is there", lambda s: s.snapshots == 1)
        base, epochs = follows.version, [self.epoch]
        for number, fault in enumerate((self.baton.kill_leader, self.baton.transfer_leader, self.baton.kill_leader)):
            for i in range(10):
                self.put(b"k/%d" % i, b"before %d" % number)
            killed = fault()
            for i in range(10):
                self.put(b"k/%d" % i, b"after %d" % number)
            epochs.append(self.baton.wait_leader(above_epoch=epochs[-1])[1])
            follows.wait("it has a stream of the new leader", lambda s: s.epoch >= epochs[-1])
            if killed.kind != "transfer":
                self.baton.restart(killed.name)
        last = self.put(b"k/last")
        follows.wait("all was told", lambda s: s.version >= last)
        follows.wait("all members are back", lambda s: len(s.members) == 3)
        written = [item for item in self.written if item[1] > base]
        told = self.told(follows)
        if follows.snapshots == 1:
            self.assertEqual(told, written)
        self.assertEqual(len(set(told)), len(told))
        self.assertLessEqual(set(told), set(written))
        now = self.store.Range(kv.RangeRequest(key=b"k/", prefix=True), timeout=TIMEOUT_S)
        self.assertEqual(follows.values(), {item.key: item.value for item in now.kvs})
        self.assertEqual(follows.leader.epoch, epochs[-1])

    def test_members_come_and_go(self):
        self.set_up(ttl=10)
        gone = next(name for name in self.baton.members if name != self.leader)
        lists = []
        follows = self.subscriber(topics="members")
        follows.wait("all members are there", lambda s: s.members and len(s.members) == 3)
        for count, change in ((2, lambda: self.baton.run_script("stop", gone)), (3, lambda: self.baton.restart(gone))):
            before = follows.members_version
            change()
            follows.wait(f"{count} members are listed", lambda s: len(s.members) == count)
            self.assertGreater(follows.members_version, before)
            lists.append(sorted(follows.members))
        self.assertEqual(lists, [sorted(set(self.baton.members) - {gone}), sorted(self.baton.members)])
        self.assertEqual((follows.snapshots, follows.keys), (1, {}))
        versions = [m.members.version for m in follows.messages if m.HasField("members")]
        self.assertEqual(versions, sorted(set(versions)))

    def test_what_is_not_kept_any_more_is_told_anew(self):
        self.set_up(members=1, ttl=10, member_args=["--watch-history", "64KiB"])
        self.put(b"k/first")
        early = self.subscriber()
        early.wait("the snapshot is there", lambda s: s.snapshots == 1)
        token = early.token
        for i in range(8):
            last = self.put(b"k/%d" % (i % 4), b"%d" % i * 20000)
        early.wait("all was told", lambda s: s.version >= last)
        self.assertEqual(self.told(early), self.written[1:])
        late = self.subscriber(token=token)
        late.wait("all is told anew", lambda s: s.version >= last)
        self.assertEqual((late.snapshots, late.told_keys), (1, []))
        self.assertTrue(late.messages[0].restart)
        self.assertEqual(late.values(), early.values())
        other = self.subscriber(token=token.replace(late.cluster_id.encode(), b"0" * len(late.cluster_id)))
        other.wait("another cluster's token gives a snapshot", lambda s: s.snapshots == 1 and s.version >= last)
        now = self.subscriber(token=late.token)
        now.wait("it goes on", lambda s: s.streams == 1)
        self.put(b"k/next")
        now.wait("the next change is told", lambda s: s.told_keys)
        self.assertEqual((now.snapshots, self.told(now)), (0, self.written[-1:]))

    def test_lives_of_workers(self):
        self.set_up()
        ask = self.baton.stub(self.baton.proxy, "Cluster")
        everything, some = self.subscriber(), self.subscriber(topics="workers", types=["compute"])
        for subscriber in (everything, some):
            subscriber.wait("the snapshot is there", lambda s: s.snapshots == 1)

        def add(kind, number, ttl_ms=600000):
            request = workers.AddWorkerRequest(type=kind, addr=f"host:{number}", ttl_ms=ttl_ms, slot=True)
            return ask.AddWorker(request, timeout=TIMEOUT_S).worker
        one, two = add("compute", 1), add("storage", 2)
        key = {"id": one.id, "incarnation": one.incarnation}
        running = ask.ActivateWorker(workers.ActivateWorkerRequest(**key), timeout=TIMEOUT_S).worker
        cordoned = ask.UpdateWorker(workers.UpdateWorkerRequest(**key, cordoned=workers.TOGGLE_ON, set_labels={"a": "b"}),
                                    timeout=TIMEOUT_S).worker
        self.baton.transfer_leader()  # who goes is told behind a token, too
        left = ask.DeleteWorker(workers.DeleteWorkerRequest(**key), timeout=TIMEOUT_S)
        silent = add("compute", 3, ttl_ms=1000)
        some.wait("the silent one expired", lambda s: any(event.expired for event in s.told_workers))
        end = some.version
        everything.wait("that is told to all", lambda s: s.version >= end)

        def seen(subscriber):
            return [(event.worker.id, event.worker.state, event.worker.cordoned, event.gone, event.expired)
                    for event in subscriber.told_workers]
        starting, runs = workers.WORKER_STATE_STARTING, workers.WORKER_STATE_RUNNING
        wanted = [(one.id, starting, False, False, False), (two.id, starting, False, False, False),
                  (one.id, runs, False, False, False), (one.id, runs, True, False, False),
                  (one.id, runs, True, True, False), (silent.id, starting, False, False, False),
                  (silent.id, starting, False, True, True)]
        self.assertEqual(seen(everything), wanted)
        self.assertEqual(seen(some), [event for event in wanted if event[0] != two.id])
        told = [event.worker for event in some.told_workers]
        self.assertEqual(told[1:3], [running, cordoned])
        self.assertEqual((told[3].labels["a"], told[3].slot, told[3].mod_revision), ("b", one.slot, left.revision))
        self.assertEqual(list(everything.workers), [two.id])
        for number in range(3):
            self.put(b"large/%d" % number, b"x" * 400000)
        late = self.subscriber()
        late.wait("the snapshot is there", lambda s: s.snapshots == 1)
        self.assertEqual(list(late.workers.values()), [two])
        self.assertEqual(sorted(late.keys), [b"large/0", b"large/1", b"large/2"])
        parts = [message for message in late.messages if message.snapshot]
        self.assertGreater(len(parts), 2)
        self.assertEqual([message.restart for message in parts], [True] + [False] * (len(parts) - 1))
        self.assertEqual((everything.snapshots, some.snapshots), (1, 1))

    def test_what_a_paused_leader_says_late(self):
        self.set_up()
        direct = self.subscriber(self.leader, again=False)
        through = self.subscriber()
        first = self.put(b"first")
        for subscriber in (direct, through):
            subscriber.wait("a change is told", lambda s: s.version >= first)
        self.baton.process(self.leader).pause()
        try:
            _, epoch = self.baton.wait_leader(above_epoch=self.epoch)
            second = self.put(b"second")
            through.wait("the new leader tells it", lambda s: s.version >= second)
            self.assertEqual(through.epoch, epoch)
        finally:
            self.baton.resume(self.leader)
        wait_until("the old leader ends its stream", lambda: direct.errors)
        ended = direct.errors[0]
        self.assertEqual(ended.code(), grpc.StatusCode.UNAVAILABLE)
        self.assertIn(reason_of(ended), ("NOT_LEADER", "NO_LEADER"))  # whether it has heard of the new one
        self.assertEqual({message.epoch for message in direct.messages}, {self.epoch})
        self.assertLess(direct.version, second)
        self.assertNotIn(b"second", direct.keys)
        code, _, _ = self.refused(self.leader, kind="k", topics=[notification.TOPIC_LEADER])
        self.assertEqual(code, grpc.StatusCode.UNAVAILABLE)


if __name__ == "__main__":
    unittest.main(verbosity=2)
