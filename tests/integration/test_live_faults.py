"""A watcher and a subscriber live through leader kills, handovers and a restart of etcd: no gap, no repeat. BATON_FAULTS=20,5,1 is the long
version (kills, transfers, restarts of etcd), which bench/live.py repeats."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from cluster import ClusterTest  # noqa: E402
from live import Live  # noqa: E402

FAULTS = [int(number) for number in os.environ.get("BATON_FAULTS", "6,2,1").split(",")]


class Faults(ClusterTest):
    def test_all_live_through_them(self):
        cluster = self.cluster(ttl=5)
        with Live(cluster) as live:
            live.strike(*FAULTS)
            problems = live.problems()
            print(live.summary())
        self.assertEqual(problems, [], f"{len(problems)} problems:\n" + "\n".join(problems[:20]))


if __name__ == "__main__":
    unittest.main(verbosity=2)
