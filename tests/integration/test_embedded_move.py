"""A state on its way: out of one cluster, into another, whatever happens to the file, the command or the leader."""
import json
import os
import random
import signal
import subprocess
import sys
import unittest

import grpc

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
import stubs  # noqa: E402
from cluster import BIN, ClusterTest, channel, wait_until  # noqa: E402
from etcd_fault import EtcdFault  # noqa: E402

BATONCTL = os.path.join(BIN, "batonctl")
MARK = b"baton/import"


class Move(ClusterTest):
    def setUp(self):
        self.kv = stubs.load("baton.v1.kv_pb2")

    def batonctl(self, cluster, *words, data=b""):
        return subprocess.run([BATONCTL, "--addr", cluster.proxy, "--timeout", "30s", "-o", "json", *words],
                              input=data, capture_output=True, timeout=120)

    def export(self, cluster):
        done = self.batonctl(cluster, "export")
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def import_file(self, cluster, data, *words):
        done = self.batonctl(cluster, "import", *words, data=data)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def refused(self, cluster, data, hint, *words):
        done = self.batonctl(cluster, "import", *words, data=data)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(hint, done.stderr.decode())

    def fill(self, cluster, pairs):
        stub = cluster.stub(cluster.proxy)
        items = sorted(pairs.items())
        for at in range(0, len(items), 50):
            ops = [self.kv.Operation(put=self.kv.PutRequest(key=key, value=value)) for key, value in items[at:at + 50]]
            stub.Txn(self.kv.TxnRequest(then_ops=ops), timeout=60)

    def state(self, cluster):
        """key -> value of everything there is, and whether each was written once."""
        stub, found, versions, key = cluster.stub(cluster.proxy), {}, set(), b""
        while True:
            page = stub.Range(self.kv.RangeRequest(key=key), timeout=60)
            found.update((kv.key, kv.value) for kv in page.kvs)
            versions.update(kv.version for kv in page.kvs)
            if not page.more:
                return found, versions
            key = page.next_key

    def count(self, cluster):
        return cluster.stub(cluster.proxy).Range(self.kv.RangeRequest(count_only=True), timeout=60).count

    def mark(self, cluster):
        """How many keys an import has brought so far, None when none is under way."""
        answer = cluster.stub(cluster.proxy).Get(self.kv.GetRequest(key=MARK), timeout=60)
        return int(answer.kv.value.split(b"keys=")[1].split()[0]) if answer.found else None

    @staticmethod
    def pairs_of_all_sorts():
        rng = random.Random(7)
        pairs = {b"every/%02x" % b: bytes([b]) * 3 for b in range(256)}
        pairs.update({bytes([b, 0, 255 - b]): b"k%d" % b for b in range(256)})
        pairs.update({b"empty": b"", b"k" * 480: b"longest key", b"text": "Grüße \U0001f600 \"\\/\n\t".encode(),
                      b"largest": rng.randbytes(1024 * 1024), b"escapes": bytes(range(32)) * 30000})
        return pairs


