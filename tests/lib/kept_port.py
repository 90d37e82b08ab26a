"""A port that stays one's own while nobody listens on it."""
import socket


class KeptPort:
    """A port of 127.0.0.1, until close(): connections to it are refused between one listener and the next."""

    def __init__(self, port=0):
        self._keeper = self._bound(port)
        self.number = self._keeper.getsockname()[1]
        self.address = f"127.0.0.1:{self.number}"

    @staticmethod
    def _bound(port):
        made = socket.socket()
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)  # the keeper and a listener, of one user
        made.bind(("127.0.0.1", port))
        return made

    def listener(self):
        made = self._bound(self.number)
        made.listen(1000)
        return made

    def close(self):
        self._keeper.close()
