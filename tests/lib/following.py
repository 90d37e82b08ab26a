"""`library-follow` at work, and what it said."""
import os
import subprocess
import threading

from cluster import BIN, wait_until

FOLLOW = os.path.join(BIN, "library-follow")


class Following:
    """A program on libbaton; its lines are kept as lists of words."""

    def __init__(self, mode, addresses, *words):
        self.process = subprocess.Popen([FOLLOW, mode, ",".join(addresses), *map(str, words)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self._said = []
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._thread.join()
        self.process.stdin.close()
        self.process.stdout.close()

    def _read(self):
        for line in self.process.stdout:
            self._said.append(line.split())

    def said(self, *words):
        """All lines that begin with these words."""
        return [line for line in list(self._said) if line[:len(words)] == [str(word) for word in words]]

    def wait(self, what, condition):
        def look():
            if self.process.poll() is not None:
                raise AssertionError(f"the program ended: {self.tail()}")
            return condition(self)
        try:
            return wait_until(what, look)
        except AssertionError as error:
            raise AssertionError(f"{error}; it said {self.tail()}") from error

    def wait_said(self, *words, times=1):
        return self.wait(f"{times} times {' '.join(map(str, words))}", lambda f: len(f.said(*words)) >= times)

    def tail(self):
        return [" ".join(line) for line in self._said[-12:]]

    def finish(self):
        self.process.stdin.close()
        self.process.wait(60)
        self._thread.join()
        if self.process.returncode:
            raise AssertionError(f"exit {self.process.returncode}: {self.tail()}")