class ThereAndBack(Move):
    def test_embedded_to_etcd_and_back(self):
        source, etcd, back = self.cluster(embedded=True), self.cluster(members=2), self.cluster(embedded=True)
        pairs = self.pairs_of_all_sorts()
        for turn in range(3):  # so that its epoch is higher than that of the others
            source.restart("m1")
            source.wait_leader(above_epoch=turn + 1)
        self.fill(source, pairs)
        first = self.export(source)
        epoch = json.loads(first.splitlines()[0])["epoch"]
        self.assertEqual(epoch, 4)

        said = self.import_file(etcd, first)
        self.assertGreater(said["epoch"], epoch)
        self.assertEqual((said["keys"], said["from_epoch"]), (len(pairs), epoch))
        self.assertEqual(self.state(etcd), (pairs, {1}))
        self.assertIsNone(self.mark(etcd))
        _, epoch = etcd.wait_leader()
        self.assertGreaterEqual(epoch, said["epoch"])

        second = self.export(etcd)
        header = json.loads(second.splitlines()[0])
        self.assertEqual(header["incarnation"], 2)
        said = self.import_file(back, second)
        self.assertGreater(said["epoch"], header["epoch"])
        self.assertEqual(self.state(back), (pairs, {1}))
        back.restart("m1")
        self.assertGreater(back.wait_leader(above_epoch=said["epoch"])[1], said["epoch"])
        self.assertEqual(self.state(back)[0], pairs)
        keys = [(line["key"] if "key" in line else line["key_base64"],
                 line["value"] if "value" in line else line["value_base64"])
                for line in map(json.loads, first.splitlines()[1:-1])]
        again = [(line["key"] if "key" in line else line["key_base64"],
                  line["value"] if "value" in line else line["value_base64"])
                 for line in map(json.loads, self.export(back).splitlines()[1:-1])]
        self.assertEqual(keys, again)

    def test_an_export_is_of_one_moment(self):
        """Two keys that are always changed together are the same in every export."""
        cluster = self.cluster(embedded=True)
        self.fill(cluster, {b"mid%05d" % i: b"x" * 1000 for i in range(2000)})
        stub = cluster.stub(cluster.proxy)

        def change(n):
            ops = [self.kv.Operation(put=self.kv.PutRequest(key=key, value=b"%d" % n)) for key in (b"a", b"z")]
            return stub.Txn.future(self.kv.TxnRequest(then_ops=ops), timeout=60)
        change(0).result()
        for turn in range(5):
            with subprocess.Popen([BATONCTL, "--addr", cluster.proxy, "export"], stdout=subprocess.PIPE) as export:
                lines = [json.loads(export.stdout.readline())]
                changes = [change(turn * 100 + n) for n in range(100)]
                lines += map(json.loads, export.stdout)
            for done in changes:
                done.result()
            self.assertEqual((lines[1]["key"], lines[-2]["key"]), ("a", "z"))
            self.assertEqual(lines[1]["value"], lines[-2]["value"])
            self.assertLessEqual(max(line["revision"] for line in lines[1:-1]), lines[0]["revision"])


class Files(Move):
    def test_a_file_that_is_not_whole_changes_nothing(self):
        cluster = self.cluster(embedded=True)
        self.fill(cluster, {b"k%d" % i: b"v%d" % i for i in range(8)})
        whole = self.export(cluster)
        cluster.stub(cluster.proxy).Delete(self.kv.DeleteRequest(key=b"k", prefix=True), timeout=60)
        self.assertEqual(self.count(cluster), 0)
        lines = whole.splitlines(keepends=True)
        for kept in range(len(lines)):
            self.refused(cluster, b"".join(lines[:kept]), "")
        for dropped in range(1, len(lines) - 1):
            self.refused(cluster, b"".join(lines[:dropped] + lines[dropped + 1:]), "changed")
        rng = random.Random(11)
        for _ in range(20):
            at = rng.randrange(len(whole) - 1)
            changed = bytearray(whole)
            changed[at] = changed[at] ^ 1
            self.refused(cluster, bytes(changed), "line")
        self.refused(cluster, whole + b"{}\n", "follows the end")
        self.refused(cluster, whole[:-1], "cut")
        for nonsense in (b"", b"\n", b"\0\n", b"hello\n", b"\n" + whole):
            self.refused(cluster, nonsense, "no file that batonctl export wrote")
        self.refused(cluster, whole.replace(b'"format":1', b'"format":2'), "another format")
        self.assertEqual(self.count(cluster), 0)
        self.assertEqual(cluster.wait_leader()[1], 1)
        self.import_file(cluster, whole)
        self.assertEqual(self.count(cluster), 8)

    def test_only_into_an_empty_cluster(self):
        cluster = self.cluster(embedded=True)
        self.fill(cluster, {b"a": b"1", b"b": b"2"})
        whole = self.export(cluster)
        self.fill(cluster, {b"a": b"changed", b"c": b"3"})
        self.refused(cluster, whole, "holds 3 keys already")
        self.assertEqual(self.state(cluster)[0], {b"a": b"changed", b"b": b"2", b"c": b"3"})
        self.import_file(cluster, whole, "--overwrite")
        self.assertEqual(self.state(cluster)[0], {b"a": b"1", b"b": b"2", b"c": b"3"})


