"""scripts/cluster keeps its promises: what other scripts and people rely on."""
import json
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from cluster import BIN, SOURCE, ClusterTest, script, wait_until  # noqa: E402


def shell(text):
    return subprocess.run(["bash", "-euc", text], capture_output=True, text=True, cwd=SOURCE, timeout=120)


class Scripts(ClusterTest):
    def ctl(self, cluster, *words):
        done = subprocess.run([os.path.join(BIN, "batonctl"), "--addr", cluster.proxy, "-o", "json", *words],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_environment_file(self):
        cluster = self.cluster(members=2, proxies=2)
        done = shell(f'. {cluster.directory}/env; echo "$PROXY|$MEMBERS|$ETCD|$HTTP"')
        self.assertEqual(done.returncode, 0, done.stderr)
        proxy, members, etcd, http = (field.split() for field in done.stdout.strip().split("|"))
        self.assertEqual(proxy, cluster.proxies)
        self.assertEqual(members, list(cluster.members.values()))
        self.assertEqual((len(etcd), len(http)), (1, 4))
        for address in http:
            self.assertEqual(script.http_get(address, "/healthz")[0], 200)
            self.assertIn("baton_build_info", script.http_get(address, "/metrics")[1])
        for name in ("m1", "m2", "p1", "p2", "etcd1"):
            with open(os.path.join(cluster.directory, name + ".pid"), encoding="ascii") as f:
                self.assertEqual(int(f.read()), cluster.process(name).pid())
            self.assertTrue(os.path.exists(os.path.join(cluster.directory, name + ".log")))

    def test_kill_prints_a_name_only(self):
        cluster = self.cluster(ttl=4)
        name, epoch = cluster.wait_leader()
        self.assertEqual(cluster.run_script("kill-leader"), name + "\n")
        name, epoch = cluster.wait_leader(above_epoch=epoch)
        self.assertEqual(cluster.run_script("kill-leader", "--hard"), name + "\n")
        wait_until("the guardian is gone", lambda: not cluster.process(name).pid())
        name, epoch = cluster.wait_leader(above_epoch=epoch)
        self.assertEqual(cluster.run_script("pause-leader"), name + "\n")
        self.assertEqual(cluster.process(name).state(), "paused")
        cluster.run_script("resume", name)
        self.assertEqual(cluster.process(name).state(), "running")

    def test_clusters_side_by_side(self):
        one, two = self.cluster(members=1), self.cluster(members=1)
        self.ctl(one, "kv", "put", "k", "one")
        self.ctl(two, "kv", "put", "k", "two")
        self.assertEqual(self.ctl(one, "kv", "get", "k")["value"], "one")
        self.assertEqual(self.ctl(two, "kv", "get", "k")["value"], "two")
        one.run_script("down")
        self.assertEqual(one.process("m1").state(), "stopped")
        self.assertEqual(self.ctl(two, "kv", "get", "k")["value"], "two")

    def test_restart_keeps_state(self):
        cluster = self.cluster(members=1)
        self.ctl(cluster, "kv", "put", "k", "v")
        before = self.ctl(cluster, "leader")
        for name in ("m1", "etcd1", "p1"):
            cluster.run_script("restart", name)
        cluster.wait_leader(above_epoch=before["epoch"])
        self.assertEqual(self.ctl(cluster, "kv", "get", "k")["value"], "v")
        self.assertIn("leader", cluster.run_script("status"))

    def test_mistakes(self):
        cluster = self.cluster(members=0, proxies=0)
        again = shell(f"scripts/cluster up --dir {cluster.directory}")
        self.assertEqual(again.returncode, 1)
        self.assertIn("holds a cluster already", again.stderr)
        self.assertIn("no such process", shell(f"scripts/cluster restart m9 --dir {cluster.directory}").stderr)
        self.assertIn("no cluster there", shell("scripts/cluster status --dir /proc/none").stderr)

    def test_json_of_the_command_line(self):
        cluster = self.cluster()
        leader = self.ctl(cluster, "leader")
        self.assertEqual((leader["known"], leader["id"], leader["addr"]),
                         (True, cluster.wait_leader()[0], cluster.members[leader["id"]]))
        self.assertTrue(leader["cluster"])
        revision = self.ctl(cluster, "kv", "put", "k", "v")["revision"]
        got = self.ctl(cluster, "kv", "get", "k")
        self.assertEqual((got["key"], got["value"], got["revision"]), ("k", "v", revision))
        members = wait_until("all members are listed",
                             lambda: (found := self.ctl(cluster, "members")) and len(found) == 3 and found)
        self.assertEqual([m["id"] for m in members], ["m1", "m2", "m3"])
        for member in members:
            self.assertLessEqual({"id", "addr", "role", "epoch", "applied_revision"}, set(member))
        bench = self.ctl(cluster, "bench", "put", "--concurrency", "4", "--duration", "1s")
        self.assertLessEqual({"ops", "errors", "attempts", "ops_per_s", "p50_us", "p99_us", "max_us"}, set(bench))
        self.assertEqual(bench["errors"], 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
