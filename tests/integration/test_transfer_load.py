"""Planned handovers under load: no caller sees an error, every effect happens once."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from failover import table_of_gaps  # noqa: E402
from transfer import TransferTest  # noqa: E402
from workload import Load  # noqa: E402

TTL = 10


class UnderLoad(TransferTest):
    def test_to_each_member_in_turn(self):
        cluster = self.cluster(ttl=TTL)
        self.wait_all_stand(cluster)
        handed = []
        with Load(cluster.proxy, 24) as load:
            for target in sorted(cluster.members) * 2:
                if cluster.wait_leader()[0] == target:
                    continue
                load.wait_progress(puts=50)
                handed.append((cluster.transfer_leader(target), target))
                self.assertEqual(cluster.wait_leader(above_epoch=handed[-1][0].epoch)[0], target)
            load.wait_progress(puts=50)
            load.stop()
        leaderships = {one.epoch: one for one in cluster.history()}
        for fault, target in handed:
            after = leaderships[fault.epoch + 1]
            self.assertEqual((after.leader_id, after.reason), (target, "released"))
        gaps = [load.history().handover_gap(fault.epoch) * 1000 for fault, _ in handed]
        print(table_of_gaps(f"{len(load.history().ops)} calls", {"transfer": gaps}))
        self.assert_sound(load, cluster)

    def test_to_nobody_in_particular(self):
        """Whoever is first in line, again and again, with a member that dies between."""
        cluster = self.cluster(ttl=TTL)
        self.wait_all_stand(cluster)
        with Load(cluster.proxy, 24) as load:
            for turn in range(3):
                name, epoch = cluster.wait_leader()
                answer, _ = cluster.transfer()
                self.assertEqual(answer.epoch, epoch)
                new, _ = cluster.wait_leader(above_epoch=epoch)
                self.assertEqual(new, answer.target_id)
                self.assertNotEqual(new, name)
                load.wait_progress(puts=50)
                if turn == 1:
                    cluster.restart(cluster.kill_leader().name)
            load.stop()
        self.assert_sound(load, cluster)


if __name__ == "__main__":
    unittest.main()
