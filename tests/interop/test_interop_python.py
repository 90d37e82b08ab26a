"""The client program in Python, with grpcio of Debian."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from interop import InteropTest  # noqa: E402


class Python(InteropTest):
    def test_python(self):
        self.run_client([sys.executable, os.path.join(os.path.dirname(__file__), "python", "client.py")])


if __name__ == "__main__":
    unittest.main(verbosity=2)
