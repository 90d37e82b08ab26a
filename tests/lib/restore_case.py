"""Clusters whose etcd is restored from a snapshot, and what their members say then."""
import json
import os
import subprocess

import grpc

from cluster import BIN, ClusterTest, script, wait_until
from etcd_restore import save_snapshot
import stubs

TTL = 2


def put(cluster, key, value, address=None):
    request = stubs.load("baton.v1.kv_pb2").PutRequest(key=key.encode(), value=value.encode())
    return cluster.stub(address or cluster.proxy).Put(request, timeout=60)


def get(cluster, key, address=None):
    request = stubs.load("baton.v1.kv_pb2").GetRequest(key=key.encode())
    return cluster.stub(address or cluster.proxy).Get(request, timeout=60)


class RestoreTest(ClusterTest):
    def refuses(self, cluster, name):
        """Its message, once this member refuses what etcd holds."""
        answer = script.http_get(cluster.http[name], "/readyz")
        return answer[1] if answer and answer[0] == 503 and "recover --accept-restore" in answer[1] else None

    def ready(self, cluster, name):
        answer = script.http_get(cluster.http[name], "/readyz")
        return answer and answer[0] == 200

    def wait_refused(self, cluster):
        return [wait_until(f"{name} refuses", lambda n=name: self.refuses(cluster, n)) for name in cluster.members]

    def stop_members(self, cluster):
        for name in cluster.members:
            cluster.process(name).stop()

    def start_members(self, cluster):
        for name in cluster.members:
            cluster.restart(name)

    def assert_refused_everywhere(self, cluster):
        for name, address in cluster.members.items():
            self.assertEqual(cluster.process(name).state(), "running")
            state = wait_until(f"{name} answers", lambda a=address: cluster.leader_state(a))
            self.assertFalse(state.known)
            with self.assertRaises(grpc.RpcError) as caught:
                get(cluster, "a", address)
            self.assertEqual(caught.exception.code(), grpc.StatusCode.DATA_LOSS)
            self.assertIn("batonctl recover --accept-restore", caught.exception.details())
            trailers = dict(caught.exception.trailing_metadata())
            self.assertEqual(trailers["baton-reason"], "EPOCH_REGRESSION")
        wait_until("nobody stands", lambda: not cluster.election_queue())

    def batonctl_json(self, cluster, *words, code=0, addr=None):
        argv = [os.path.join(BIN, "batonctl"), "--addr", addr or ",".join(cluster.members.values()), "-o", "json", *words]
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return (json.loads(done.stdout) if done.stdout else None), done.stderr

    def behind_a_snapshot(self, **options):
        """A cluster that went on to another epoch after the snapshot, and that snapshot."""
        cluster = self.cluster(members=3, proxies=1, ttl=TTL, **options)
        cluster.wait_leader()
        put(cluster, "a", "before")
        snapshot = save_snapshot(cluster)
        put(cluster, "a", "after")
        _, epoch = cluster.wait_leader()
        fault = cluster.kill_leader()
        cluster.wait_leader(above_epoch=epoch)
        put(cluster, "b", "after")
        cluster.restart(fault.name)
        return cluster, snapshot

    def highest(self, cluster):
        said, _ = self.batonctl_json(cluster, "recover", code=2)
        return max(member["epoch"] for member in said["members"])

    def assert_goes_on(self, cluster, above):
        _, epoch = cluster.wait_leader(above_epoch=above)
        self.assertGreater(epoch, above)
        self.assertEqual(get(cluster, "a").kv.value, b"before")
        self.assertFalse(get(cluster, "b").HasField("kv"))
        put(cluster, "c", "recovered")
        for name in cluster.members:
            if cluster.process(name).state() == "running":
                wait_until(f"{name} is ready", lambda n=name: self.ready(cluster, n))

    def small_cluster(self):
        cluster = self.cluster(members=2, proxies=1, ttl=10)  # nobody waits for its end
        leader, epoch = cluster.wait_leader()
        put(cluster, "a", "mine")
        return cluster, leader, epoch

    def value(self, cluster, name):
        return cluster.etcdctl("get", cluster.prefix + name, "--print-value-only").rstrip("\n")

    def set(self, cluster, name, value):
        cluster.etcdctl("put", cluster.prefix + name, "--", value)

    def wait_log(self, cluster, text):
        for name in cluster.members:
            wait_until(f"{name} says '{text}'", lambda n=name: text in cluster.log(n))

    def wait_ready(self, cluster):
        for name in cluster.members:
            wait_until(f"{name} is ready", lambda n=name: self.ready(cluster, n))
