"""One end of an HTTP/2 connection, for fake backends and raw clients alike.

Everything received is recorded; everything sent is under the script's control, legal or not. python3-h2
checks what the other side sends (flow control, stream states, concurrency, header rules): its complaints
are collected in `violations`.
"""
import asyncio
import socket
import struct

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes
import h2.events as ev
from hyperframe.frame import GoAwayFrame, PingFrame, RstStreamFrame

from h2_lab import Gone
from h2_stream import Stream, plain

NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, FLOW_CONTROL_ERROR = 0, 1, 2, 3
REFUSED_STREAM, CANCEL, ENHANCE_YOUR_CALM = 7, 8, 11
LAST_ID = 2**31 - 1
CONNECTION_WINDOW = 16 << 20


class H2Peer(asyncio.Protocol):
    def __init__(self, lab, client_side, owner=None, settings=None):
        self.lab, self.owner, self.client_side = lab, owner, client_side
        self.streams = {}          # id -> Stream, closed ones included
        self.violations = []       # what the other side did against the protocol
        self.goaways = []          # (error code, last stream id) received
        self.pings = 0
        self.pings_before_goaway = 0
        self.ping_acks = 0
        self.resets_received = 0
        self.remote_settings = {}
        self.settings_acked = 0
        self.frozen = False
        self.closed = False
        self.transport = None
        self._writable = True
        self._settings = dict(settings or {})
        self.h2 = self._new_h2()

    def _new_h2(self):
        h2 = H2Connection(H2Configuration(
            client_side=self.client_side, header_encoding="latin-1",
            validate_outbound_headers=False, normalize_outbound_headers=False,
            validate_inbound_headers=True, normalize_inbound_headers=False))
        local = {SettingCodes.MAX_CONCURRENT_STREAMS: 10000, SettingCodes.INITIAL_WINDOW_SIZE: 1 << 20}
        if self.client_side:
            local[SettingCodes.ENABLE_PUSH] = 0
        local.update(self._settings)
        h2.local_settings.update(local)
        for code in local:
            h2.local_settings.acknowledge()
        h2.max_inbound_frame_size = h2.local_settings.max_frame_size
        h2.decoder.max_header_list_size = h2.local_settings.max_header_list_size
        h2.decoder.max_allowed_table_size = h2.local_settings.header_table_size
        # h2 takes a GOAWAY for the end of the connection; streams below its last id go on, though.
        h2._frame_dispatch_table[GoAwayFrame] = self._on_goaway_frame
        h2._frame_dispatch_table[PingFrame] = self._on_ping_frame
        return h2

    # The transport's side.

    def connection_made(self, transport):
        self.transport = transport
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.owner is not None and not self.owner.on_connected(self):
            return
        self.start()

    def start(self):
        """Sends the preface and the settings."""
        self.h2.initiate_connection()
        more = CONNECTION_WINDOW - 65535
        self.h2.increment_flow_control_window(more)
        self.flush()

    def connection_lost(self, error):
        self.closed = True
        for stream in self.streams.values():
            stream.on_connection_lost()
        self.lab.notify()

    def pause_writing(self):
        self._writable = False

    def resume_writing(self):
        self._writable = True
        self.lab.notify()

    def data_received(self, data):
        try:
            events = self.h2.receive_data(data)
        except ProtocolError as error:
            self.violations.append(f"{type(error).__name__}: {error}")
            self.flush()
            self.transport.close()
            self.lab.notify()
            return
        for event in events:
            self._on_event(event)
        self.flush()
        self.lab.notify()

    def _on_goaway_frame(self, frame):
        self.goaways.append((frame.error_code, frame.last_stream_id))
        for stream in self.streams.values():
            if self.client_side and stream.id > frame.last_stream_id:
                stream.on_refused()
        return [], []

    def _on_ping_frame(self, frame):
        if not self.goaways and "ACK" not in frame.flags:
            self.pings_before_goaway += 1
        return self.h2._receive_ping_frame(frame)

    def _on_event(self, event):
        if isinstance(event, ev.RequestReceived):
            stream = self.streams[event.stream_id] = Stream(self, event.stream_id)
            stream.on_headers(event.headers)
            self.owner.on_stream(stream)
        elif isinstance(event, ev.RemoteSettingsChanged):
            for code, change in event.changed_settings.items():
                self.remote_settings[int(code)] = change.new_value
        elif isinstance(event, ev.PingReceived):
            self.pings += 1
        elif isinstance(event, ev.PingAckReceived):
            self.ping_acks += 1
        elif isinstance(event, ev.SettingsAcknowledged):
            self.settings_acked += 1
        elif getattr(event, "stream_id", None):
            self._on_stream_event(self.streams.get(event.stream_id), event)

    def _on_stream_event(self, stream, event):
        if stream is None:
            return
        if isinstance(event, ev.ResponseReceived):
            stream.on_headers(event.headers, ended=event.stream_ended is not None)
        elif isinstance(event, ev.InformationalResponseReceived):
            stream.informational.append(list(event.headers))
        elif isinstance(event, ev.TrailersReceived):
            stream.trailers = plain(event.headers)
        elif isinstance(event, ev.DataReceived):
            stream.on_data(event.data, event.flow_controlled_length)
        elif isinstance(event, ev.StreamEnded):
            stream.ended = True
        elif isinstance(event, ev.StreamReset):
            self.resets_received += 1
            stream.reset = int(event.error_code)

    # The script's side, in the loop's thread.

    def flush(self):
        if self.frozen or self.transport is None or self.transport.is_closing():
            return
        data = self.h2.data_to_send()
        if data:
            self.transport.write(data)

    def new_stream(self):
        stream_id = self.h2.get_next_available_stream_id()
        stream = self.streams[stream_id] = Stream(self, stream_id)
        return stream

    async def writable(self):
        await self.lab.until(lambda: self.closed or (self._writable and not self.frozen))
        if self.closed:
            raise Gone("connection closed")

    def write_raw(self, data):
        """Bytes as they are, after everything sent before."""
        self.flush()
        if not self.transport.is_closing():
            self.transport.write(data)

    def send_goaway(self, last_id=LAST_ID, code=NO_ERROR, text=b""):
        """Without h2's knowledge, which would close the connection for it."""
        frame = GoAwayFrame(0, additional_data=text)
        frame.last_stream_id, frame.error_code = last_id, code
        self.write_raw(frame.serialize())

    def send_rst(self, stream_id, code):
        """Also on streams that h2 holds for closed."""
        frame = RstStreamFrame(stream_id)
        frame.error_code = code
        self.write_raw(frame.serialize())

    def change_settings(self, settings):
        self.h2.update_settings(settings)
        self.flush()

    def send_ping(self):
        self.h2.ping(b"batontst")
        self.flush()

    def freeze(self):
        """Half-open: nothing is read or answered any more, PINGs included; the socket stays."""
        self.frozen = True
        self.transport.pause_reading()

    def thaw(self):
        self.frozen = False
        self.transport.resume_reading()
        self.flush()
        self.lab.notify()

    def drop(self, hard=False):
        """Closes the connection: FIN after what was written, or at once with RST."""
        if self.closed or self.transport is None:
            return
        if hard:
            sock = self.transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.transport.abort()
        else:
            self.flush()
            self.transport.close()
