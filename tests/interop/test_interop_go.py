"""The client program in Go, with the gRPC library of Debian."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
import interop  # noqa: E402


class Go(interop.InteropTest):
    def test_go(self):
        self.run_client([interop.go_program(os.path.join(interop.FOLDER, "go", "client.go"), self.workspace())])


if __name__ == "__main__":
    unittest.main(verbosity=2)
