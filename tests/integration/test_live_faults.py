"""A watcher, a subscriber and 200 workers live through leader kills, handovers and a restart of etcd: no gap, no repeat,
nobody expires but the one that died. BATON_FAULTS=20,5,1 is the long version (kills, transfers, restarts of etcd), which
bench/live.py repeats and prints."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from cluster import ClusterTest  # noqa: E402
from live import Live  # noqa: E402

FAULTS = [int(number) for number in os.environ.get("BATON_FAULTS", "6,2,1").split(",")]
WORKER_TTL_MS = 15000  # many heartbeats: a busy machine must not kill them


class Faults(ClusterTest):
    def test_all_live_through_them(self):
        cluster = self.cluster(ttl=5)
        with Live(cluster, ttl_ms=WORKER_TTL_MS) as live:
            live.strike(*FAULTS)
            dead, heir = live.let_one_die()
            problems = live.problems()
            print(live.summary())
        self.assertEqual(problems, [], f"{len(problems)} problems:\n" + "\n".join(problems[:20]))
        self.assertGreater(heir.slot_grant, dead.slot_grant)


if __name__ == "__main__":
    unittest.main(verbosity=2)
