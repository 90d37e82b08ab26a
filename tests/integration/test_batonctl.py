"""batonctl against real clusters: what it prints, and the code it ends with."""
import json
import os
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from cluster import BIN, ClusterTest, wait_until  # noqa: E402

BATONCTL = os.path.join(BIN, "batonctl")


def run(address, *words, stdin=b"", env=None):
    return subprocess.run([BATONCTL, "--addr", address, *words], input=stdin, capture_output=True, timeout=60,
                          env={**os.environ, **(env or {})})


class Commands(ClusterTest):
    def setUp(self):
        super().setUp()
        self.all = self.cluster(members=2)
        self.proxy = self.all.proxy

    def ok(self, *words, stdin=b"", code=0):
        """The JSON of a command that ends with this code."""
        done = run(self.proxy, "-o", "json", *words, stdin=stdin)
        self.assertEqual(done.returncode, code, done.stderr)
        return json.loads(done.stdout)

    def fails(self, code, *words, says=""):
        done = run(self.proxy, "-o", "json", *words)
        self.assertEqual((done.returncode, done.stdout), (code, b""), done.stderr)
        self.assertIn(says, done.stderr.decode())

    def test_cluster_commands(self):
        name, epoch = self.all.wait_leader()
        leader = self.ok("leader")
        self.assertEqual((leader["known"], leader["id"], leader["addr"], leader["epoch"]),
                         (True, name, self.all.members[name], epoch))
        members = wait_until("both are listed", lambda: (listed := self.ok("members")) and len(listed) == 2 and listed)
        self.assertEqual({m["id"]: m["addr"] for m in members}, self.all.members)
        self.assertEqual([m["id"] for m in members if m["role"] == "leader"], [name])
        history = self.ok("history", "--limit", "1")
        self.assertEqual([(h["epoch"], h["id"], h["ended_unix_ms"]) for h in history], [(epoch, name, 0)])
        status = self.ok("status")
        self.assertEqual([(s["ok"], s["leader"], s["epoch"]) for s in status], [(True, name, epoch)])

    def test_members_as_addresses(self):
        dead = "127.0.0.1:1"
        for addresses in (*self.all.members.values(), ",".join([dead, *self.all.members.values()])):
            done = run(addresses, "kv", "put", "by/" + addresses, "v")
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.ok("kv", "range", "by/", "--prefix", "--count-only")["count"], 3)
        done = run("", "-o", "json", "leader", env={"BATON_ADDR": self.proxy})
        self.assertEqual(done.returncode, 2)
        done = subprocess.run([BATONCTL, "-o", "json", "leader"], capture_output=True, timeout=60,
                              env={**os.environ, "BATON_ADDR": self.proxy})
        self.assertTrue(json.loads(done.stdout)["known"])

    def test_keys_and_values(self):
        put = self.ok("kv", "put", "greeting", "hello")
        got = self.ok("kv", "get", "greeting")
        self.assertEqual((got["key"], got["value"], got["revision"], got["version"]),
                         ("greeting", "hello", put["revision"], 1))
        self.assertEqual(run(self.proxy, "kv", "get", "greeting").stdout, b"hello\n")
        self.ok("kv", "put", "raw", "-", stdin=b"\xff\x00ab")
        self.assertEqual(self.ok("kv", "get", "raw")["value_base64"], "/wBhYg==")
        self.ok("kv", "put", "--", "-dash", "--value")
        self.assertEqual(self.ok("kv", "get", "--", "-dash")["value"], "--value")
        self.assertEqual(self.ok("kv", "del", "greeting")["deleted"], 1)
        self.assertEqual(self.ok("kv", "del", "greeting")["deleted"], 0)
        self.fails(3, "kv", "get", "greeting", says="no such key")
        self.fails(3, "kv", "del", "greeting", "--must-exist", says="KEY_NOT_FOUND")
        self.fails(1, "kv", "put", "", "x", says="BAD_KEY")
        self.fails(2, "kv", "put", "greeting", says="kv put KEY VALUE")

    def test_ranges_go_on_over_pages(self):
        keys = [f"r/{n:04}" for n in range(300)]
        for at in range(0, len(keys), 100):
            self.ok("kv", "txn", *[f"put {key} {key}" for key in keys[at:at + 100]])
        for n in range(3):
            self.ok("kv", "put", f"big/{n}", "-", stdin=b"x" * 600_000)
        everything = self.ok("kv", "range", "--limit", "0")
        self.assertEqual([kv["key"] for kv in everything["kvs"]], ["big/0", "big/1", "big/2", *keys])
        self.assertFalse(everything["more"])
        some = self.ok("kv", "range", "r/0010", "r/0020", "--limit", "4", "--keys-only")
        self.assertEqual([kv["key"] for kv in some["kvs"]], keys[10:14])
        self.assertEqual((some["more"], some["next_key"]), (True, "r/0014"))
        self.assertNotIn("value", some["kvs"][0])
        self.assertEqual(self.ok("kv", "range", "r/", "--prefix", "--count-only")["count"], 300)
        done = run(self.proxy, "kv", "range", "r/0298")
        self.assertEqual(done.stdout, b"r/0298\tr/0298\nr/0299\tr/0299\n")
        self.fails(2, "kv", "range", "--prefix", says="takes one key")

    def test_freshness(self):
        revision = self.ok("kv", "put", "fresh", "1")["revision"]
        follower = next(address for name, address in self.all.members.items() if name != self.all.wait_leader()[0])
        for level in ("lease", "quorum", "stale"):
            done = run(follower, "-o", "json", "kv", "get", "fresh", "--consistency", level,
                       "--min-revision", str(revision))
            self.assertEqual(json.loads(done.stdout)["value"], "1", done.stderr)
            self.assertEqual(self.ok("kv", "range", "fresh", "--prefix", "--consistency", level)["kvs"][0]["value"], "1")
        self.fails(4, "--timeout", "300ms", "kv", "get", "fresh", "--consistency", "stale",
                   "--min-revision", str(revision + 1000000))
        self.fails(2, "kv", "get", "fresh", "--consistency", "strong", says="lease|quorum|stale")

    def test_help_and_wrong_words(self):
        for words in (["help", "kv"], ["kv", "--help"]):
            shown = run(self.proxy, *words)
            self.assertEqual(shown.returncode, 0, shown.stderr)
            self.assertIn(b"kv range", shown.stdout)
            self.assertNotIn(b"history", shown.stdout)
        self.assertIn(b"history", run(self.proxy, "--help").stdout)
        self.assertIn(b"--keys-only", run(self.proxy, "help", "kv", "range").stdout)
        self.fails(2, "help", "nosuch", says="no command 'nosuch'")
        self.fails(2, "help", "kv", "nosuch", says="kv get, kv put")
        self.fails(2, "kv", says="kv get, kv put")
        self.fails(2, "leader", "now", says="usage: batonctl leader\n")
        self.fails(2, "kv", "range", "--key-only", says="did you mean --keys-only?")
        self.fails(2, "kv", "get", "k", "--key-only", says="batonctl kv get --help lists them")
        done = run("http://" + self.proxy, "leader")
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"without http://", done.stderr)

    def test_completion(self):
        def offered(*words):
            shell = '. <("$0" completion bash); COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _batonctl; echo "${COMPREPLY[@]}"'
            done = subprocess.run(["bash", "-c", shell, BATONCTL, "batonctl", *words], capture_output=True, timeout=60)
            self.assertEqual((done.returncode, done.stderr), (0, b""))
            return done.stdout.decode().split()

        self.assertEqual(offered("k"), ["kv"])
        self.assertEqual(offered("kv", "ra"), ["range"])
        self.assertEqual(offered("--addr", "h:1", "help", "kv", "ra"), ["range"])
        self.assertEqual(offered("kv", "range", "-o", "json", "--l"), ["--limit"])
        self.assertEqual(offered("kv", "range", "--key"), ["--keys-only"])
        self.assertEqual(offered("leader", "--l"), [])
        self.fails(2, "completion", "csh", says="bash is what there is")

    def test_transactions(self):
        clauses = ("if lock version = 0", "put lock me", "else get lock")
        self.assertTrue(self.ok("kv", "txn", *clauses)["succeeded"])
        failed = self.ok("kv", "txn", *clauses, code=3)
        self.assertFalse(failed["succeeded"])
        self.assertEqual(failed["results"][0]["kv"]["value"], "me")
        script = b'# hand over\nif lock value = me\nput lock "some one else"\nget nothing\ndel-prefix l\n'
        self.fails(2, "kv", "txn", "put lock", says="put KEY VALUE")
        done = self.ok("kv", "txn", "-", stdin=script.replace(b"del-prefix l", b"del-prefix x"))
        self.assertEqual([r["op"] for r in done["results"]], ["put", "get", "del"])
        self.assertIsNone(done["results"][1]["kv"])
        self.assertEqual(self.ok("kv", "get", "lock")["value"], "some one else")

    def test_bench(self):
        for mix in ("get", "put", "mixed"):
            seen = self.ok("bench", mix, "--concurrency", "8", "--duration", "1s", "--keys", "10",
                           "--value-size", "1KiB")
            self.assertEqual((seen["errors"], seen["first_errors"]), (0, []))
            self.assertGreater(seen["ops"], 0)
            self.assertGreaterEqual(seen["attempts"], seen["ops"])
            self.assertLessEqual(seen["p50_us"], seen["p99_us"])
            self.assertLessEqual(seen["p99_us"], seen["max_us"])
        self.fails(2, "bench", "everything", says="get, put or mixed")

    def test_bench_interrupted(self):
        bench = subprocess.Popen([BATONCTL, "--addr", self.proxy, "-o", "json", "bench", "put"],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        wait_until("the bench has begun", lambda: self.ok("kv", "range", "bench/", "--prefix", "--count-only")["count"])
        bench.send_signal(signal.SIGINT)
        out, err = bench.communicate(timeout=60)
        self.assertEqual(bench.returncode, 0, err)
        self.assertGreater(json.loads(out)["ops"], 0)

    def test_a_dead_service(self):
        for name in list(self.all.members) + ["p1"]:
            self.all.run_script("stop", name)
        self.fails(4, "--timeout", "300ms", "kv", "get", "k", says=self.proxy)
        self.fails(4, "--timeout", "300ms", "members", says=self.proxy)
        seen = self.ok("status", "--timeout", "300ms", code=4)
        self.assertEqual([s["ok"] for s in seen], [False])
        seen = self.ok("--timeout", "300ms", "bench", "get", "--duration", "200ms", code=4)
        self.assertEqual(seen["ops"], 0)
        self.assertGreater(seen["errors"], 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
