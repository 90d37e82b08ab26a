"""The client program in JavaScript, with @grpc/grpc-js from the npm registry."""
import hashlib
import os
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from cluster import SOURCE  # noqa: E402
from interop import InteropTest, cache_directory, run  # noqa: E402

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "node")


def installed_packages():
    """A folder of the packages that the lock file names, installed when it is new or has changed."""
    with open(os.path.join(FOLDER, "package-lock.json"), "rb") as lock:
        version = hashlib.sha256(lock.read()).hexdigest()[:16]
    directory = os.path.join(cache_directory("node"), version)
    if not os.path.isdir(directory):
        with tempfile.TemporaryDirectory(dir=os.path.dirname(directory)) as fresh:
            for name in ("package.json", "package-lock.json"):
                shutil.copy(os.path.join(FOLDER, name), fresh)
            run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=fresh)
            try:
                os.rename(os.path.join(fresh, "node_modules"), directory)
            except OSError:
                if not os.path.isdir(directory):  # else another run was faster
                    raise
    return directory


class Node(InteropTest):
    def test_node(self):
        self.run_client(["node", os.path.join(FOLDER, "client.js")],
                        env={"NODE_PATH": installed_packages(), "BATON_SRC": SOURCE})


if __name__ == "__main__":
    unittest.main(verbosity=2)
