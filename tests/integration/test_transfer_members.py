"""Members that an operator takes out."""
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from cluster import BIN, script, wait_until  # noqa: E402
from processes import take_ports  # noqa: E402
from transfer import TransferTest  # noqa: E402
from workload import Load  # noqa: E402

TTL = 10


class Removals(TransferTest):
    def remove(self, cluster, name):
        return self.ask(cluster, cluster.proxy, "RemoveMember", self.member.RemoveMemberRequest(id=name)).member

    def extra_member(self, cluster):
        """A fourth member as a child of this process, so that its exit status is seen."""
        addr, http = (f"127.0.0.1:{port}" for port in take_ports(2, cluster.directory))
        log = open(os.path.join(cluster.directory, "m4.log"), "wb")
        self.addCleanup(log.close)
        child = subprocess.Popen(
            [os.path.join(BIN, "baton-meta"), "--id", "m4", "--data", os.path.join(cluster.directory, "m4"),
             "--listen", addr, "--http", http, "--etcd", f"http://{cluster.etcd[0]}", "--cluster", "local",
             "--ttl", f"{TTL}s"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.addCleanup(self.bury, child)
        wait_until("m4 is listed", lambda: "m4" in self.listed(cluster))
        return child, log.name

    def bury(self, child):
        if child.poll() is None:
            child.kill()
            child.wait()

    def test_follower(self):
        cluster = self.cluster(ttl=TTL)
        self.wait_all_stand(cluster)
        child, log = self.extra_member(cluster)
        removed = self.remove(cluster, "m4")
        self.assertEqual((removed.id, self.member.Role.Name(removed.role)), ("m4", "ROLE_FOLLOWER"))
        self.assertEqual(set(self.listed(cluster)), set(cluster.members))
        self.wait_all_stand(cluster)
        self.assertEqual(child.wait(60), 0)
        with open(log, encoding="utf-8") as f:
            self.assertIn("member m4 was removed by an operator", f.read())
        self.refused(cluster, cluster.proxy, "RemoveMember", self.member.RemoveMemberRequest(id="m4"), "NOT_FOUND",
                     "UNKNOWN_MEMBER", "no member m4 is listed")
        self.extra_member(cluster)  # started again it joins again
        self.assertEqual(cluster.etcdctl("get", "--prefix", cluster.prefix + "live/removed/"), "")

    def test_leader_under_load(self):
        cluster = self.cluster(ttl=TTL)
        self.wait_all_stand(cluster)
        with Load(cluster.proxy, 16) as load:
            for _ in range(2):
                leader, epoch = cluster.wait_leader()
                self.wait_all_stand(cluster)
                wait_until("somebody can take over", lambda: self.may_remove(cluster, leader))
                self.assertNotIn(leader, self.listed(cluster))
                cluster.process(leader).wait_gone(60)
                cluster.wait_leader(above_epoch=epoch)
                load.wait_progress(puts=50)
                cluster.restart(leader)
            load.stop()
        self.assert_sound(load, cluster)

    def may_remove(self, cluster, name):
        code, said = self.batonctl(cluster, "member", "rm", name)
        if code and "NO_TARGET" in said:
            return False  # it was asked before anybody had reported
        self.assertEqual((code, said["id"]), (0, name))
        return True

    def test_last_one_stays(self):
        cluster = self.cluster(members=1, ttl=TTL)
        self.refused(cluster, cluster.proxy, "RemoveMember", self.member.RemoveMemberRequest(id="m1"),
                     "FAILED_PRECONDITION", "NO_TARGET", "nobody to hand over to")
        self.assertEqual(cluster.wait_leader()[0], "m1")
        code, _ = self.batonctl(cluster, "member", "rm", "m7")
        self.assertEqual(code, 3)

    def test_dead_one_leaves_the_list_at_once(self):
        cluster = self.cluster(ttl=60)
        self.wait_all_stand(cluster)
        leader, _ = cluster.wait_leader()
        victim = next(name for name in sorted(cluster.members) if name != leader)
        script.kill_member(cluster.process(victim), hard=True)
        cluster.process(victim).wait_gone(60)
        self.assertIn(victim, self.listed(cluster))  # its lease lives for a minute
        code, said = self.batonctl(cluster, "member", "rm", victim)
        self.assertEqual((code, said["id"]), (0, victim))
        self.assertNotIn(victim, self.listed(cluster))
        self.wait_all_stand(cluster, 2)
        cluster.restart(victim)
        wait_until("it is listed again", lambda: victim in self.listed(cluster))

    def test_paused_one_leaves_when_it_wakes(self):
        """Its lease is revoked while it sleeps: it learns why before it would register again."""
        cluster = self.cluster(ttl=TTL)
        self.wait_all_stand(cluster)
        leader, _ = cluster.wait_leader()
        victim = next(name for name in sorted(cluster.members) if name != leader)
        cluster.process(victim).pause()
        self.remove(cluster, victim)
        cluster.resume(victim)
        cluster.process(victim).wait_gone(60)
        self.assertIn("removed by an operator", cluster.log(victim))
        self.assertNotIn(victim, self.listed(cluster))


if __name__ == "__main__":
    unittest.main()
