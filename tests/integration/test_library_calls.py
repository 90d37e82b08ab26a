"""Every call of libbaton that blocks, against three members: under valgrind, unless a sanitizer looks already."""
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from cluster import BIN, ClusterTest  # noqa: E402
from failover import sanitized  # noqa: E402

VALGRIND = ["valgrind", "-q", "--error-exitcode=9", "--leak-check=full", "--show-leak-kinds=definite",
            "--errors-for-leak-kinds=definite"]


class Calls(ClusterTest):
    def run_driver(self, *words):
        checked = [] if sanitized() else VALGRIND
        done = subprocess.run([*checked, os.path.join(BIN, "library-driver"), *words], capture_output=True, text=True,
                              timeout=240)
        return done.returncode, done.stdout, done.stderr

    def test_every_call(self):
        cluster = self.cluster(ttl=5, proxies=0)
        addresses = ",".join(cluster.members.values())
        self.assertEqual(self.run_driver("tour", addresses), (0, "ok\n", ""))
        _, said, complaints = self.run_driver("get", "127.0.0.1:1," + addresses, "k", "60000")
        self.assertTrue(said.startswith("0 0 "), said)
        self.assertEqual(complaints, "")


if __name__ == "__main__":
    unittest.main()
