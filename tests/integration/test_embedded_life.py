"""A member without etcd: what it acknowledged survives any end of it, and it is a whole cluster to everybody else."""
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import unittest

import grpc

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
import stubs  # noqa: E402
from cluster import BIN, ClusterTest, script, wait_until  # noqa: E402
from workload import Load  # noqa: E402

META = os.path.join(BIN, "baton-meta")


class Embedded(ClusterTest):
    def setUp(self):
        self.kv = stubs.load("baton.v1.kv_pb2")

    def put(self, cluster, key, value=b"v"):
        return cluster.stub(cluster.members["m1"]).Put(self.kv.PutRequest(key=key, value=value), timeout=60).revision

    def get(self, cluster, key):
        return cluster.stub(cluster.members["m1"]).Get(self.kv.GetRequest(key=key), timeout=60)

    def kill(self, cluster, hard=False):
        """As the machine might: no word to anybody, and no restart."""
        cluster.wait_leader()
        script.kill_member(cluster.process("m1"), hard)

    def put_until_refused(self, cluster, size):
        """[(key, revision)] that were acknowledged, and the error that came then."""
        acknowledged = []
        for i in range(10000):
            key = b"big/%d" % i
            try:
                acknowledged.append((key, self.put(cluster, key, bytes([i % 256]) * size)))
            except grpc.RpcError as error:
                return acknowledged, error
        raise AssertionError("nothing was refused")


class Life(Embedded):
    def test_killed_and_started_again(self):
        cluster = self.cluster(embedded=True, proxies=0)
        seen = {}
        for turn in range(1, 5):
            name, epoch = cluster.wait_leader()
            self.assertEqual((name, epoch), ("m1", turn))
            for key, (value, revision) in seen.items():
                self.assertEqual((self.get(cluster, key).kv.value, self.get(cluster, key).kv.mod_revision),
                                 (value, revision))
            for i in range(20):
                key, value = b"%d/%d" % (turn, i), b"v%d" % i
                revision = self.put(cluster, key, value)
                self.assertGreater(revision, max((r for _, r in seen.values()), default=0))
                seen[key] = value, revision
            self.kill(cluster, hard=turn % 2 == 0)
            cluster.restart("m1")
        self.assertEqual(cluster.wait_leader()[1], 5)

    def test_it_says_what_it_is(self):
        cluster = self.cluster(embedded=True)
        self.put(cluster, b"k")
        status = json.loads(script.http_get(cluster.http["m1"], "/status")[1])
        self.assertEqual((status["mode"], status["role"], status["members"][0]["id"]), ("embedded", "LEADER", "m1"))
        self.assertEqual(script.http_get(cluster.http["m1"], "/readyz")[0], 200)
        self.assertEqual(cluster.metric("m1", "baton_meta_role", role="LEADER"), 1)
        self.assertEqual(cluster.metric("m1", "baton_meta_info", mode="embedded"), 1)
        self.assertIn("embedded: alone and without etcd", cluster.log("m1"))
        member = stubs.load("baton.v1.member_pb2")
        members = cluster.stub(cluster.proxy, "ClusterMember").ListMembers(member.ListMembersRequest(), timeout=60)
        self.assertEqual([(m.id, m.role, m.epoch) for m in members.members], [("m1", member.ROLE_LEADER, 1)])
        cluster.restart("m1")
        cluster.wait_leader(above_epoch=1)
        self.assertEqual([(h.epoch, h.reason) for h in cluster.history()], [(2, "restarted"), (1, "first")])

    def test_there_is_nobody_to_hand_over_to(self):
        cluster = self.cluster(embedded=True, proxies=0)
        cluster.wait_leader()
        member = stubs.load("baton.v1.member_pb2")
        stub = cluster.stub(cluster.members["m1"], "ClusterMember")
        for call, request in ((stub.TransferLeadership, member.TransferLeadershipRequest(target_id="m2")),
                              (stub.TransferLeadership, member.TransferLeadershipRequest()),
                              (stub.RemoveMember, member.RemoveMemberRequest(id="m1"))):
            with self.assertRaises(grpc.RpcError) as refused:
                call(request, timeout=60)
            self.assertEqual(refused.exception.code(), grpc.StatusCode.FAILED_PRECONDITION)
            self.assertIn("embedded", refused.exception.details())
        self.assertEqual(cluster.wait_leader(), ("m1", 1))

    def test_reads_of_every_sort(self):
        cluster = self.cluster(embedded=True, proxies=0)
        cluster.wait_leader()
        revision = self.put(cluster, b"k", b"v")
        stub = cluster.stub(cluster.members["m1"])
        for consistency in (self.kv.CONSISTENCY_LEASE, self.kv.CONSISTENCY_QUORUM, self.kv.CONSISTENCY_STALE):
            answer = stub.Get(self.kv.GetRequest(key=b"k", consistency=consistency, min_revision=revision), timeout=60)
            self.assertEqual((answer.kv.value, answer.revision), (b"v", revision))
        with self.assertRaises(grpc.RpcError) as refused:
            stub.Get(self.kv.GetRequest(key=b"k"), timeout=60, metadata=[("baton-epoch", "99")])
        self.assertEqual(dict(refused.exception.trailing_metadata()).get("baton-reason"), "BAD_EPOCH")
        self.assertEqual(cluster.wait_leader(), ("m1", 1))

    def test_terminated_under_load(self):
        cluster = self.cluster(embedded=True)
        with Load(cluster.proxy, clients=16) as load:
            process = cluster.process("m1")
            self.assertTrue(process.stop())
            cluster.restart("m1")
            load.wait_progress()
            load.stop()
        self.assertEqual(load.problems(cluster), [])

    def test_killed_under_load(self):
        """64 clients behind the proxy notice nothing: their calls wait for the restart, and happen once."""
        cluster = self.cluster(embedded=True)
        with Load(cluster.proxy, clients=64) as load:
            for _ in range(3):
                self.kill(cluster)
                cluster.restart("m1")
                load.wait_progress()
            load.stop()
        self.assertEqual(load.problems(cluster), [])
        self.assertEqual(cluster.wait_leader()[1], 4)

    def test_request_ids_outlive_it(self):
        cluster = self.cluster(embedded=True, proxies=0)
        cluster.wait_leader()
        metadata = [("baton-request-id", "an-id-of-this-test-0001")]
        request = self.kv.PutRequest(key=b"once", value=b"1")
        first = cluster.stub(cluster.members["m1"]).Put(request, timeout=60, metadata=metadata)
        self.kill(cluster)
        cluster.restart("m1")
        cluster.wait_leader()
        again, call = cluster.stub(cluster.members["m1"]).Put.with_call(request, timeout=60, metadata=metadata)
        self.assertEqual(again.revision, first.revision)
        self.assertEqual(dict(call.initial_metadata()).get("baton-replayed"), "1")
        self.assertEqual(self.get(cluster, b"once").kv.version, 1)


