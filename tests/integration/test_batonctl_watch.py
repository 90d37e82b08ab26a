"""batonctl kv watch against real clusters: what it prints, over a kill, and how it ends."""
import json
import os
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from cluster import BIN, ClusterTest  # noqa: E402

BATONCTL = os.path.join(BIN, "batonctl")


class Watch(ClusterTest):
    def setUp(self):
        super().setUp()
        self.all = self.cluster()

    def run_it(self, *words, code=0):
        done = subprocess.run([BATONCTL, "--addr", self.all.proxy, "--timeout", "60s", *words], capture_output=True,
                              timeout=90)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def lines(self, *words):
        """Of a watch that ends by itself."""
        return [json.loads(line) for line in self.run_it("-o", "json", "kv", "watch", *words).stdout.splitlines()]

    def put(self, key, value):
        return json.loads(self.run_it("-o", "json", "kv", "put", key, value).stdout)["revision"]

    def test_where_it_begins(self):
        first = self.put("a/1", "one")
        self.put("b/1", "other")
        self.run_it("kv", "txn", "put a/2 two", "put a/3 three")
        self.run_it("kv", "del", "a/1")
        seen = self.lines("a/", "--from", str(first), "--count", "4")
        self.assertEqual([(e["event"], e["key"], e.get("value")) for e in seen],
                         [("put", "a/1", "one"), ("put", "a/2", "two"), ("put", "a/3", "three"), ("delete", "a/1", None)])
        self.assertEqual(seen[0]["revision"], first)
        self.assertEqual(seen[1]["revision"], seen[2]["revision"])
        self.assertNotIn("token", seen[1])
        behind = self.lines("a/", "--token", seen[2]["token"], "--count", "1")
        self.assertEqual([(e["event"], e["key"]) for e in behind], [("delete", "a/1")])
        state = self.lines("a/", "b/", "--snapshot", "--count", "3")
        self.assertEqual([(e["event"], e.get("key")) for e in state],
                         [("restart", None), ("exists", "a/2"), ("exists", "a/3"), ("exists", "b/1")])
        plain = self.run_it("kv", "watch", "a/", "--from", str(first), "--count", "4").stdout.split(b"\n")
        self.assertEqual((plain[0], plain[3], plain[4:]), (b"put\t%d\ta/1\tone" % first,
                                                           b"delete\t%d\ta/1" % seen[3]["revision"], [b""]))

    def test_over_a_kill(self):
        first = self.put("k/0", "0")
        watch = subprocess.Popen([BATONCTL, "--addr", self.all.proxy, "-o", "json", "kv", "watch", "k/",
                                  "--from", str(first), "--timeout", "60s"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(watch.kill)
        seen = [json.loads(watch.stdout.readline())]
        self.all.kill_leader()
        for n in range(1, 5):
            self.put(f"k/{n}", str(n))
            seen.append(json.loads(watch.stdout.readline()))
        self.assertEqual([(e["key"], e["value"]) for e in seen], [(f"k/{n}", str(n)) for n in range(5)])
        self.assertEqual(sorted({e["revision"] for e in seen}), [e["revision"] for e in seen])
        watch.send_signal(signal.SIGINT)
        out, err = watch.communicate(timeout=60)
        self.assertEqual((watch.returncode, out), (0, b""), err)

    def test_what_makes_no_sense(self):
        done = self.run_it("kv", "watch", "--token", "AAAA", "--from", "3", code=2)
        self.assertIn(b"not both", done.stderr)
        self.run_it("kv", "watch", "--token", "no base64", code=2)
        done = subprocess.run([BATONCTL, "--addr", "127.0.0.1:1", "--timeout", "300ms", "kv", "watch"],
                              capture_output=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (4, b""))
        self.assertIn(b"connect", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
