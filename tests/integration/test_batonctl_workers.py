"""batonctl worker and info against real clusters: what operators do to workers, and being one."""
import json
import os
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
import stubs  # noqa: E402
from cluster import BIN, ClusterTest, wait_until  # noqa: E402

BATONCTL = os.path.join(BIN, "batonctl")
SILENT = ("--ttl", "10m")  # for workers that send no heartbeats while a test looks at them


class Workers(ClusterTest):
    def setUp(self):
        super().setUp()
        self.all = self.cluster(members=2)

    def run_it(self, *words):
        return subprocess.run([BATONCTL, "--addr", self.all.proxy, "--timeout", "60s", *words], capture_output=True,
                              timeout=90)

    def ok(self, *words):
        done = self.run_it("-o", "json", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def fails(self, code, *words, says):
        done = self.run_it("-o", "json", *words)
        self.assertEqual((done.returncode, done.stdout), (code, b""), done.stderr)
        self.assertIn(says, done.stderr.decode())

    def start(self, *words):
        made = subprocess.Popen([BATONCTL, "--addr", self.all.proxy, "-o", "json", *words], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

        def end():
            made.kill()
            made.communicate()
        self.addCleanup(end)
        return made

    def listed(self, *words):
        return [w["id"] for w in self.ok("worker", "list", *words)]

    def test_what_operators_do(self):
        first = self.ok("worker", "add", "compute", "h1:1", "--labels", "zone=a,disk=ssd", "--resources", "cores=8", "--slot",
                        *SILENT)
        self.assertEqual((first["state"], first["slot"], first["labels"], first["resources"]),
                         ("starting", 0, {"zone": "a", "disk": "ssd"}, {"cores": 8}))
        again = self.ok("worker", "add", "compute", "h1:1", "--slot", *SILENT)
        self.assertEqual((again["id"], again["slot"]), (first["id"], 0))
        self.assertGreater(again["incarnation"], first["incarnation"])
        one, incarnation = str(first["id"]), str(again["incarnation"])
        self.fails(1, "worker", "activate", one, str(first["incarnation"]), says="STALE_INCARNATION")
        self.assertEqual(self.ok("worker", "activate", one, incarnation)["state"], "running")
        two = self.ok("worker", "add", "storage", "h2:1", "--labels", "zone=a", *SILENT)["id"]
        self.assertEqual(self.listed(), [first["id"], two])
        self.assertEqual(self.listed("--type", "storage"), [two])
        self.assertEqual(self.listed("--state", "running"), [first["id"]])
        self.assertEqual(self.listed("--schedulable"), [first["id"]])
        self.assertEqual(self.ok("worker", "label", one, "zone=b", "rack=7", "disk-")["labels"], {"zone": "b", "rack": "7"})
        self.assertEqual(self.listed("--labels", "zone=b,rack=7"), [first["id"]])
        drained = self.ok("worker", "drain", one)
        self.assertEqual((drained["cordoned"], drained["draining"]), (True, True))
        self.assertEqual(self.listed("--schedulable"), [])
        beat = self.ok("worker", "heartbeat", one, incarnation, "--once")
        self.assertEqual((beat["id"], beat["cordoned"], beat["draining"]), (first["id"], True, True))
        undrained = self.ok("worker", "undrain", one)
        self.assertEqual((undrained["cordoned"], undrained["draining"]), (True, False))
        self.assertFalse(self.ok("worker", "uncordon", one)["cordoned"])
        self.assertTrue(self.ok("worker", "cordon", str(two))["cordoned"])
        info = self.ok("info")
        self.assertEqual((info["workers"], [(t["type"], t["running"], t["slots"]) for t in info["worker_types"]]),
                         (2, [("compute", 1, 1), ("storage", 0, 0)]))
        self.assertEqual((info["leader"], info["epoch"]), self.all.wait_leader())
        table = self.run_it("worker", "list").stdout.decode().splitlines()
        self.assertEqual([line.split()[:4] for line in table[1:]],
                         [[one, incarnation, "compute", "h1:1"], [str(two), table[2].split()[1], "storage", "h2:1"]])
        self.assertIn("starting, cordoned", table[2])
        self.fails(1, "worker", "rm", one, "--incarnation", str(first["incarnation"]), says="STALE_INCARNATION")
        self.assertEqual(self.ok("worker", "rm", one, "--incarnation", incarnation)["id"], first["id"])
        for words in (["rm", one], ["cordon", one], ["activate", one, incarnation], ["heartbeat", one, incarnation]):
            self.fails(3, "worker", *words, says="UNKNOWN_WORKER")
        self.fails(2, "worker", "cordon", "x", says="is no number")
        self.fails(2, "worker", "label", one, "zone", says="NAME=VALUE or NAME-")
        self.fails(2, "worker", "add", "compute", "h3:1", "--resources", "cores=many", says="is no number")
        self.fails(1, "worker", "add", "no type", "h3:1", says="BAD_WORKER")

    def test_long_lists_come_whole(self):
        """A page ends past 1 MiB: so many labels make several."""
        stub, messages = self.all.stub(self.all.proxy, "Cluster"), stubs.load("baton.v1.cluster_pb2")
        labels = {f"label-{n}": "x" * 250 for n in range(64)}
        calls = [stub.AddWorker.future(messages.AddWorkerRequest(type="t", addr=f"h{n}:1", labels=labels,
                                                                         ttl_ms=600000), timeout=60)
                 for n in range(90)]
        ids = sorted(call.result().worker.id for call in calls)
        page = stub.ListWorkers(messages.ListWorkersRequest(), timeout=60)
        self.assertTrue(page.more)
        self.assertEqual(self.listed(), ids)

    def test_kept_alive_by_hand(self):
        kept = self.ok("worker", "add", "t", "h1:1", "--ttl", "20s")
        left = self.ok("worker", "add", "t", "h2:1", "--ttl", "1s")
        beats = self.start("worker", "heartbeat", str(kept["id"]), str(kept["incarnation"]))
        self.assertEqual(json.loads(beats.stdout.readline())["ttl_ms"], 20000)
        self.all.kill_leader()
        self.assertTrue(self.ok("worker", "cordon", str(kept["id"]))["cordoned"])
        self.assertTrue(json.loads(beats.stdout.readline())["cordoned"])
        wait_until("the silent one has expired", lambda: self.listed() == [kept["id"]])
        self.fails(3, "worker", "heartbeat", str(left["id"]), str(left["incarnation"]), says="UNKNOWN_WORKER")
        beats.send_signal(signal.SIGINT)
        self.assertEqual(beats.wait(timeout=60), 0)

    def test_being_one(self):
        worker = self.start("worker", "add", "t", "h1:1", "--slot", "--run", "--ttl", "20s")
        ran = json.loads(worker.stdout.readline())
        self.assertEqual((ran["event"], ran["worker"]["state"], ran["worker"]["slot"]), ("run", "running", 0))
        self.all.kill_leader()
        self.ok("worker", "drain", str(ran["worker"]["id"]))
        self.assertEqual(json.loads(worker.stdout.readline()), {"event": "wanted", "cordoned": True, "draining": True})
        worker.send_signal(signal.SIGTERM)
        out, err = worker.communicate(timeout=60)
        self.assertEqual((worker.returncode, json.loads(out)), (0, {"event": "stop", "reason": "closed"}), err)
        wait_until("it has left", lambda: self.listed() == [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
