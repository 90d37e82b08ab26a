"""The client program in JavaScript, with @grpc/grpc-js from the npm registry."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
import interop  # noqa: E402


class Node(interop.InteropTest):
    def test_node(self):
        self.run_client(["node", os.path.join(interop.FOLDER, "node", "client.js")],
                        env={"NODE_PATH": interop.node_packages(), "BATON_SRC": interop.SOURCE})


if __name__ == "__main__":
    unittest.main(verbosity=2)
