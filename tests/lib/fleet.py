"""Workers by stock Python clients: many on few connections, half of them on heartbeat streams, half by single calls."""
import threading

import grpc

import stubs
from cluster import channel, wait_until
from listeners import life_of
from workload import describe_error

DEADLINE_S = 10
FORGOTTEN = ("UNKNOWN_WORKER", "STALE_INCARNATION")


class Workers:
    """Calls of one client of ClusterService."""

    def __init__(self, address):
        self.pb = stubs.load("baton.v1.cluster_pb2")
        self.channel = channel(address)
        self.stub = stubs.load("baton.v1.cluster_pb2_grpc").ClusterServiceStub(self.channel)

    def close(self):
        self.channel.close()

    def add(self, addr, kind="fleet", ttl_ms=0, slot=False, activate=True, **more):
        """The Worker, registered and active."""
        worker = self.stub.AddWorker(self.pb.AddWorkerRequest(type=kind, addr=addr, ttl_ms=ttl_ms, slot=slot, **more),
                                     timeout=DEADLINE_S).worker
        if not activate:
            return worker
        return self.stub.ActivateWorker(self.pb.ActivateWorkerRequest(id=worker.id, incarnation=worker.incarnation),
                                        timeout=DEADLINE_S).worker

    def delete(self, worker):
        self.stub.DeleteWorker(self.pb.DeleteWorkerRequest(id=worker.id, incarnation=worker.incarnation),
                               timeout=DEADLINE_S)

    def heartbeat(self, worker):
        """"", or the reason why it was refused."""
        try:
            self.stub.Heartbeat(self.pb.HeartbeatRequest(id=worker.id, incarnation=worker.incarnation), timeout=DEADLINE_S)
            return ""
        except grpc.RpcError as error:
            return describe_error(error)[2].get("baton-reason", error.code().name)

    def listed(self, kind=""):
        """id -> Life."""
        found, after, more = {}, 0, True
        while more:
            page = self.stub.ListWorkers(self.pb.ListWorkersRequest(type=kind, after_id=after), timeout=DEADLINE_S)
            found.update({worker.id: life_of(worker) for worker in page.workers})
            after, more = (page.workers[-1].id, page.more) if page.workers else (0, False)
        return found


class Fleet:
    """count workers that live until stop(). beats: heartbeats that were answered; refused: (id, reason) of those that
    the cluster forgot."""

    def __init__(self, address, count=200, ttl_ms=0, interval_s=1.0, **spec):
        self.client = Workers(address)
        self.workers = [self.client.add(f"fleet:{1 + number}", ttl_ms=ttl_ms, **spec) for number in range(count)]
        self.interval_s = interval_s
        self.beats, self.refused, self.lock = 0, [], threading.Lock()
        self.stopping = threading.Event()
        half = count // 2
        self.threads = [threading.Thread(target=self._streamed, args=(self.workers[:half],), daemon=True),
                        threading.Thread(target=self._single, args=(self.workers[half:],), daemon=True)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        for thread in self.threads:
            thread.join()
        self.client.close()

    def wait_beats(self, rounds=2):
        """Until each worker has sent about so many further heartbeats."""
        wanted = self.beats + rounds * len(self.workers)
        wait_until("heartbeats are answered", lambda: self.beats >= wanted or self.refused)

    def _request(self, worker):
        return self.client.pb.HeartbeatRequest(id=worker.id, incarnation=worker.incarnation)

    def _answered(self, worker, reason):
        with self.lock:
            if reason in FORGOTTEN:
                self.refused.append((worker.id, reason))
            elif not reason:
                self.beats += 1

    def _single(self, workers):
        while not self.stopping.wait(self.interval_s):
            calls = [(worker, self.client.stub.Heartbeat.future(self._request(worker), timeout=DEADLINE_S))
                     for worker in workers]
            for worker, call in calls:
                error = call.exception()
                self._answered(worker, error and describe_error(error)[2].get("baton-reason", error.code().name))

    def _streamed(self, workers):
        while not self.stopping.is_set():
            try:
                self._one_stream(workers)
            except grpc.RpcError:
                self.stopping.wait(0.05)

    def _one_stream(self, workers):
        """One round of all workers after another, until the stream ends."""
        round_answered = threading.Semaphore(1)

        def requests():
            while round_answered.acquire() and not self.stopping.is_set():
                yield from map(self._request, workers)

        call = self.client.stub.HeartbeatStream(requests())
        try:
            for number, answer in enumerate(call, 1):
                worker = workers[(number - 1) % len(workers)]
                if answer.id != worker.id:
                    raise AssertionError(f"a heartbeat of {worker.id} is answered with {answer.id}")
                self._answered(worker, answer.reason)
                if number % len(workers) == 0:
                    self.stopping.wait(self.interval_s)
                    round_answered.release()
        finally:
            call.cancel()
            round_answered.release()
