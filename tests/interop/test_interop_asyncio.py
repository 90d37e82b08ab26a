"""The asynchronous Python client: many calls on one connection, streams, compression, across a failover."""
import asyncio
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
import grpc  # noqa: E402
import stubs  # noqa: E402
from cluster import CHANNEL_OPTIONS, ClusterTest  # noqa: E402

CALLS = 200


class Asyncio(ClusterTest):
    def setUp(self):
        super().setUp()
        self.kv = stubs.load("baton.v1.kv_pb2")
        self.member = stubs.load("baton.v1.member_pb2")

    def channel(self, cluster, **options):
        return grpc.aio.insecure_channel(cluster.proxy, options=CHANNEL_OPTIONS, **options)

    def test_many_calls_across_a_failover(self):
        cluster = self.cluster(ttl=3)

        async def work():
            async with self.channel(cluster) as channel:
                stub = stubs.load("baton.v1.kv_pb2_grpc").KvServiceStub(channel)
                puts = [asyncio.ensure_future(stub.Put(
                    self.kv.PutRequest(key=b"a/%d" % i, value=b"%d" % i), timeout=60)) for i in range(CALLS)]
                await puts[0]
                await asyncio.get_running_loop().run_in_executor(None, cluster.kill_leader)
                puts += [stub.Put(self.kv.PutRequest(key=b"b/%d" % i), timeout=60) for i in range(CALLS)]
                await asyncio.gather(*puts)
                for prefix in (b"a/", b"b/"):
                    counted = await stub.Range(self.kv.RangeRequest(key=prefix, prefix=True, count_only=True), timeout=60)
                    self.assertEqual(counted.count, CALLS)
        asyncio.run(work())

    def test_watched_leader_changes(self):
        """A stream through the proxy belongs to one leader. It ends with UNAVAILABLE when that one dies, and the next
        one tells of the next epoch."""
        cluster = self.cluster(ttl=3)

        async def first_state(stub):
            async for state in stub.WatchLeader(self.member.WatchLeaderRequest(), timeout=60):
                if state.known:
                    return state
            return None

        async def work():
            async with self.channel(cluster) as channel:
                stub = stubs.load("baton.v1.member_pb2_grpc").ClusterMemberServiceStub(channel)
                before = await first_state(stub)
                stream = stub.WatchLeader(self.member.WatchLeaderRequest(), timeout=60)
                states = stream.__aiter__()
                await states.__anext__()
                await asyncio.get_running_loop().run_in_executor(None, cluster.kill_leader)
                with self.assertRaises(grpc.aio.AioRpcError) as caught:
                    while True:
                        await states.__anext__()
                self.assertEqual(caught.exception.code(), grpc.StatusCode.UNAVAILABLE)
                after = await first_state(stub)
                self.assertGreater(after.epoch, before.epoch)
                self.assertEqual(after.cluster_id, before.cluster_id)
        asyncio.run(work())

    def test_compressed_requests(self):
        cluster = self.cluster(members=1)

        async def work():
            async with self.channel(cluster, compression=grpc.Compression.Gzip) as channel:
                stub = stubs.load("baton.v1.kv_pb2_grpc").KvServiceStub(channel)
                await stub.Put(self.kv.PutRequest(key=b"k", value=b"again " * 10000), timeout=60)
                answer = await stub.Get(self.kv.GetRequest(key=b"k"), timeout=60)
                self.assertEqual(answer.kv.value, b"again " * 10000)
        asyncio.run(work())

    def test_health(self):
        """By the bytes, because the generated package would hide grpc itself: status = SERVING."""
        cluster = self.cluster(members=1)
        with grpc.insecure_channel(cluster.proxy, options=CHANNEL_OPTIONS) as channel:
            self.assertEqual(channel.unary_unary("/grpc.health.v1.Health/Check")(b"", timeout=60), b"\x08\x01")


if __name__ == "__main__":
    unittest.main(verbosity=2)
