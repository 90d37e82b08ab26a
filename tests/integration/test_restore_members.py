"""batonctl recover with members of different epochs: each accepts it only above its own."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from cluster import wait_until  # noqa: E402
from etcd_restore import restore_snapshot  # noqa: E402
from restore_case import RestoreTest  # noqa: E402


class RecoverSome(RestoreTest):
    def test_a_member_that_was_away(self):
        """It accepts what was recovered above its own epoch, whenever it comes."""
        cluster, snapshot = self.behind_a_snapshot()
        self.stop_members(cluster)
        restore_snapshot(cluster, snapshot)
        for name in ("m1", "m2"):
            cluster.restart(name)
        some = ",".join(cluster.members[name] for name in ("m1", "m2"))
        for name in ("m1", "m2"):
            wait_until(f"{name} refuses", lambda n=name: self.refuses(cluster, n))
        _, said = self.batonctl_json(cluster, "recover", "--accept-restore", code=4)
        self.assertIn("Leave out one that is gone for good", said)
        done, _ = self.batonctl_json(cluster, "recover", "--accept-restore", "--epoch-above", "40", addr=some)
        self.assertEqual(done["epoch_floor"], 40)
        self.assert_goes_on(cluster, 40)
        cluster.restart("m3")
        self.assert_goes_on(cluster, 40)

    def test_a_member_that_has_seen_more(self):
        """It goes on refusing until the recovery is above its epoch too."""
        cluster, snapshot = self.behind_a_snapshot()
        cluster.process("m3").stop()
        leader, epoch = cluster.wait_leader()
        for _ in range(3):
            fault = cluster.kill_leader()
            _, epoch = cluster.wait_leader(above_epoch=epoch)
            cluster.restart(fault.name)
        self.stop_members(cluster)
        restore_snapshot(cluster, snapshot)
        self.start_members(cluster)
        self.wait_refused(cluster)
        above = self.highest(cluster)
        done, _ = self.batonctl_json(cluster, "recover", "--accept-restore", addr=cluster.members["m3"])
        self.assertLess(done["epoch_floor"], above)
        wait_until("m3 is ready", lambda: self.ready(cluster, "m3"))
        for name in ("m1", "m2"):
            message = wait_until(f"{name} refuses the recovery",
                                 lambda n=name: "recovery goes on above" in (self.refuses(cluster, n) or ""))
            self.assertTrue(message)
        above = max(self.highest(cluster), above)
        done, _ = self.batonctl_json(cluster, "recover", "--accept-restore")
        self.assertEqual(done["incarnation"], 3)
        self.assert_goes_on(cluster, above)


if __name__ == "__main__":
    unittest.main()