class Interrupted(Move):
    def start_import(self, cluster, path):
        """(the command, what it goes through); it gets no further than a part of the file until that is thawed."""
        way = EtcdFault(cluster.proxy, raw=True)
        self.addCleanup(way.stop)
        way.freeze_after(os.path.getsize(path) // 4)
        with open(path, "rb") as file:
            return subprocess.Popen([BATONCTL, "--addr", way.address, "--timeout", "60s", "import"], stdin=file,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE), way

    def make_file(self, cluster, pairs):
        self.fill(cluster, pairs)
        path = os.path.join(cluster.directory, "state.json")
        with open(path, "wb") as file:
            file.write(self.export(cluster))
        return path

    def wait_under_way(self, cluster, command):
        wait_until("the import is under way", lambda: command.poll() is not None or self.mark(cluster))
        self.assertIsNone(command.poll(), "it ended too soon to be interrupted")

    def test_stopped_and_repeated(self):
        source, target = self.cluster(embedded=True), self.cluster(members=2)
        pairs = {b"key/%05d" % i: b"%d" % i * 200 for i in range(6000)}
        path = self.make_file(source, pairs)
        command, _ = self.start_import(target, path)
        with command:
            self.wait_under_way(target, command)
            command.send_signal(signal.SIGKILL)
        done = self.mark(target)
        self.assertLess(done, len(pairs))
        self.assertEqual(self.count(target), done + 1)
        with open(path, "rb") as file:
            whole = file.read()
        self.fill(source, {b"other": b"file"})
        self.refused(target, self.export(source), "import of another file")
        said = self.batonctl(target, "import", data=whole)
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertIn(b"going on", said.stderr)
        self.assertEqual(self.state(target), (pairs, {1}))

    def test_leaders_die_meanwhile(self):
        source, target = self.cluster(embedded=True), self.cluster(members=2, ttl=10)
        pairs = {b"key/%05d" % i: b"%d" % i * 200 for i in range(6000)}
        path = self.make_file(source, pairs)
        command, way = self.start_import(target, path)
        with command:
            self.wait_under_way(target, command)
            killed = target.kill_leader()
            way.thaw()
            out, err = command.communicate(timeout=120)
        self.assertEqual(command.returncode, 0, err + out)
        self.assertEqual(self.state(target), (pairs, {1}))
        target.restart(killed.name)

    def test_exports_that_nobody_reads_end(self):
        """Four at a time; those whose readers sleep make room for others after a while."""
        cluster = self.cluster(embedded=True, proxies=0)
        cluster.wait_leader()
        address = cluster.members["m1"]
        stub = cluster.stub(address)
        for i in range(24):
            stub.Put(self.kv.PutRequest(key=b"%d" % i, value=os.urandom(1000 * 1000)), timeout=60)
        maintenance = stubs.load("baton.v1.maintenance_pb2")
        service = stubs.load("baton.v1.maintenance_pb2_grpc").MaintenanceServiceStub
        channels = [channel(address) for _ in range(5)]
        for made in channels:
            self.addCleanup(made.close)
        sleepers = [service(made).Export(maintenance.ExportRequest()) for made in channels[:4]]
        for sleeper in sleepers:
            self.assertEqual(next(sleeper).header.epoch, 1)

        def read_all():
            try:
                return list(service(channels[4]).Export(maintenance.ExportRequest(), timeout=60))
            except grpc.RpcError as error:
                self.assertEqual(error.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
                refusals.append(error.details())
                return None
        refusals = []
        parts = wait_until("one more may be read", read_all)
        self.assertIn("4 exports run already", refusals[0])
        self.assertEqual((parts[0].header.cluster_id != "", parts[-1].end.keys), (True, 24))
        with self.assertRaises(grpc.RpcError) as ended:
            for _ in sleepers[0]:
                pass
        self.assertEqual(ended.exception.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)


if __name__ == "__main__":
    unittest.main()
