"""Handovers that are refused, or that nobody can tell the end of."""
import os
import signal
import sys
import threading
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from cluster import wait_until  # noqa: E402
from transfer import TransferTest  # noqa: E402

TTL, SHORT_TTL = 10, 5  # the short one is waited for


class Refusals(TransferTest):
    def test_who_is_no_target(self):
        cluster = self.cluster(ttl=TTL)
        self.wait_all_stand(cluster)
        leader, epoch = cluster.wait_leader()
        follower = next(name for name in sorted(cluster.members) if name != leader)
        self.no_transfer(cluster, "m9", "no member m9 is listed")
        answer = self.ask(cluster, cluster.proxy, "TransferLeadership", self.to(leader))
        self.assertEqual((answer.target_id, answer.epoch), (leader, epoch))
        self.wait_follows(cluster, follower)
        trailers = self.refused(cluster, cluster.members[follower], "TransferLeadership", self.to(), "UNAVAILABLE",
                                "NOT_LEADER")
        self.assertEqual(trailers["baton-leader"], cluster.members[leader])
        self.assertEqual(trailers["baton-not-executed"], "1")
        code, said = self.batonctl(cluster, "transfer", "m9")
        self.assertEqual(code, 1)
        self.assertIn("NO_TARGET", said)
        code, said = self.batonctl(cluster, "transfer", leader)
        self.assertEqual((code, said), (0, {"target": leader, "epoch": epoch}))

    def test_nobody_to_hand_over_to(self):
        cluster = self.cluster(members=1, ttl=TTL)
        leader = cluster.wait_leader()
        self.no_transfer(cluster, "", "no other member is listed")
        self.assertEqual(cluster.wait_leader(), leader)

    def test_foreign_candidate_before_all_others(self):
        """As `etcdctl elect` makes them: it is in line, and a leader sends only members to the end of it."""
        cluster = self.cluster(members=2, ttl=TTL)
        self.wait_all_stand(cluster)
        leader, epoch = cluster.wait_leader()
        other = next(name for name in cluster.members if name != leader)
        lease = cluster.etcdctl("lease", "grant", "600").split()[1]
        cluster.etcdctl("put", f"--lease={lease}", f"{cluster.prefix}live/election/{lease}", "elsewhere:1")
        cluster.etcdctl("del", self.key_of(cluster, other))  # it queues again, behind the foreign one
        self.wait_all_stand(cluster, 3)
        wait_until("the target has reported", lambda: self.listed(cluster)[other].applied_revision)
        self.no_transfer(cluster, "", "no member of this cluster")
        self.assertEqual(cluster.wait_leader(), (leader, epoch))
        cluster.etcdctl("lease", "revoke", lease)
        cluster.transfer(other)

    def key_of(self, cluster, name):
        return next(key for key, address in cluster.election_queue() if address == cluster.members[name])

    def test_second_one_meanwhile_and_no_answer_of_etcd(self):
        cluster = self.cluster(ttl=SHORT_TTL)
        self.wait_all_stand(cluster)
        leader, epoch = cluster.wait_leader()
        target = next(name for name in sorted(cluster.members) if name != leader)
        address = cluster.members[leader]
        wait_until("the target has reported", lambda: self.listed(cluster)[target].applied_revision)
        etcd = cluster.process("etcd1")
        etcd.pause()
        self.addCleanup(etcd.signal, signal.SIGCONT, True)
        first = {}
        asked = threading.Thread(target=self.first_of_two, args=(cluster, address, target, first))
        asked.start()
        wait_until("it has stepped down", lambda: not self.leads(cluster, leader))
        self.refused(cluster, address, "TransferLeadership", self.to(target), "FAILED_PRECONDITION", "IN_TRANSFER")
        asked.join(60)
        self.assertEqual(first["reason"], "OUTCOME_UNKNOWN")
        self.assertEqual(first["trailers"]["baton-outcome"], "unknown")
        etcd.signal(signal.SIGCONT, True)
        cluster.wait_leader(above_epoch=epoch)

    def first_of_two(self, cluster, address, target, out):
        out["trailers"] = self.refused(cluster, address, "TransferLeadership", self.to(target), "UNAVAILABLE",
                                       "OUTCOME_UNKNOWN")
        out["reason"] = out["trailers"]["baton-reason"]

    def leads(self, cluster, name):
        state = cluster.leader_state(cluster.members[name])
        return bool(state and state.known and state.id == name)


if __name__ == "__main__":
    unittest.main()
