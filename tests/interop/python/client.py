"""The client program in Python; see ../README.md."""
import json
import os
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "lib"))
import grpc  # noqa: E402
import stubs  # noqa: E402

kv = stubs.load("baton.v1.kv_pb2")
kv_grpc = stubs.load("baton.v1.kv_pb2_grpc")
member = stubs.load("baton.v1.member_pb2")
member_grpc = stubs.load("baton.v1.member_pb2_grpc")
# Generated beside the package grpc, because in it they would hide gRPC itself.
health = stubs.load_beside("health/v1/health.proto", "health.v1.health_pb2")
health_grpc = stubs.load_beside("health/v1/health.proto", "health.v1.health_pb2_grpc")

SECONDS = 20
LOOPS = 16
CALLS_BETWEEN_KILLS = 200
NO_RETRIES = [("grpc.enable_retries", 0), ("grpc.max_receive_message_length", 8 << 20)]


class Failed(Exception):
    pass


def check(holds, what):
    if not holds:
        raise Failed(what)


def need(what):
    """Has something done to the cluster."""
    print(json.dumps({"need": what}), flush=True)
    return json.loads(sys.stdin.readline())


def failure(call):
    """The error with which a call ends, and its trailers."""
    try:
        call()
    except grpc.RpcError as error:
        return error, dict(error.trailing_metadata() or ())
    raise Failed("the call did not fail")


def expect(call, status, reason=None):
    error, trailers = failure(call)
    check(error.code() == status, f"{error.code()} instead of {status}: {error.details()}")
    if reason:
        check(trailers.get("baton-reason") == reason, f"{trailers} instead of {reason}")
        check(error.details(), f"{reason} without a message")
    return trailers


