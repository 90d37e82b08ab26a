"""ClusterService as its clients see it: registration, incarnations, slots, expiry, and heartbeats through failovers."""
import os
import sys
import threading
import unittest
import uuid

import grpc

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
import stubs  # noqa: E402
from cluster import ClusterTest, wait_until  # noqa: E402

cluster = stubs.load("baton.v1.cluster_pb2")
cluster_grpc = stubs.load("baton.v1.cluster_pb2_grpc")
TIMEOUT_S = 60


def reason_of(error):
    return dict(error.trailing_metadata() or ()).get("baton-reason")


class Beating:
    """Heartbeats of one worker, often, until stopped; fails with the first answer that is not OK."""

    def __init__(self, stub, worker):
        self.stub, self.worker, self.error, self.beats = stub, worker, None, 0
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        try:
            while not self.over.wait(0.2):
                self.stub.Heartbeat(cluster.HeartbeatRequest(id=self.worker.id, incarnation=self.worker.incarnation),
                                    timeout=TIMEOUT_S)
                self.beats += 1
        except grpc.RpcError as error:
            self.error = error

    def stop(self):
        self.over.set()
        self.thread.join(TIMEOUT_S + 5)


class Workers(ClusterTest):
    def start(self, **args):
        self.baton = self.cluster(**args)
        self.leader = self.baton.wait_leader()
        channel = grpc.insecure_channel(self.baton.proxy)
        self.addCleanup(channel.close)
        self.stub = cluster_grpc.ClusterServiceStub(channel)

    def add(self, addr, type="compute", metadata=(), **fields):
        fields.setdefault("ttl_ms", 600000)
        answer = self.stub.AddWorker(cluster.AddWorkerRequest(type=type, addr=addr, **fields), timeout=TIMEOUT_S,
                                     metadata=metadata)
        return answer.worker

    def list(self, **filters):
        return list(self.stub.ListWorkers(cluster.ListWorkersRequest(**filters), timeout=TIMEOUT_S).workers)

    def refused(self, reason, method, request):
        with self.assertRaises(grpc.RpcError) as caught:
            getattr(self.stub, method)(request, timeout=TIMEOUT_S)
        self.assertEqual(reason_of(caught.exception), reason, caught.exception)
        return caught.exception

    def test_one_member(self):
        self.start(members=1)
        self.a_life()
        self.filters_and_pages()
        self.incarnations()
        self.slots()
        self.refusals()
        self.a_stream()

    def test_without_etcd(self):
        self.start(embedded=True)
        before = self.add("host:1", slot=True)
        self.a_stream()
        self.baton.restart(self.leader[0])
        self.baton.wait_leader(above_epoch=self.leader[1])
        self.assertEqual([w.id for w in self.list()][0], before.id)
        again = self.add("host:1")
        self.assertEqual((again.id, again.slot), (before.id, before.slot))
        self.assertGreater(again.incarnation, before.incarnation)
        self.assertGreater(again.slot_grant, before.slot_grant)
        self.expire_one()

    def a_life(self):
        worker = self.add("life:1", labels={"zone": "a b", "empty": ""}, resources={"cores": 8})
        self.assertEqual(worker.state, cluster.WORKER_STATE_STARTING)
        key = dict(id=worker.id, incarnation=worker.incarnation)
        active = self.stub.ActivateWorker(cluster.ActivateWorkerRequest(**key), timeout=TIMEOUT_S).worker
        self.assertEqual(active.state, cluster.WORKER_STATE_RUNNING)
        self.assertEqual(dict(active.labels), {"zone": "a b", "empty": ""})
        changed = self.stub.UpdateWorker(cluster.UpdateWorkerRequest(
            id=worker.id, set_labels={"zone": "c"}, remove_labels=["empty"], set_resources={"gpus": 2},
            remove_resources=["cores"], draining=cluster.TOGGLE_ON), timeout=TIMEOUT_S).worker
        self.assertEqual((dict(changed.labels), dict(changed.resources)), ({"zone": "c"}, {"gpus": 2}))
        self.assertTrue(changed.cordoned and changed.draining)
        beat = self.stub.Heartbeat(cluster.HeartbeatRequest(**key), timeout=TIMEOUT_S)
        self.assertTrue(beat.ttl_ms == 600000 and beat.cordoned and beat.draining)
        listed = self.list()
        self.assertEqual([w.id for w in listed], [worker.id])
        self.assertEqual(listed[0].mod_revision, changed.mod_revision)
        gone = self.stub.DeleteWorker(cluster.DeleteWorkerRequest(**key), timeout=TIMEOUT_S).worker
        self.assertEqual(dict(gone.labels), {"zone": "c"})
        self.refused("UNKNOWN_WORKER", "Heartbeat", cluster.HeartbeatRequest(**key))
        self.assertEqual(self.list(), [])
        self.assertGreater(self.add("life:1").id, worker.id)

    def filters_and_pages(self):
        calls = [self.stub.AddWorker.future(cluster.AddWorkerRequest(
            type="page", addr=f"page:{n + 1}", labels={"odd": str(n % 2)}, ttl_ms=600000), timeout=TIMEOUT_S)
            for n in range(60)]
        ids = sorted(call.result().worker.id for call in calls)
        self.assertEqual(len(set(ids)), 60)
        self.assertEqual(len(self.list(type="page", labels={"odd": "1"})), 30)
        self.assertEqual(self.list(type="page", schedulable_only=True), [])
        seen, after = [], 0
        while True:
            page = self.stub.ListWorkers(cluster.ListWorkersRequest(type="page", limit=7, after_id=after), timeout=TIMEOUT_S)
            seen += [w.id for w in page.workers]
            if not page.more:
                break
            after = page.workers[-1].id
        self.assertEqual(seen, ids)
        info = self.stub.GetClusterInfo(cluster.GetClusterInfoRequest(), timeout=TIMEOUT_S)
        self.assertEqual({t.type: t.starting for t in info.worker_types}["page"], 60)
        self.assertEqual(info.leader_id, self.leader[0])

    def incarnations(self):
        old = self.add("twin:1")
        new = self.add("twin:1")
        self.assertEqual(old.id, new.id)
        self.assertGreater(new.incarnation, old.incarnation)
        stale = dict(id=old.id, incarnation=old.incarnation)
        self.refused("STALE_INCARNATION", "Heartbeat", cluster.HeartbeatRequest(**stale))
        self.refused("STALE_INCARNATION", "ActivateWorker", cluster.ActivateWorkerRequest(**stale))
        self.refused("STALE_INCARNATION", "UpdateWorker", cluster.UpdateWorkerRequest(**stale))
        self.refused("STALE_INCARNATION", "DeleteWorker", cluster.DeleteWorkerRequest(**stale))
        self.stub.Heartbeat(cluster.HeartbeatRequest(id=new.id, incarnation=new.incarnation), timeout=TIMEOUT_S)
        self.refused("BAD_WORKER", "AddWorker", cluster.AddWorkerRequest(type="other", addr="twin:1"))

    def slots(self):
        calls = [self.stub.AddWorker.future(cluster.AddWorkerRequest(
            type="slotted", addr=f"slot:{n + 1}", slot=True, ttl_ms=600000), timeout=TIMEOUT_S) for n in range(20)]
        workers = [call.result().worker for call in calls]
        self.assertEqual(sorted(w.slot for w in workers), list(range(20)))
        self.assertEqual(len({w.slot_grant for w in workers}), 20)
        left = next(w for w in workers if w.slot == 7)
        self.stub.DeleteWorker(cluster.DeleteWorkerRequest(id=left.id), timeout=TIMEOUT_S)
        heir = self.add("slot:99", type="slotted", slot=True)
        self.assertEqual(heir.slot, 7)
        self.assertGreater(heir.slot_grant, max(w.slot_grant for w in workers))
        self.assertFalse(self.add("slot:100", type="slotted").has_slot)

    def refusals(self):
        bad = self.refused("BAD_WORKER", "AddWorker", cluster.AddWorkerRequest(type="a b", addr="x:1"))
        self.assertIn("a b", bad.details())
        self.refused("BAD_WORKER", "AddWorker", cluster.AddWorkerRequest(type="a", addr="nowhere"))
        self.refused("BAD_WORKER", "AddWorker", cluster.AddWorkerRequest(type="a", addr="x:1", ttl_ms=5))
        self.refused("BAD_WORKER", "AddWorker", cluster.AddWorkerRequest(
            type="a", addr="x:1", labels={f"l{n}": "v" for n in range(65)}))
        self.refused("BAD_WORKER", "ActivateWorker", cluster.ActivateWorkerRequest(id=1))
        self.refused("UNKNOWN_WORKER", "DeleteWorker", cluster.DeleteWorkerRequest(id=1 << 40))

    def a_stream(self):
        worker = self.add("stream:1")
        requests = [cluster.HeartbeatRequest(id=worker.id, incarnation=worker.incarnation),
                    cluster.HeartbeatRequest(id=1 << 40, incarnation=1),
                    cluster.HeartbeatRequest(id=worker.id, incarnation=worker.incarnation)]
        answers = list(self.stub.HeartbeatStream(iter(requests), timeout=TIMEOUT_S))
        self.assertEqual([a.reason for a in answers], ["", "UNKNOWN_WORKER", ""])
        self.assertEqual([a.ttl_ms for a in answers], [600000, 0, 600000])

    def expire_one(self):
        """Silent, so it is taken out, and its slot is free only then."""
        dying = self.add("dying:1", type="mortal", slot=True, ttl_ms=1000)
        other = self.add("other:1", type="mortal", slot=True)
        self.assertNotEqual(other.slot, dying.slot)
        wait_until("it expires", lambda: [w.id for w in self.list(type="mortal")] == [other.id])
        self.refused("UNKNOWN_WORKER", "Heartbeat",
                     cluster.HeartbeatRequest(id=dying.id, incarnation=dying.incarnation))
        heir = self.add("heir:1", type="mortal", slot=True)
        self.assertEqual(heir.slot, dying.slot)
        self.assertGreater(heir.slot_grant, dying.slot_grant)
        self.assertGreater(heir.id, other.id)

    def test_through_failovers(self):
        self.start(members=3)
        self.expire_one()
        worker = self.add("alive:1", ttl_ms=60000, slot=True)
        beating = Beating(self.stub, worker)
        for _ in range(2):
            before = self.baton.leader()
            id = uuid.uuid4().hex
            call = self.stub.AddWorker.future(
                cluster.AddWorkerRequest(type="once", addr=f"once:{before[1]}", ttl_ms=600000), timeout=TIMEOUT_S,
                metadata=(("baton-request-id", id),))
            self.baton.kill_leader()
            self.baton.wait_leader(above_epoch=before[1])
            first = call.result().worker
            again = self.add(f"once:{before[1]}", type="once", metadata=(("baton-request-id", id),))
            self.assertEqual((again.id, again.incarnation), (first.id, first.incarnation))
            beats = beating.beats
            wait_until("heartbeats go on", lambda: beating.beats > beats + 2 or beating.error)
        beating.stop()
        self.assertIsNone(beating.error)
        alive = self.list(type="compute")
        self.assertEqual([(w.id, w.slot, w.slot_grant) for w in alive], [(worker.id, worker.slot, worker.slot_grant)])


if __name__ == "__main__":
    unittest.main()
