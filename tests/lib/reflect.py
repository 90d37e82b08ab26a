"""A client that knows a server by reflection alone, as grpcurl does: it has the contract of reflection and no other."""
import queue

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

import stubs

VERSIONS = ("v1", "v1alpha")


def contract(version):
    """The module of reflection's own contract."""
    return stubs.load_beside(f"reflection/{version}/reflection.proto", f"reflection.{version}.reflection_pb2")


class Stream:
    """One stream of questions, open until closed."""

    def __init__(self, channel, version="v1", seconds=60):
        self.contract = contract(version)
        self._questions = queue.Queue()
        method = channel.stream_stream(
            f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
            lambda message: message if isinstance(message, bytes) else message.SerializeToString(),
            self.contract.ServerReflectionResponse.FromString)
        self.answers = method(iter(self._questions.get, None), timeout=seconds)

    def send(self, question=None, **fields):
        """A question by its fields, or any bytes."""
        self._questions.put(self.contract.ServerReflectionRequest(**fields) if question is None else question)

    def ask(self, question=None, **fields):
        self.send(question, **fields)
        return next(self.answers)

    def finish(self):
        """Says that there are no more questions; the answers that are left."""
        self._questions.put(None)
        return list(self.answers)

    def end(self):
        """The status with which the stream ends by itself."""
        try:
            while True:
                next(self.answers)
        except grpc.RpcError as error:
            self._questions.put(None)
            return error.code()
        except StopIteration:
            return grpc.StatusCode.OK

    def services(self):
        return [service.name for service in self.ask(list_services="*").list_services_response.service]


class Session:
    """Calls methods by name, with messages made from what the server says of itself."""

    def __init__(self, channel, version="v1"):
        self._channel = channel
        self._pool = descriptor_pool.DescriptorPool()
        self._factory = message_factory.MessageFactory(self._pool)
        stream = Stream(channel, version)
        self._known = set()
        for service in stream.services():
            answer = stream.ask(file_containing_symbol=service)
            for content in reversed(answer.file_descriptor_response.file_descriptor_proto):
                self._add(descriptor_pb2.FileDescriptorProto.FromString(content))
        stream.finish()

    def _add(self, file):
        if file.name not in self._known:
            self._known.add(file.name)
            self._pool.Add(file)

    def service(self, name):
        return self._pool.FindServiceByName(name)

    def call(self, service, method, seconds=20, **fields):
        """One unary call."""
        described = self.service(service).FindMethodByName(method)
        request, answer = (self._factory.GetPrototype(kind) for kind in (described.input_type, described.output_type))
        made = self._channel.unary_unary(f"/{service}/{method}", request.SerializeToString, answer.FromString)
        return made(request(**fields), timeout=seconds)