class Client:
    def __init__(self, address):
        self.channel = grpc.insecure_channel(address, options=NO_RETRIES)
        self.kv = kv_grpc.KvServiceStub(self.channel)
        self.members = member_grpc.ClusterMemberServiceStub(self.channel)
        self.health = health_grpc.HealthStub(self.channel)

    def put(self, key, value=b"", **options):
        return self.kv.Put(kv.PutRequest(key=key, value=value), **{"timeout": SECONDS, **options})

    def get(self, key):
        return self.kv.Get(kv.GetRequest(key=key), timeout=SECONDS)

    def count(self, prefix):
        return self.kv.Range(kv.RangeRequest(key=prefix, prefix=True, count_only=True), timeout=SECONDS).count

    def swap(self, key, before, after):
        """Writes after where before is; whether it was."""
        return self.kv.Txn(kv.TxnRequest(
            compare=[kv.Compare(key=key, target=kv.Compare.TARGET_VALUE, value=before)],
            then_ops=[kv.Operation(put=kv.PutRequest(key=key, value=after))]), timeout=SECONDS).succeeded

    # The cases.

    def unary(self):
        put = self.put(b"unary/a", b"1")
        got = self.get(b"unary/a")
        check(got.found and got.kv.value == b"1" and got.kv.mod_revision == put.revision, got)
        self.put(b"unary/b", b"2")
        listed = self.kv.Range(kv.RangeRequest(key=b"unary/", prefix=True, limit=1), timeout=SECONDS)
        check([item.key for item in listed.kvs] == [b"unary/a"] and listed.more, listed)
        rest = self.kv.Range(kv.RangeRequest(key=listed.next_key, range_end=b"unary0"), timeout=SECONDS)
        check([item.key for item in rest.kvs] == [b"unary/b"] and not rest.more, rest)
        check(self.swap(b"unary/a", b"1", b"3") and not self.swap(b"unary/a", b"1", b"4"), "two swaps")
        gone = self.kv.Delete(kv.DeleteRequest(key=b"unary/", prefix=True, prev_kv=True), timeout=SECONDS)
        check([item.value for item in gone.prev_kvs] == [b"3", b"2"], gone)
        check(not self.get(b"unary/a").found, "found what was deleted")

    def metadata(self):
        _, call = self.kv.Get.with_call(kv.GetRequest(key=b"none"), timeout=SECONDS, metadata=[
            ("x-all-bin", bytes(range(256))), ("x-all-bin", b""), ("x-twice", "a"), ("x-twice", "b")])
        said = dict(call.initial_metadata())
        check(int(said["baton-epoch"]) > 0 and said["baton-cluster"], said)

    def request_id(self):
        own = [("baton-request-id", "python-interop-request")]
        first, _ = self.kv.Put.with_call(kv.PutRequest(key=b"id", value=b"1"), timeout=SECONDS, metadata=own)
        self.put(b"id", b"2")
        again, call = self.kv.Put.with_call(kv.PutRequest(key=b"id", value=b"1"), timeout=SECONDS, metadata=own)
        check(again.revision == first.revision, "another revision")
        check(dict(call.initial_metadata()).get("baton-replayed") == "1", call.initial_metadata())
        check(self.get(b"id").kv.value == b"2", "it happened twice")

    def server_stream(self):
        stream = self.members.WatchLeader(member.WatchLeaderRequest(), timeout=SECONDS)
        first, second = next(stream), next(stream)
        stream.cancel()
        check(first.known and first.epoch > 0 and (first.id, first.epoch) == (second.id, second.epoch), first)

    def errors(self):
        trailers = expect(lambda: self.put(b""), grpc.StatusCode.INVALID_ARGUMENT, "BAD_KEY")
        check(trailers["baton-not-executed"] == "1", trailers)
        expect(lambda: self.kv.Delete(kv.DeleteRequest(key=b"none", must_exist=True), timeout=SECONDS),
               grpc.StatusCode.NOT_FOUND, "KEY_NOT_FOUND")
        expect(lambda: self.put(b"k", metadata=[("baton-request-id", "short")]),
               grpc.StatusCode.INVALID_ARGUMENT, "BAD_REQUEST_ID")
        expect(lambda: self.channel.unary_unary("/baton.v1.KvService/Fly")(b"", timeout=SECONDS),
               grpc.StatusCode.UNIMPLEMENTED, "NO_METHOD")
        expect(lambda: self.channel.unary_unary("/baton.v1.KvService/Get")(b"\xff\xff", timeout=SECONDS),
               grpc.StatusCode.INVALID_ARGUMENT, "BAD_REQUEST")

    def refusal_of_a_follower(self):
        known = need("follower")
        follower = Client(known["follower"])
        trailers = expect(lambda: follower.put(b"k"), grpc.StatusCode.UNAVAILABLE, "NOT_LEADER")
        check(trailers["baton-leader"] == known["leader"] and int(trailers["baton-epoch"]) > 0, trailers)
        check(trailers["baton-not-executed"] == "1", trailers)
        follower.channel.close()

    def large_values(self):
        value = os.urandom(1 << 20)
        self.put(b"large", value)
        check(self.get(b"large").kv.value == value, "another value")
        expect(lambda: self.put(b"large", value + b"x"), grpc.StatusCode.INVALID_ARGUMENT, "TOO_LARGE")

    def many_calls(self):
        calls = [self.kv.Put.future(kv.PutRequest(key=b"many/%d" % i), timeout=SECONDS) for i in range(1000)]
        for call in calls:
            call.result()
        check(self.count(b"many/") == len(calls), "some are missing")

    def deadline_of_a_call(self):
        need("pause")
        error, _ = failure(lambda: self.put(b"late", timeout=0.3))
        need("resume")
        check(error.code() == grpc.StatusCode.DEADLINE_EXCEEDED, error.code())
        self.put(b"late")

    def deadline_of_a_stream(self):
        stream = self.members.WatchLeader(member.WatchLeaderRequest(), timeout=1.5)
        states = []
        error, _ = failure(lambda: states.extend(stream))
        check(error.code() == grpc.StatusCode.DEADLINE_EXCEEDED, error.code())
        self.get(b"none")

    def cancelled_call(self):
        need("pause")
        call = self.kv.Put.future(kv.PutRequest(key=b"cancelled"), timeout=SECONDS)
        call.cancel()
        need("resume")
        check(call.cancelled() and call.code() == grpc.StatusCode.CANCELLED, call.code())
        self.put(b"cancelled")

    def cancelled_stream(self):
        stream = self.members.WatchLeader(member.WatchLeaderRequest(), timeout=SECONDS)
        next(stream)
        stream.cancel()
        error, _ = failure(lambda: list(stream))
        check(error.code() == grpc.StatusCode.CANCELLED, error.code())
        self.get(b"none")

    def health_service(self):
        serving = health.HealthCheckResponse.SERVING
        for name in ("", "Kv", "ClusterMember", "Cluster", "Notification", "Maintenance"):
            service = name and f"baton.v1.{name}Service"
            request = health.HealthCheckRequest(service=service)
            check(self.health.Check(request, timeout=SECONDS).status == serving, service)
            stream = self.health.Watch(request, timeout=SECONDS)
            check(next(stream).status == serving, f"watch of {service}")
            stream.cancel()
        expect(lambda: self.health.Check(health.HealthCheckRequest(service="none"), timeout=SECONDS),
               grpc.StatusCode.NOT_FOUND)

    def stream_across_a_kill(self):
        stream = self.members.WatchLeader(member.WatchLeaderRequest(), timeout=60)
        before = next(stream)
        need("kill")
        error, _ = failure(lambda: list(stream))
        check(error.code() == grpc.StatusCode.UNAVAILABLE, error.code())
        for after in self.members.WatchLeader(member.WatchLeaderRequest(), timeout=60):
            if after.known:
                break
        check(after.epoch > before.epoch and after.cluster_id == before.cluster_id, after)

    def calls_across_kills(self):
        load = Load(self)
        for _ in range(2):
            load.wait_calls(CALLS_BETWEEN_KILLS)
            need("kill in calls")
            load.wait_calls(CALLS_BETWEEN_KILLS)
        load.stop()
        check(not load.errors, f"{len(load.errors)} errors of {load.calls} calls: {load.errors[:3]}")
        check(self.count(b"load/") == load.puts, "Puts are missing")
        check(int(self.get(b"counter").kv.value) == load.swaps, f"the counter is not {load.swaps}")


