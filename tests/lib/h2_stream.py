"""One HTTP/2 stream of a scripted peer: what it received, and what a script does with it."""
import asyncio

from h2.exceptions import ProtocolError, StreamClosedError

from h2_lab import Gone


def frame(message, compressed=False):
    """A gRPC length-prefixed message."""
    return bytes([1 if compressed else 0]) + len(message).to_bytes(4, "big") + bytes(message)


def split(body):
    """The complete messages of a gRPC body, and what is left over."""
    messages, at = [], 0
    while len(body) - at >= 5:
        length = int.from_bytes(body[at + 1:at + 5], "big")
        if len(body) - at - 5 < length:
            break
        messages.append(bytes(body[at + 5:at + 5 + length]))
        at += 5 + length
    return messages, bytes(body[at:])


def plain(headers):
    """(name, value) pairs of text, however the header list was made."""
    return [(str(h[0]), str(h[1])) for h in headers or []]


def wire(headers):
    """Bytes for the encoder; keeps the class of a header, so that never-indexed stays so."""
    out = []
    for header in headers:
        name, value = header
        name = name.encode("latin-1") if isinstance(name, str) else name
        value = value.encode("latin-1") if isinstance(value, str) else value
        out.append(header.__class__(name, value) if hasattr(header, "indexable") else (name, value))
    return out


class Stream:
    def __init__(self, peer, stream_id):
        self.peer, self.id = peer, stream_id
        self.raw_headers = None    # as h2 gave them: says which were never indexed
        self.headers = None        # [(name, value)]: of the request at a backend, of the answer at a client
        self.path = None           # of the request
        self.informational = []
        self.trailers = None
        self.body = bytearray()
        self.hold = False          # give no stream credit (the connection's is given always)
        self.held = 0
        self.keep_body = True
        self.received = 0
        self.ended = False         # END_STREAM was received
        self.trailers_only = False
        self.reset = None          # code of RST_STREAM received
        self.refused = False       # above the last id of a GOAWAY
        self.lost = False          # the connection ended first
        self.sent_end = False
        self.sent_bytes = 0

    # What was received.

    def on_headers(self, headers, ended=False):
        self.raw_headers, self.headers = list(headers), plain(headers)
        self.path = self.path or self.header(":path")
        if ended:
            self.trailers_only, self.trailers = True, self.headers

    def on_data(self, data, credit):
        self.received += len(data)
        if self.keep_body:
            self.body += data
        h2 = self.peer.h2
        if not credit:
            return
        if self.hold:
            self.held += credit
            h2.increment_flow_control_window(credit)
        else:
            h2.acknowledge_received_data(credit, self.id)

    def on_connection_lost(self):
        if not self.done:
            self.lost = True

    def on_refused(self):
        if not self.done:
            self.refused = True

    @property
    def done(self):
        return self.ended or self.reset is not None or self.refused or self.lost

    def all(self, name, where="headers"):
        return [v for k, v in getattr(self, where) or () if k == name]

    def header(self, name):
        return next(iter(self.all(name)), None)

    def trailer(self, name):
        return next(iter(self.all(name, "trailers")), None)

    @property
    def http_status(self):
        return self.header(":status")

    @property
    def grpc_status(self):
        """The number, or None when the answer has none (reset, lost, no gRPC)."""
        value = self.trailer("grpc-status")
        return int(value) if value is not None else None

    @property
    def messages(self):
        return split(self.body)[0]

    def describe(self):
        end = "ended" if self.ended else "lost" if self.lost else "refused" if self.refused else \
            f"reset {self.reset}" if self.reset is not None else "open"
        return (f"stream {self.id} {end}; headers {self.headers}; {self.received} bytes; "
                f"trailers {self.trailers}")

    # What a script does; only in the loop's thread.

    def release(self):
        """Gives the credit that `hold` kept back, and keeps none from now on."""
        self.hold = False
        held, self.held = self.held, 0
        if held and not self.done:
            self.peer.h2.increment_flow_control_window(held, self.id)
            self.peer.flush()

    def send_headers(self, headers, end=False):
        self._check()
        self.path = self.path or dict(plain(headers)).get(":path")
        try:
            self.peer.h2.send_headers(self.id, wire(headers), end_stream=end)
        except (ProtocolError, KeyError) as error:
            raise Gone(str(error)) from error
        self.sent_end = self.sent_end or end
        self.peer.flush()

    async def send_data(self, data, end=False):
        view, h2 = memoryview(bytes(data)), self.peer.h2
        while True:
            await self.peer.writable()
            self._check()
            try:
                room = min(h2.local_flow_control_window(self.id), h2.max_outbound_frame_size)
                if room <= 0 and len(view):
                    await self.peer.lab.until(lambda: self._stuck_no_more(h2))
                    continue
                piece, view = view[:max(room, 0)], view[max(room, 0):]
                last = end and not len(view)
                h2.send_data(self.id, piece.tobytes(), end_stream=last)
                self.sent_bytes += len(piece)
            except (StreamClosedError, ProtocolError, KeyError) as error:
                raise Gone(str(error)) from error
            self.peer.flush()
            await asyncio.sleep(0)  # other scripts have their turn
            if not len(view):
                self.sent_end = self.sent_end or end
                return

    def _stuck_no_more(self, h2):
        if self.reset is not None or self.peer.closed:
            return True
        try:
            return h2.local_flow_control_window(self.id) > 0
        except (ProtocolError, KeyError):
            return True

    async def send_message(self, message, end=False):
        await self.send_data(frame(message), end)

    def send_rst(self, code):
        """Ends the stream; h2 keeps its view so that late frames of the other side are no violation."""
        try:
            self.peer.h2.reset_stream(self.id, code)
            self.peer.flush()
        except (ProtocolError, KeyError):
            self.peer.send_rst(self.id, code)

    async def until(self, predicate):
        """Waits in a script; Gone when the stream ends otherwise first."""
        await self.peer.lab.until(lambda: predicate() or self.reset is not None or self.peer.closed)
        if not predicate():
            raise Gone(f"stream {self.id} ended")

    async def until_request_ended(self):
        await self.until(lambda: self.ended)

    def _check(self):
        if self.reset is not None or self.peer.closed:
            raise Gone(f"stream {self.id} ended")
