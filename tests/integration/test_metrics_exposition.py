#!/usr/bin/python3
"""What members and proxies tell Prometheus: valid, whole, documented, and bounded whatever clients send."""
import os
import re
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import grpc  # noqa: E402

import stubs  # noqa: E402
from cluster import BIN, SOURCE, ClusterTest, channel, script, wait_until  # noqa: E402
from prometheus import promtool  # noqa: E402

STRANGE = ["/", "//", "/a", "/baton.v1.KvService", "/baton.v1.KvService/", "/baton.v1.KvService/get",
           "/baton.v1.KvService/Get/", "/baton.v1.KvService/Get?x=1", '/q"uo/t\\e', "/other/other",
           "/baton.v1.KvService/" + "x" * 3000, "/{a=\"b\"}/c", "/%00/%0a"]


def rows_of(program):
    """name -> type, of the program's own table."""
    done = subprocess.run([os.path.join(BIN, program), "--metrics-doc"], capture_output=True, text=True, check=True)
    return dict(re.findall(r"(?m)^\| `(\w+)` \| (\w+)", done.stdout))


def series_of(text):
    """All series of an exposition, without their values."""
    return {line.rsplit(" ", 1)[0] for line in text.splitlines() if line and not line.startswith("#")}


class Exposition(ClusterTest):
    def metrics(self, cluster, name):
        status, text = script.http_get(cluster.http[name], "/metrics", seconds=60)
        self.assertEqual(status, 200)
        return text

    def call(self, stub_channel, method):
        """Any method, with an empty message; the status."""
        unary = stub_channel.unary_unary(method, request_serializer=bytes, response_deserializer=bytes)
        try:
            unary(b"", timeout=60)
        except grpc.RpcError as error:
            return error.code().name
        return "OK"

    def put(self, cluster, key):
        kv = stubs.load("baton.v1.kv_pb2")
        cluster.stub(cluster.proxy).Put(kv.PutRequest(key=key, value=b"1"), timeout=60)

    def test_every_process(self):
        cluster = self.cluster(members=2, proxies=1)
        leader, _ = cluster.wait_leader()
        self.put(cluster, b"a")
        for name, program in (("m1", "baton-meta"), ("m2", "baton-meta"), ("p1", "baton-proxy")):
            with self.subTest(name=name, leads=name == leader):
                text = self.metrics(cluster, name)
                self.assertEqual(promtool("check", "metrics", text=text), "")
                rows = rows_of(program)
                self.assertGreater(len(rows), 30)
                self.assertEqual(dict(re.findall(r"(?m)^# TYPE (\w+) (\w+)$", text)), rows)
                wait_until("each row has a series", lambda n=name, r=rows: self.without_series(cluster, n, r) <= {
                    # who alone leads nobody is told how far others are behind; no etcd failed; nobody works or subscribes
                    "baton_meta_member_lag_revisions", "baton_meta_etcd_errors_total", "baton_meta_workers",
                    "baton_meta_worker_slots", "baton_meta_subscribers"})

    def without_series(self, cluster, name, rows):
        text = self.metrics(cluster, name)
        return {row for row in rows if not re.search(rf"(?m)^{row}(_count)?[ {{]", text)}

    def test_embedded(self):
        cluster = self.cluster(embedded=True, proxies=0)
        name = next(iter(cluster.members))
        text = self.metrics(cluster, name)
        self.assertEqual(promtool("check", "metrics", text=text), "")
        self.assertEqual(cluster.metric(name, "baton_meta_role", role="LEADER"), 1)
        self.assertEqual(cluster.metric(name, "baton_meta_info", mode="embedded"), 1)

    def test_documentation(self):
        done = subprocess.run([os.path.join(SOURCE, "scripts", "metrics-doc"), "--check"], capture_output=True,
                              text=True, env={**os.environ, "BATON_BIN": BIN})
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_hostile_names(self):
        """10 000 methods that nobody serves, and weird ones, make no series: neither at a member nor at a proxy."""
        cluster = self.cluster(members=1, proxies=1)
        cluster.wait_leader()
        for address, name, counter in ((cluster.members["m1"], "m1", ("baton_meta_rpcs_total", {"method": "other"})),
                                       (cluster.proxy, "p1", ("baton_proxy_calls_total", {"class": "other"}))):
            with self.subTest(name=name), channel(address) as made:
                for method in STRANGE[:2] + ["/x.Y/Z"]:
                    self.call(made, method)  # the one status that all of these get
                before = self.metrics(cluster, name)
                counted = cluster.metric(name, counter[0], **counter[1])
                statuses = {self.call(made, method) for method in STRANGE}
                for i in range(0, 10000, 200):
                    waiting = [made.unary_unary(f"/hostile.S{i + k}/M", bytes, bytes).future(b"", timeout=60)
                               for k in range(200)]
                    statuses |= {future.code().name for future in waiting}
                self.assertNotIn("OK", statuses)
                after = self.metrics(cluster, name)
                fresh = {re.sub(r'status="\w+"', "", one) for one in series_of(after) - series_of(before)}
                old = {re.sub(r'status="\w+"', "", one) for one in series_of(before)}
                self.assertEqual({one for one in fresh if "etcd" not in one} - old, set())
                self.assertNotIn("hostile", after)
                wait_until("all are counted", lambda: cluster.metric(name, counter[0], **counter[1]) >= counted + 10000)

    def test_gone_members_vanish(self):
        """Series of a member are there while it is, and gone with it."""
        cluster = self.cluster(members=3, proxies=1, ttl=10)
        leader, _ = cluster.wait_leader()
        gone = next(name for name in cluster.members if name != leader)

        def told():
            text = self.metrics(cluster, leader)
            return set(re.findall(r'(?m)^baton_meta_member_lag_revisions\{member="(\w+)"\} 0', text))

        wait_until("the leader knows how far the others are", lambda: told() == set(cluster.members) - {leader})
        wait_until("the proxy tells of it",
                   lambda: f'upstream="{cluster.members[gone]}"' in self.metrics(cluster, "p1"))
        cluster.run_script("stop", gone)
        wait_until(f"nothing is told of {gone}", lambda: told() == set(cluster.members) - {leader, gone})
        wait_until("two members are left", lambda: cluster.metric(leader, "baton_meta_members") == 2)


if __name__ == "__main__":
    unittest.main()
