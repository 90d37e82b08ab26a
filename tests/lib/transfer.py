"""Asking leaders to hand over, and members to go."""
import json
import os
import subprocess

import grpc

import stubs
from cluster import BIN, wait_until
from failover import FailoverTest


class TransferTest(FailoverTest):
    def setUp(self):
        super().setUp()
        self.member = stubs.load("baton.v1.member_pb2")

    def ask(self, cluster, address, method, request, seconds=60):
        return getattr(cluster.stub(address, "ClusterMember"), method)(request, timeout=seconds)

    def refused(self, cluster, address, method, request, code, reason, says=""):
        """The trailers of a call that must be refused so."""
        with self.assertRaises(grpc.RpcError) as caught:
            self.ask(cluster, address, method, request)
        error = caught.exception
        trailers = dict(error.trailing_metadata() or ())
        self.assertEqual((error.code().name, trailers.get("baton-reason")), (code, reason), error.details())
        self.assertIn(says, error.details())
        return trailers

    def no_transfer(self, cluster, target, says):
        self.refused(cluster, cluster.proxy, "TransferLeadership", self.to(target), "FAILED_PRECONDITION", "NO_TARGET",
                     says)

    def to(self, target=""):
        return self.member.TransferLeadershipRequest(target_id=target)

    def listed(self, cluster, address=None):
        answer = self.ask(cluster, address or cluster.proxy, "ListMembers", self.member.ListMembersRequest())
        return {m.id: m for m in answer.members}

    def wait_all_stand(self, cluster, count=None):
        wait_until("all members are in line",
                   lambda: len(cluster.election_queue()) == (count or len(cluster.members)))

    def batonctl(self, cluster, *words):
        """Exit code, and what it printed: JSON on stdout, or else stderr."""
        done = subprocess.run([os.path.join(BIN, "batonctl"), "--addr", cluster.proxy, "-o", "json", *words],
                              capture_output=True, text=True, timeout=60)
        return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr
