"""Leaders that die under load: no caller sees an error, every effect happens once."""
import json
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from cluster import BIN, wait_until  # noqa: E402
from failover import FailoverTest  # noqa: E402
from workload import Load  # noqa: E402

TTL = 3


class KilledLeaders(FailoverTest):
    def restart(self, cluster):
        return lambda fault: cluster.restart(fault.name)

    def test_member_process_killed(self):
        cluster = self.cluster(ttl=TTL)
        self.fail_over(cluster, [cluster.kill_leader] * 4, TTL, self.restart(cluster))

    def test_guardian_killed_too(self):
        cluster = self.cluster(ttl=TTL)
        self.fail_over(cluster, [lambda: cluster.kill_leader(hard=True)] * 2, TTL, self.restart(cluster))

    def test_terminated(self):
        cluster = self.cluster(ttl=TTL)

        def recover(fault):
            cluster.process(fault.name).wait_gone(60)
            cluster.restart(fault.name)
        self.fail_over(cluster, [cluster.term_leader] * 3, TTL, recover)

    def test_rolling_restart_of_all_members(self):
        cluster = self.cluster(ttl=TTL)
        with Load(cluster.proxy) as load:
            for name in cluster.members:
                cluster.restart(name)
                self.wait_knows_leader(cluster, name)
            load.wait_progress()
            load.stop()
        self.assert_sound(load, cluster)

    def wait_knows_leader(self, cluster, name):
        def knows():
            state = cluster.leader_state(cluster.members[name])
            return state and state.known
        wait_until(f"{name} knows a leader", knows)

    def test_last_member_standing(self):
        cluster = self.cluster(ttl=TTL)
        with Load(cluster.proxy) as load:
            fallen = [self.strike(cluster, load, cluster.kill_leader).name for _ in range(2)]
            for name in fallen:
                cluster.restart(name)
            load.wait_progress()
            load.stop()
        self.assert_sound(load, cluster)

    def test_bench_sees_no_error(self):
        """The same with batonctl's own load: one attempt per call, so nothing hides what the proxy lets through."""
        cluster = self.cluster(ttl=TTL)
        bench = subprocess.Popen(
            [os.path.join(BIN, "batonctl"), "--addr", cluster.proxy, "-o", "json", "bench", "mixed",
             "--concurrency", "64", "--duration", "12s"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        kills = 0
        while bench.poll() is None and kills < 3:
            kill = cluster.kill_leader()
            cluster.restart(kill.name)
            kills += 1
        out, err = bench.communicate(timeout=120)
        self.assertEqual(bench.returncode, 0, err)
        seen = json.loads(out)
        print(f"{kills} kills: {seen}")
        self.assertEqual(seen["errors"], 0, err)
        self.assertGreaterEqual(seen["attempts"], seen["ops"])
        self.assertGreater(seen["ops"], 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
