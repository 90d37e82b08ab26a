"""The client program in Go, with the gRPC library of Debian."""
import os
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from cluster import SOURCE  # noqa: E402
from interop import InteropTest, cache_directory, run  # noqa: E402

LIBRARIES = "/usr/share/gocode"  # where Debian's packages of Go put them


class Go(InteropTest):
    def build(self):
        """The program, from stubs that protoc makes now. Only Go's own cache outlives the test."""
        workspace = tempfile.mkdtemp(prefix="baton-go-")
        self.addCleanup(shutil.rmtree, workspace, ignore_errors=True)
        source = os.path.join(workspace, "src")
        proto = os.path.join(SOURCE, "proto")
        shutil.copytree(os.path.join(os.path.dirname(os.path.abspath(__file__)), "go"), os.path.join(source, "client"))
        for files in (["baton/v1/kv.proto", "baton/v1/member.proto"], ["grpc/health/v1/health.proto"]):
            run(["protoc", "-I", proto, f"--go_out=plugins=grpc:{source}", *files])
        program = os.path.join(workspace, "client")
        run(["go", "build", "-o", program, "client"], cwd=workspace,
            env={**os.environ, "GO111MODULE": "off", "GOPATH": f"{workspace}:{LIBRARIES}", "GOFLAGS": "", "GOPROXY": "off",
                 "GOCACHE": cache_directory("go")})
        return program

    def test_go(self):
        program = self.build()
        self.run_client([program])


if __name__ == "__main__":
    unittest.main(verbosity=2)