class Load:
    """Closed loops, each of a Put of a key of its own and of one step of a counter that all share."""

    def __init__(self, client):
        self.client = client
        self.calls = self.puts = self.swaps = 0
        self.errors = []
        self._stopping = False
        self._changed = threading.Condition()
        client.put(b"counter", b"0")
        self._threads = [threading.Thread(target=self._run, args=(i,)) for i in range(LOOPS)]
        for thread in self._threads:
            thread.start()

    def _run(self, name):
        number = 0
        while not self._stopping:
            try:
                self.client.put(b"load/%d/%d" % (name, number))
                number += 1
                self._count(puts=1)
                before = self.client.get(b"counter").kv.value
                swapped = self.client.swap(b"counter", before, b"%d" % (int(before) + 1))
                self._count(swaps=int(swapped))
            except grpc.RpcError as error:
                self._count(error=f"{error.code()}: {error.details()}")

    def _count(self, puts=0, swaps=0, error=None):
        with self._changed:
            self.calls += 1
            self.puts += puts
            self.swaps += swaps
            if error:
                self.errors.append(error)
            self._changed.notify_all()

    def wait_calls(self, more):
        with self._changed:
            wanted = self.calls + more
            check(self._changed.wait_for(lambda: self.calls >= wanted, 60), "the load does not get on")

    def stop(self):
        self._stopping = True
        for thread in self._threads:
            thread.join()


def main():
    client = Client(sys.argv[1])
    cases = {"unary": client.unary, "metadata": client.metadata, "request id": client.request_id,
             "server stream": client.server_stream, "errors": client.errors,
             "refusal of a follower": client.refusal_of_a_follower, "large values": client.large_values,
             "many calls on one channel": client.many_calls, "deadline of a call": client.deadline_of_a_call,
             "deadline of a stream": client.deadline_of_a_stream, "cancelled call": client.cancelled_call,
             "cancelled stream": client.cancelled_stream, "health": client.health_service,
             "stream across a kill": client.stream_across_a_kill, "calls across kills": client.calls_across_kills}
    for name, case in cases.items():
        error = ""
        try:
            case()
        except (Failed, grpc.RpcError) as failed:
            error = f"{type(failed).__name__}: {failed}"
        print(json.dumps({"case": name, "error": error}), flush=True)
    client.channel.close()


if __name__ == "__main__":
    main()
