"""A raw HTTP/2 client: says what a stock gRPC client cannot say, and shows answers frame by frame."""
import socket

from h2_lab import DEADLINE_S
from h2_peer import CANCEL, H2Peer
from h2_stream import frame


def request(path, authority="proxy.test", **replace):
    """Headers of a gRPC request; replace(method="GET"), replace(te=None) change or drop one."""
    fields = {":method": "POST", ":scheme": "http", ":path": path, ":authority": authority,
              "content-type": "application/grpc", "te": "trailers"}
    for name, value in replace.items():
        name = name.replace("_", "-")
        name = ":" + name if ":" + name in fields else name
        fields[name] = value
    return [(name, value) for name, value in fields.items() if value is not None]


class Client:
    """Every method is for the test's thread."""

    def __init__(self, lab, addr, settings=None):
        self.lab = lab
        host, port = addr.rsplit(":", 1)

        async def connect():
            _, peer = await lab.loop.create_connection(
                lambda: H2Peer(lab, True, None, settings), host, int(port))
            return peer
        self.peer = lab.run(connect())

    def open(self, path, *headers, end=False, hold=False, keep_body=True, **replace):
        """A new stream with its headers sent."""
        return self.open_raw(request(path, **replace) + list(headers), end, hold, keep_body)

    def open_raw(self, headers, end=False, hold=False, keep_body=True):
        def start():
            stream = self.peer.new_stream()
            stream.hold, stream.keep_body = hold, keep_body
            stream.send_headers(headers, end=end)
            return stream
        return self.lab.call(start)

    def start(self, path, *headers, message=b"hello", **options):
        """A unary call on its way: headers and one message, the request complete, in one flight."""
        replace = {k: options.pop(k) for k in list(options) if k not in ("hold", "keep_body")}

        def go():
            stream = self.peer.new_stream()
            for name, value in options.items():
                setattr(stream, name, value)
            stream.send_headers(request(path, **replace) + list(headers))
            self.lab.spawn(stream.send_message(message, end=True))
            return stream
        return self.lab.call(go)

    def unary(self, path, *headers, message=b"hello", **options):
        """A finished call."""
        return self.finish(self.start(path, *headers, message=message, **options))

    def finish(self, stream):
        self.lab.wait(lambda: stream.done, f"{stream.path or 'the call'} ends: {stream.describe()}")
        return stream

    def wait_headers(self, stream):
        self.lab.wait(lambda: stream.headers is not None or stream.done,
                      f"response headers: {stream.describe()}")
        return stream

    def send(self, stream, data, end=False):
        """Sends, however long flow control takes (up to the deadline)."""
        self.lab.run(stream.send_data(data, end))

    def send_later(self, stream, data, end=False):
        """Sends in the background."""
        return self.lab.call(lambda: self.lab.spawn(stream.send_data(data, end)))

    def send_message(self, stream, message, end=False):
        self.send(stream, frame(message), end)

    def half_close(self, stream):
        self.send(stream, b"", end=True)

    def cancel(self, stream, code=CANCEL):
        self.lab.call(stream.send_rst, code)

    def release(self, stream):
        self.lab.call(stream.release)

    def ping(self):
        """A round trip: everything sent before has been read by the other side."""
        before = self.peer.ping_acks
        self.lab.call(self.peer.send_ping)
        self.lab.wait(lambda: self.peer.ping_acks > before or self.peer.closed, "PING is answered")

    def raw(self, data):
        self.lab.call(self.peer.write_raw, bytes(data))

    @property
    def closed(self):
        return self.peer.closed

    def close(self, hard=False):
        self.lab.call(self.peer.drop, hard)


class PlainSocket:
    """A TCP client for bytes that are no HTTP/2."""

    def __init__(self, addr, timeout=DEADLINE_S):
        host, port = addr.rsplit(":", 1)
        self.sock = socket.create_connection((host, int(port)), timeout)

    def send(self, data):
        self.sock.sendall(data)

    def read_to_end(self):
        """Everything until the other side closes; a reset counts as closed."""
        parts = []
        try:
            while part := self.sock.recv(65536):
                parts.append(part)
        except ConnectionError:
            pass
        return b"".join(parts)

    def close(self):
        self.sock.close()
