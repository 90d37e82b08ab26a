"""Server reflection: what a tool learns that has no contract of ours, from members and through the proxy, and across a
failover."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
import grpc  # noqa: E402
import reflect  # noqa: E402
from cluster import ClusterTest, channel  # noqa: E402

KV = "baton.v1.KvService"
WANTED = ["baton.v1.ClusterMemberService", KV, "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection",
          "grpc.reflection.v1alpha.ServerReflection"]
MANY = 500


class Reflection(ClusterTest):
    def channel(self, address):
        made = channel(address)
        self.addCleanup(made.close)
        return made

    def test_every_server_lists_its_services_and_describes_them(self):
        cluster = self.cluster(ttl=3)
        for address in (cluster.proxy, *cluster.members.values()):
            for version in reflect.VERSIONS:
                with self.subTest(address=address, version=version):
                    stream = reflect.Stream(self.channel(address), version)
                    services = stream.services()
                    self.assertEqual(services, sorted(set(services)))
                    self.assertLessEqual(set(WANTED), set(services))
                    for service in services:
                        answer = stream.ask(file_containing_symbol=service)
                        self.assertEqual(answer.WhichOneof("message_response"), "file_descriptor_response", service)
                    self.assertEqual(stream.finish(), [])

    def test_a_session_from_reflection_alone_across_a_kill(self):
        cluster = self.cluster(ttl=3)
        for number, version in enumerate(reflect.VERSIONS):
            there = self.channel(cluster.proxy)
            session = reflect.Session(there, version)
            self.assertEqual([method.name for method in session.service(KV).methods][:5],
                             ["Get", "Range", "Put", "Delete", "Txn"])
            session.call(KV, "Put", key=b"k", value=b"%d" % number)
            stream = reflect.Stream(there, version)
            self.assertIn(KV, stream.services())
            cluster.kill_leader()
            self.assertEqual(stream.end(), grpc.StatusCode.UNAVAILABLE)
            self.assertIn(KV, reflect.Stream(there, version).services())
            answer = reflect.Session(there, version).call(KV, "Get", key=b"k")
            self.assertEqual((answer.found, answer.kv.value), (True, b"%d" % number))

    def test_answers(self):
        cluster = self.cluster(members=1)
        stream = reflect.Stream(self.channel(cluster.proxy))
        by_name = stream.ask(file_by_filename="baton/v1/kv.proto", host="here")
        self.assertEqual(by_name.valid_host, "here")
        self.assertEqual(by_name.original_request.file_by_filename, "baton/v1/kv.proto")
        for symbol in (f"{KV}.Put", "baton.v1.PutRequest", "baton.v1.PutRequest.prev_kv", "baton.v1.Compare.Target",
                       "baton.v1.Compare.TARGET_VERSION", "baton.v1.CONSISTENCY_STALE", "baton.v1.Operation.op"):
            self.assertEqual(stream.ask(file_containing_symbol=symbol).file_descriptor_response,
                             by_name.file_descriptor_response, symbol)
        extensions = stream.ask(all_extension_numbers_of_type="baton.v1.PutRequest").all_extension_numbers_response
        self.assertEqual((extensions.base_type_name, list(extensions.extension_number)), ("baton.v1.PutRequest", []))
        for unknown in ({"file_by_filename": "baton/v1/none.proto"}, {"file_by_filename": ""},
                        {"file_containing_symbol": "baton.v1.PutReques"}, {"file_containing_symbol": "baton.v1"},
                        {"file_containing_symbol": ".baton.v1.KvService"},
                        {"file_containing_symbol": "x" * 10000},
                        {"all_extension_numbers_of_type": KV}, {"all_extension_numbers_of_type": "no.Type"},
                        {"file_containing_extension": {"containing_type": "baton.v1.PutRequest", "extension_number": 7}},
                        {"file_containing_extension": {}}):
            answer = stream.ask(**unknown)
            self.assertEqual(answer.error_response.error_code, grpc.StatusCode.NOT_FOUND.value[0], unknown)
            self.assertTrue(answer.error_response.error_message)
            self.assertEqual(answer.original_request, stream.contract.ServerReflectionRequest(**unknown))
        for nothing in (b"", b"\x0a\x01h", b"\xa2\x06\x01x"):  # empty, only a host, an unknown field
            self.assertEqual(stream.ask(nothing).error_response.error_code, grpc.StatusCode.INVALID_ARGUMENT.value[0])
        self.assertEqual(stream.finish(), [])

    def test_bad_requests_end_the_stream(self):
        cluster = self.cluster(members=1)
        for bad in (b"\xff\xff\xff", b"\x1a\x7fshort", b"\x1a\xa0\x9c\x01" + b"x" * 20000):
            stream = reflect.Stream(self.channel(cluster.proxy))
            stream.send(bad)
            self.assertEqual(stream.end(), grpc.StatusCode.INVALID_ARGUMENT, bad[:8])

    def test_many_questions_at_once_are_answered_in_order(self):
        cluster = self.cluster(members=1)
        for address in (cluster.proxy, cluster.members["m1"]):
            stream = reflect.Stream(self.channel(address))
            for number in range(MANY):
                stream.send(file_containing_symbol=KV, host=str(number))
            answers = stream.finish()
            self.assertEqual([answer.valid_host for answer in answers], [str(number) for number in range(MANY)])
            self.assertEqual(len({answer.file_descriptor_response.SerializeToString() for answer in answers}), 1)

    def test_streams_end_when_the_member_leaves(self):
        cluster = self.cluster(ttl=3)
        stream = reflect.Stream(self.channel(cluster.proxy))
        stream.services()
        cluster.term_leader()
        self.assertEqual(stream.end(), grpc.StatusCode.UNAVAILABLE)
        self.assertIn(KV, reflect.Stream(self.channel(cluster.proxy)).services())


if __name__ == "__main__":
    unittest.main(verbosity=2)
