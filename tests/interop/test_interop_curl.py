"""curl as a gRPC client: an HTTP/2 implementation that knows nothing of gRPC, against proxy and members alike."""
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
import stubs  # noqa: E402
from cluster import ClusterTest  # noqa: E402


class Curl(ClusterTest):
    def setUp(self):
        super().setUp()
        self.kv = stubs.load("baton.v1.kv_pb2")

    def call(self, address, method, message, *args, content_type="application/grpc"):
        """One unary call: (HTTP status, headers and trailers by name, the answer's bytes). message None: no body."""
        head = os.path.join(self.directory, "head")
        body = b"" if message is None else b"\0" + len(message).to_bytes(4, "big") + message
        upload = ["--request", "POST"] if message is None else ["--data-binary", "@-"]
        done = subprocess.run(
            ["curl", "--silent", "--show-error", "--http2-prior-knowledge", "--max-time", "60", "--dump-header", head,
             "--header", f"content-type: {content_type}", "--header", "te: trailers", *upload, *args,
             f"http://{address}{method}"], input=body, capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(head, encoding="ascii") as f:
            lines = f.read().splitlines()
        fields = dict(line.split(": ", 1) for line in lines if ": " in line)
        return int(lines[0].split()[1]), fields, done.stdout

    def test_unary_calls(self):
        cluster = self.cluster(members=1)
        self.directory = cluster.directory
        put = self.kv.PutRequest(key=b"k", value=b"v" * 100000).SerializeToString()
        get = self.kv.GetRequest(key=b"k").SerializeToString()
        for address in (cluster.proxy, cluster.members["m1"]):
            for method, message in (("Put", put), ("Get", get)):
                status, fields, body = self.call(address, f"/baton.v1.KvService/{method}", message)
                self.assertEqual((status, fields.get("grpc-status")), (200, "0"), fields)
                self.assertEqual(int(fields["baton-epoch"]), cluster.wait_leader()[1])
                self.assertEqual(int.from_bytes(body[1:5], "big"), len(body) - 5)
            self.assertEqual(self.kv.GetResponse.FromString(body[5:]).kv.value, b"v" * 100000)

    def test_errors(self):
        cluster = self.cluster(members=1)
        self.directory = cluster.directory
        for address in (cluster.proxy, cluster.members["m1"]):
            _, fields, body = self.call(address, "/baton.v1.KvService/Put", b"")
            self.assertEqual((fields["grpc-status"], fields["baton-reason"], body), ("3", "BAD_KEY", b""), fields)
            self.assertEqual(fields["baton-not-executed"], "1")
        status, fields, _ = self.call(cluster.proxy, "/baton.v1.KvService/Get", None, content_type="text/plain")
        self.assertEqual(status, 415, fields)
        status, fields, _ = self.call(cluster.proxy, "/baton.v1.KvService/Get", None, "--request", "GET")
        self.assertEqual(status, 405, fields)


if __name__ == "__main__":
    unittest.main(verbosity=2)
