"""A program on a terminal of its own, and what it draws there."""
import fcntl
import os
import re
import select
import struct
import subprocess
import termios
import time

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Screen:
    """A program that draws whole frames, each from the upper left corner on."""

    def __init__(self, argv, env=None, rows=40, columns=160):
        self.fd, its_end = os.openpty()
        self.written = ""  # everything, as it came
        self.resize(rows, columns)
        # Its session, so that the terminal is its own. No fork of Python's: other threads may be in gRPC.
        self.process = subprocess.Popen(["setsid", "--ctty", *argv], stdin=its_end, stdout=its_end, stderr=its_end,
                                        env={**os.environ, "TERM": "xterm", **(env or {})})
        os.close(its_end)

    def resize(self, rows, columns):
        """The kernel tells the program."""
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def modes(self):
        """How the terminal treats what is typed."""
        return termios.tcgetattr(self.fd)[3] & (termios.ICANON | termios.ECHO | termios.ISIG)

    def type(self, keys):
        os.write(self.fd, keys.encode())

    def read(self, seconds):
        """Takes what was written meanwhile; False: the program has closed its terminal."""
        if not select.select([self.fd], [], [], seconds)[0]:
            return True
        try:
            data = os.read(self.fd, 65536)
        except OSError:  # how Linux says that the other end is closed
            return False
        self.written += data.decode(errors="replace")
        return bool(data)

    def frame(self):
        """The lines of the last frame that is whole, without colors."""
        whole = self.written.rsplit("\x1b[J", 1)[0].rsplit("\x1b[H", 1)
        return ESCAPE.sub("", whole[1]).split("\r\n") if len(whole) == 2 else []

    def wait(self, what, condition, seconds=60):
        """The first true answer of condition(lines of a frame)."""
        until = time.monotonic() + seconds
        while True:
            answer = condition(self.frame())
            if answer:
                return answer
            if time.monotonic() > until or not self.read(0.2):
                raise AssertionError(f"{what}: not seen; the last frame was\n" + "\n".join(self.frame()))

    def end(self, seconds=60):
        """Its exit code; it has been told to end."""
        until = time.monotonic() + seconds
        while self.read(0.2) and time.monotonic() < until:
            pass
        return self.process.wait(timeout=seconds)

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.fd)
