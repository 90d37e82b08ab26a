"""A scripted HTTP/2 backend: a gRPC server that behaves, or misbehaves, exactly as a test says.

A handler is a coroutine that gets the Stream of a call. The ready-made ones below cover most tests:

    backend.on("/test.Svc/Unary", echo)
    backend.on("/test.Svc/Unary", in_turn(reset(REFUSED_STREAM), echo))   # first call, all later ones
"""
import asyncio

from h2_lab import Gone
from h2_peer import H2Peer, LAST_ID, NO_ERROR
from h2_stream import frame
from kept_port import KeptPort

GRPC = [(":status", "200"), ("content-type", "application/grpc")]
OK = [("grpc-status", "0")]


class Backend:
    def __init__(self, lab, name="m1", settings=None, listening=True):
        self.lab, self.name, self.settings = lab, name, settings
        self.handlers, self.fallback = {}, echo
        self.peers, self.calls = [], []
        self.by_path = {}
        self.mute = False          # accepts connections and never says a word on them
        self.violations_expected = False
        self._server, self._port = None, KeptPort()
        self.addr = self._port.address
        if listening:
            self.listen()

    # What a test's thread may do.

    def listen(self):
        """Starts to accept connections; before, and after `refuse`, they are refused."""
        async def start():
            self._server = await self.lab.loop.create_server(
                lambda: H2Peer(self.lab, False, self, self.settings), sock=self._port.listener(), backlog=1000)
        self.lab.run(start())

    def refuse(self, kill=True):
        """Stops to listen; with `kill`, ends the connections as well: a process that died."""
        def stop():
            self._server.close()
            for peer in self.peers if kill else ():
                peer.drop(hard=True)
        self.lab.call(stop)

    def on(self, path, handler):
        self.handlers[path] = handler
        return self

    def count(self, path):
        return len(self.by_path.get(path, ()))

    def calls_of(self, path):
        return list(self.by_path.get(path, ()))

    def wait_calls(self, path, count=1):
        """The calls of a path, once there are so many."""
        self.lab.wait(lambda: self.count(path) >= count,
                      f"{self.name} gets {count} calls of {path} (has {self.count(path)})")
        return self.calls_of(path)

    def live_peers(self):
        return [peer for peer in list(self.peers) if not peer.closed]

    def each_peer(self, action):
        """Does something with every living connection, in the loop's thread."""
        self.lab.call(lambda: [action(peer) for peer in self.live_peers()])

    def kill_connections(self):
        self.each_peer(lambda peer: peer.drop(hard=True))

    def freeze(self):
        """The machine hangs: connections stay, nothing is read or answered."""
        self.each_peer(lambda peer: peer.freeze())

    @property
    def violations(self):
        return [text for peer in self.peers for text in peer.violations]

    def close(self):
        def stop():
            if self._server is not None:
                self._server.close()
            for peer in self.peers:
                peer.drop(hard=True)
        self.lab.call(stop)
        self._port.close()

    # What a connection tells, in the loop's thread.

    def on_connected(self, peer):
        self.peers.append(peer)
        self.lab.notify()
        return not self.mute

    def on_stream(self, stream):
        self.calls.append(stream)
        self.by_path.setdefault(stream.path, []).append(stream)
        self.lab.spawn(self._serve(stream))

    async def _serve(self, stream):
        handler = self.handlers.get(stream.path, self.fallback)
        if handler is not None:
            await handler(stream)


# Handlers: good manners.

async def echo(call):
    """Answers the request's body once it is complete."""
    await call.until_request_ended()
    call.send_headers(GRPC)
    await call.send_data(bytes(call.body))
    call.send_headers(OK, end=True)


async def echo_stream(call):
    """Answers each piece as it comes."""
    call.send_headers(GRPC)
    at = 0
    while True:
        await call.until(lambda: len(call.body) > at or call.ended)
        piece = bytes(call.body[at:])
        at += len(piece)
        if piece:
            await call.send_data(piece)
        if call.ended and at == len(call.body):
            break
    call.send_headers(OK, end=True)


async def silent(call):
    """Takes the request and never answers."""


def answer(message=b"", headers=(), trailers=(), status=0):
    """An answer of one message, or of none when the status is an error."""
    async def handler(call):
        await call.until_request_ended()
        call.send_headers(GRPC + list(headers))
        if status == 0:
            await call.send_data(frame(message))
        call.send_headers([("grpc-status", str(status))] + list(trailers), end=True)
    return handler


def trailers_only(status, *trailers):
    """The form in which a server refuses: one HEADERS with END_STREAM, before the request ends."""
    async def handler(call):
        call.send_headers(GRPC + [("grpc-status", str(status))] + list(trailers), end=True)
    return handler


def not_executed(*trailers):
    return trailers_only(14, ("baton-not-executed", "1"), *trailers)


def not_leader(addr=None, epoch=None):
    hint = [("baton-reason", "NOT_LEADER")]
    if addr is not None:
        hint += [("baton-leader", addr), ("baton-epoch", str(epoch))]
    return not_executed(*hint)


def source(size, piece=1 << 16):
    """One message of zero bytes, as fast as the flow control lets it."""
    async def handler(call):
        call.send_headers(GRPC)
        await call.send_data(b"\0" + size.to_bytes(4, "big"))
        left, block = size, bytes(piece)
        while left:
            part = min(left, piece)
            await call.send_data(block[:part])
            left -= part
        call.send_headers(OK, end=True)
    return handler


# Handlers: bad ones.

def reset(code, after_headers=False, after_end=True):
    async def handler(call):
        if after_end:
            await call.until_request_ended()
        if after_headers:
            call.send_headers(GRPC)
        call.send_rst(code)
    return handler


def kill(after_headers=False, body=b"", when_ended=True, hard=True):
    """The connection dies: with nothing answered, or after response headers and a part of the body."""
    async def handler(call):
        if when_ended:
            await call.until_request_ended()
        if after_headers:
            call.send_headers(GRPC)
            if body:
                await call.send_data(body)
        # What was sent should arrive: a hard end after it would overtake it.
        call.peer.drop(hard=hard and not after_headers)
    return handler


def goaway(last_id=None, code=NO_ERROR, close=False):
    """GOAWAY that disowns this call (last_id None: the id before it) or takes it (LAST_ID)."""
    async def handler(call):
        call.peer.send_goaway(max(call.id - 2, 0) if last_id is None else last_id, code)
        if last_id == LAST_ID:
            await echo(call)
        if close:
            call.peer.drop()
    return handler


# Handlers: combinations.

def in_turn(*handlers):
    """The first handler for the first call, and so on; the last one for all that follow."""
    calls = 0

    async def handler(call):
        nonlocal calls
        chosen = handlers[min(calls, len(handlers) - 1)]
        calls += 1
        await chosen(call)
    return handler


class Gate:
    """Calls wait at a gate until the test opens it."""
    def __init__(self, lab, then=echo):
        self.lab, self.then, self.is_open = lab, then, False

    async def __call__(self, call):
        try:
            await call.until(lambda: self.is_open)
        except Gone:
            return
        await self.then(call)

    def open(self):
        def set_open():
            self.is_open = True
            self.lab.notify()
        self.lab.call(set_open)


async def later(seconds, handler, call):
    """Answers late: the time is the behaviour under test, not a way to wait."""
    await asyncio.sleep(seconds)
    await handler(call)
