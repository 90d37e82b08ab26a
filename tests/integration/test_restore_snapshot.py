"""etcd restored from a snapshot behind the back of the members: all of them refuse it, and say so everywhere."""
import os
import subprocess
import sys
import unittest

import grpc

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from cluster import BIN, ClusterTest, script, wait_until  # noqa: E402
from etcd_restore import restore_snapshot, save_snapshot  # noqa: E402
import stubs  # noqa: E402

TTL = 2


def put(cluster, key, value, address=None):
    request = stubs.load("baton.v1.kv_pb2").PutRequest(key=key.encode(), value=value.encode())
    return cluster.stub(address or cluster.proxy).Put(request, timeout=20)


def get(cluster, key, address=None):
    request = stubs.load("baton.v1.kv_pb2").GetRequest(key=key.encode())
    return cluster.stub(address or cluster.proxy).Get(request, timeout=20)


class RestoreTest(ClusterTest):
    def batonctl(self, cluster, *words, code=0):
        argv = [os.path.join(BIN, "batonctl"), "--addr", ",".join(cluster.members.values()), *words]
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def refuses(self, cluster, name):
        """Its message, once this member refuses what etcd holds."""
        answer = script.http_get(cluster.http[name], "/readyz")
        return answer[1] if answer and answer[0] == 503 and "recover --accept-restore" in answer[1] else None

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


class Restore(RestoreTest):
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

    def test_members_left_running_refuse(self):
        cluster, snapshot = self.behind_a_snapshot()
        restore_snapshot(cluster, snapshot)
        for message in self.wait_refused(cluster):
            self.assertIn("went back", message)
        self.assert_refused_everywhere(cluster)

    def test_members_started_anew_refuse(self):
        cluster, snapshot = self.behind_a_snapshot()
        self.stop_members(cluster)
        restore_snapshot(cluster, snapshot)
        self.start_members(cluster)
        for message in self.wait_refused(cluster):
            self.assertRegex(message, "it holds epoch 1, and this member has seen epoch [2-9]")
        self.assert_refused_everywhere(cluster)


if __name__ == "__main__":
    unittest.main()
