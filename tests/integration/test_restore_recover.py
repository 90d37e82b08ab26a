"""batonctl recover: a cluster goes on from a restored etcd, above every epoch that anybody has seen."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from etcd_restore import restore_snapshot  # noqa: E402
from restore_case import RestoreTest  # noqa: E402


class Recover(RestoreTest):
    def test_with_members_left_running(self):
        cluster, snapshot = self.behind_a_snapshot()
        restore_snapshot(cluster, snapshot)
        self.wait_refused(cluster)
        _, said = self.batonctl_json(cluster, "recover", "--accept-restore", code=1)
        self.assertIn("stop all members, start them again", said)
        self.stop_members(cluster)
        self.start_members(cluster)
        self.wait_refused(cluster)
        _, said = self.batonctl_json(cluster, "recover", code=2)
        self.assertIn("--accept-restore", said)
        self.wait_refused(cluster)  # nothing was done
        above = self.highest(cluster)
        done, _ = self.batonctl_json(cluster, "recover", "--accept-restore")
        self.assertEqual((done["recovered"], done["incarnation"], done["epoch_floor"]), (True, 2, above))
        self.assert_goes_on(cluster, above)
        done, said = self.batonctl_json(cluster, "recover", "--accept-restore")
        self.assertFalse(done["recovered"])
        self.assertIn("nothing to recover", said)
        self.assertEqual(done["incarnation"], 2)

    def test_in_another_etcd_cluster(self):
        """Restored under another token, as etcd's manual advises: its cluster id is another one then."""
        cluster, snapshot = self.behind_a_snapshot()
        self.stop_members(cluster)
        restore_snapshot(cluster, snapshot, token="another")
        self.start_members(cluster)
        for message in self.wait_refused(cluster):
            self.assertIn("etcd is another one", message)
        above = self.highest(cluster)
        self.batonctl_json(cluster, "recover", "--accept-restore")
        self.assert_goes_on(cluster, above)


if __name__ == "__main__":
    unittest.main()
