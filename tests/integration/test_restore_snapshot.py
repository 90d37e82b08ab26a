"""etcd restored from a snapshot behind the back of the members: all of them refuse it, and say so everywhere."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from etcd_restore import restore_snapshot  # noqa: E402
from restore_case import RestoreTest  # noqa: E402


class Restore(RestoreTest):
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
