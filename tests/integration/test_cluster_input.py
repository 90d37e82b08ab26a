"""Bad input from people and peers: each gets a clear message, nothing is lost, nobody crashes."""
import concurrent.futures
import os
import random
import socket
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
import grpc  # noqa: E402
import stubs  # noqa: E402
from cluster import BIN, CRASH, ClusterTest, script, wait_until  # noqa: E402

MIB = 1 << 20
START_SECONDS = 60


def program(name, *args, seconds=START_SECONDS):
    """Runs a program that should end by itself: (exit code, what it printed)."""
    done = subprocess.run([os.path.join(BIN, name), *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=seconds, cwd=tempfile.gettempdir())
    return done.returncode, done.stdout


class WrongOptions(unittest.TestCase):
    def assert_refused(self, name, *args, says, code=2):
        exit_code, output = program(name, *args)
        self.assertEqual(exit_code, code, output)
        self.assertIn(says, output)
        self.assertLess(output.count("\n"), 8, "a mistake wants a message, not a manual")

    def test_members(self):
        etcd = ("--etcd", "http://127.0.0.1:1")
        self.assert_refused("baton-meta", "--ttl", "5s", says="--ttl: means nothing without --etcd")
        self.assert_refused("baton-meta", "--etdc", "http://127.0.0.1:1", says="did you mean --etcd?")
        self.assert_refused("baton-meta", *etcd, "--ttl", "0s", says="must be between 1s and 10m")
        self.assert_refused("baton-meta", *etcd, "--ttl", "soon", says="wants a duration")
        self.assert_refused("baton-meta", *etcd, "--listen", "nonsense", says="nonsense")
        self.assert_refused("baton-meta", *etcd, "--listen", "0.0.0.0:5690", says="--advertise")
        self.assert_refused("baton-meta", *etcd, "--id", "no/slashes", says="--id")
        self.assert_refused("baton-meta", *etcd, "--log-level", "loud", says="debug|info|warn|error")
        self.assert_refused("baton-meta", *etcd, "stray", says="stray")

    def test_proxies(self):
        self.assert_refused("baton-proxy", says="--members is required")
        self.assert_refused("baton-proxy", "--members", "nonsense", says="nonsense")
        self.assert_refused("baton-proxy", "--members", "127.0.0.1:1", "--workers", "0", says="between 1 and")

    def test_command_line(self):
        self.assert_refused("batonctl", "no-such-command", says="no-such-command")
        self.assert_refused("batonctl", "--adr", "127.0.0.1:1", "leader", says="did you mean --addr?")
        self.assert_refused("batonctl", "kv", "put", "only-a-key", says="kv put")

    def test_unreachable_service(self):
        self.assert_refused("batonctl", "--addr", "127.0.0.1:1", "--timeout", "500ms", "leader",
                            says="127.0.0.1:1", code=4)

    def test_help_and_version(self):
        for name in ("baton-meta", "baton-proxy", "batonctl"):
            for option, says in (("--help", "Usage: " + name), ("--version", name)):
                code, output = program(name, option)
                self.assertEqual(code, 0, output)
                self.assertIn(says, output)


class RefusedStarts(ClusterTest):
    def member(self, cluster, data, *args, listen="127.0.0.1:0"):
        etcd = "http://" + cluster.etcd[0]
        port = script.take_ports(1, cluster.directory)[0]
        return ["--id", "extra", "--data", data, "--listen", listen, "--advertise", f"127.0.0.1:{port}",
                "--http", "127.0.0.1:0", "--etcd", etcd, "--cluster", "local", *args]

    def assert_refused(self, args, *says):
        code, output = program("baton-meta", *args)
        self.assertNotEqual(code, 0, output)
        for word in says:
            self.assertIn(word, output)
        self.assertIsNone(CRASH.search(output), output)

    def test_what_is_taken(self):
        cluster = self.cluster(members=1, proxies=1)
        fresh = os.path.join(cluster.directory, "extra")
        taken = cluster.members["m1"]
        self.assert_refused(self.member(cluster, fresh, listen=taken), taken)
        self.assert_refused(self.member(cluster, os.path.join(cluster.directory, "m1")), os.path.join(cluster.directory, "m1"))
        code, output = program("baton-proxy", "--listen", cluster.proxy, "--http", "127.0.0.1:0", "--members", taken)
        self.assertNotEqual(code, 0, output)
        self.assertIn(cluster.proxy, output)
        self.assertEqual(cluster.wait_leader()[0], "m1")

    def test_read_only_directory(self):
        cluster = self.cluster(members=1, proxies=0)
        # Not even root can write below /proc.
        self.assert_refused(self.member(cluster, "/proc/baton-data"), "/proc/baton-data")

    def test_same_id_twice(self):
        cluster = self.cluster(members=1, proxies=0)
        args = self.member(cluster, os.path.join(cluster.directory, "extra"))
        args[args.index("extra")] = "m1"
        self.assert_refused(args, "m1")
        self.assertEqual(cluster.wait_leader()[0], "m1")

    def test_unreachable_etcd_is_waited_for(self):
        """A member whose etcd is away serves what it can, says so, and joins when etcd comes back."""
        cluster = self.cluster(members=1, proxies=0)
        cluster.process("etcd1").stop()
        wait_until("the member says that nobody leads", lambda: self.says_nobody(cluster))
        self.assertEqual(script.http_get(cluster.http["m1"], "/healthz")[0], 200)
        self.assertEqual(script.http_get(cluster.http["m1"], "/readyz")[0], 503)
        cluster.restart("etcd1")
        cluster.wait_leader()
        self.assertLess(cluster.log("m1").count("\n"), 200, "an outage must not flood the log")

    @staticmethod
    def says_nobody(cluster):
        state = cluster.leader_state(cluster.members["m1"])
        return state is not None and not state.known


class BadRequests(ClusterTest):
    @classmethod
    def setUpClass(cls):
        cls.kv = stubs.load("baton.v1.kv_pb2")

    def assert_invalid(self, reason, method, request):
        with self.assertRaises(grpc.RpcError) as caught:
            method(request, timeout=60)
        error = caught.exception
        self.assertEqual(error.code(), grpc.StatusCode.INVALID_ARGUMENT, error)
        trailers = dict(error.trailing_metadata())
        self.assertEqual(trailers.get("baton-reason"), reason, error.details())
        self.assertEqual(trailers.get("baton-not-executed"), "1")
        self.assertTrue(error.details())

    def test_limits(self):
        kv, cluster = self.kv, self.cluster(members=1)
        stub = cluster.stub(cluster.proxy)
        self.assert_invalid("BAD_KEY", stub.Put, kv.PutRequest(value=b"no key"))
        self.assert_invalid("BAD_KEY", stub.Put, kv.PutRequest(key=b"k" * 481))
        self.assert_invalid("BAD_KEY", stub.Get, kv.GetRequest())
        self.assert_invalid("TOO_LARGE", stub.Put, kv.PutRequest(key=b"k", value=b"v" * (MIB + 1)))
        put = kv.Operation(put=kv.PutRequest(key=b"k", value=b"v"))
        self.assert_invalid("BAD_REQUEST", stub.Txn, kv.TxnRequest(then_ops=[put, put]))
        many = [kv.Operation(put=kv.PutRequest(key=b"k%d" % i)) for i in range(101)]
        self.assert_invalid("TOO_LARGE", stub.Txn, kv.TxnRequest(then_ops=many))
        self.assert_invalid("BAD_REQUEST", stub.Txn, kv.TxnRequest(then_ops=[kv.Operation()]))
        largest = kv.PutRequest(key=b"k" * 480, value=os.urandom(MIB))
        stub.Put(largest, timeout=60)
        self.assertEqual(stub.Get(kv.GetRequest(key=largest.key), timeout=60).kv.value, largest.value)
        for key in (b"\0", b"\xff" * 480, b"a\0b", "ключ".encode()):
            stub.Put(kv.PutRequest(key=key, value=key), timeout=60)
            self.assertEqual(stub.Get(kv.GetRequest(key=key), timeout=60).kv.value, key)

    def test_request_ids(self):
        kv, cluster = self.kv, self.cluster(members=1)
        stub = cluster.stub(cluster.proxy)
        for bad in ("short", "x" * 65):
            with self.assertRaises(grpc.RpcError) as caught:
                stub.Put(kv.PutRequest(key=b"k"), timeout=60, metadata=[("baton-request-id", bad)])
            self.assertEqual(dict(caught.exception.trailing_metadata()).get("baton-reason"), "BAD_REQUEST_ID")
        mine = [("baton-request-id", "an-id-of-my-own-1234")]
        first = stub.Put(kv.PutRequest(key=b"k", value=b"1"), timeout=60, metadata=mine)
        again, call = stub.Put.with_call(kv.PutRequest(key=b"k", value=b"1"), timeout=60, metadata=mine)
        self.assertEqual(again.revision, first.revision)
        self.assertEqual(dict(call.initial_metadata()).get("baton-replayed"), "1")
        self.assertEqual(stub.Get(kv.GetRequest(key=b"k"), timeout=60).kv.version, 1)

    def test_unknown_method_and_broken_message(self):
        cluster = self.cluster(members=1)
        with grpc.insecure_channel(cluster.proxy) as raw:
            for method, code in (("/baton.v1.KvService/NoSuch", "UNIMPLEMENTED"), ("/no.Such/Service", "UNIMPLEMENTED"),
                                 ("/baton.v1.KvService/Put", "INVALID_ARGUMENT")):
                with self.assertRaises(grpc.RpcError) as caught:
                    raw.unary_unary(method)(b"\xff\xff\xff\xff\xff", timeout=60)
                self.assertEqual(caught.exception.code().name, code, caught.exception)

    def test_garbage_on_every_port(self):
        cluster = self.cluster()
        stub = cluster.stub(cluster.proxy)
        stub.Put(self.kv.PutRequest(key=b"k", value=b"v"), timeout=60)
        leader = cluster.wait_leader()
        noise = random.Random(1)
        lumps = [noise.randbytes(4000), b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
                 b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + noise.randbytes(4000), b"\0" * 4000, b"",
                 b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\n\r\n"]
        addresses = [cluster.proxy, *cluster.members.values(),
                     *(a for name, a in cluster.http.items() if not name.startswith("etcd"))]
        with concurrent.futures.ThreadPoolExecutor(64) as pool:
            for thrown in [pool.submit(self.throw, address, lump) for address in addresses for lump in lumps]:
                thrown.result()
        self.assertEqual(cluster.wait_leader(), leader)
        self.assertEqual(stub.Get(self.kv.GetRequest(key=b"k"), timeout=60).kv.value, b"v")
        for name in [*cluster.members, "p1"]:
            self.assertEqual(script.http_get(cluster.http[name], "/healthz")[0], 200, name)

    @staticmethod
    def throw(address, lump):
        host, _, port = address.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=60) as s:
            try:
                s.sendall(lump)
                s.shutdown(socket.SHUT_WR)
                while s.recv(65536):
                    pass
            except OSError:
                pass  # cutting it short is a fine answer


if __name__ == "__main__":
    unittest.main(verbosity=2)