class Full(Embedded):
    def check_nothing_is_lost(self, cluster, acknowledged):
        for key, revision in acknowledged:
            self.assertEqual(self.get(cluster, key).kv.mod_revision, revision, key)

    def test_map_full(self):
        cluster = self.cluster(embedded=True, proxies=0, member_args=["--map-bytes", "2MiB"])
        cluster.wait_leader()
        acknowledged, error = self.put_until_refused(cluster, 50000)
        self.assertEqual(error.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
        self.assertIn("--map-bytes", error.details())
        self.assertEqual(dict(error.trailing_metadata()).get("baton-reason"), "NO_SPACE")
        self.check_nothing_is_lost(cluster, acknowledged)  # it goes on answering
        argv = cluster.parts.parts["m1"]["argv"]
        argv[argv.index("2MiB")] = "64MiB"
        cluster.parts.save()
        cluster.restart("m1")
        cluster.wait_leader(above_epoch=1)
        self.check_nothing_is_lost(cluster, acknowledged)
        self.put(cluster, b"more", b"x" * 50000)

    def test_disk_full(self):
        """Its files may grow no more, as on a full disk: refused by name, and everything acknowledged is there."""
        cluster = self.cluster(embedded=True, proxies=0)
        cluster.wait_leader()
        child = cluster.process("m1").child()
        resource.prlimit(child, resource.RLIMIT_FSIZE, (2 << 20, 2 << 20))
        acknowledged, error = self.put_until_refused(cluster, 50000)
        self.assertEqual(error.code(), grpc.StatusCode.RESOURCE_EXHAUSTED, error.details())
        self.assertIn("disk is full", error.details())
        self.check_nothing_is_lost(cluster, acknowledged)
        self.kill(cluster)
        cluster.restart("m1")
        cluster.wait_leader(above_epoch=1)
        self.check_nothing_is_lost(cluster, acknowledged)
        self.put(cluster, b"more", b"x" * 50000)


class Refusals(unittest.TestCase):
    def run_meta(self, *words):
        return subprocess.run([META, *words], capture_output=True, text=True, timeout=60)

    def test_options_of_etcd(self):
        done = self.run_meta("--ttl", "5s", "--max-txn-ops", "100")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--ttl, --max-txn-ops: mean nothing without --etcd", done.stderr)

    def test_a_directory_keeps_its_mode(self):
        for first, second in (([], ["--etcd", "http://127.0.0.1:1"]), (["--etcd", "http://127.0.0.1:1"], [])):
            with tempfile.TemporaryDirectory() as data:
                where = ["--data", data, "--listen", "127.0.0.1:0", "--advertise", "127.0.0.1:1", "--http", "off",
                         "--id", "m1"]
                self.start_and_stop([META, *where, *first], data)
                done = self.run_meta(*where, *second)
                self.assertEqual(done.returncode, 1)
                self.assertRegex(done.stderr, re.escape(data) + ".*export.*import")

    def test_it_ends_well(self):
        """SIGTERM: exit status 0, also before anybody has called."""
        with tempfile.TemporaryDirectory() as data:
            argv = [META, "--data", data, "--listen", "127.0.0.1:0", "--advertise", "127.0.0.1:1", "--http", "off"]
            with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as process:
                for line in process.stderr:
                    if "leads with epoch 1" in line:
                        process.send_signal(signal.SIGTERM)
                self.assertEqual(process.wait(60), 0)

    def start_and_stop(self, argv, data):
        with subprocess.Popen(argv, stderr=subprocess.DEVNULL) as process:
            try:
                wait_until("the directory is claimed", lambda: os.path.exists(os.path.join(data, "identity")))
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait(60)


if __name__ == "__main__":
    unittest.main()
