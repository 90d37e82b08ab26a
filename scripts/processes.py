"""Processes of a local cluster: started in the background, known by pid and start time, never by name."""
import fcntl
import json
import os
import random
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request


class Failed(Exception):
    """A message for the user."""


def wait_until(what, seconds, condition):
    """The first true answer of condition(); Failed when there was none in time."""
    deadline = time.monotonic() + seconds
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise Failed(f"{what}: not within {seconds} s")
        time.sleep(0.02)


def stat_of(pid):
    """(state letter, parent, start time in ticks since boot), or None when there is no such process. Of a thread:
    "PID/task/THREAD"."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
            fields = f.read().rpartition(")")[2].split()
    except OSError:
        return None
    return fields[0], int(fields[1]), int(fields[19])


def children_of(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
            return [int(word) for word in f.read().split()]
    except OSError:
        return []


def is_stopped(pid):
    """Are all its threads stopped (or gone)?"""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return True
    return all((stat_of(f"{pid}/task/{thread}") or "X")[0] in "TZX" for thread in threads)


class Process:
    """One background process of a cluster directory. NAME.pid and NAME.start say which, NAME.log what it said."""

    def __init__(self, directory, name):
        self.name = name
        self.log_path = os.path.join(directory, name + ".log")
        self.pid_path = os.path.join(directory, name + ".pid")
        self.start_path = os.path.join(directory, name + ".start")

    def start(self, argv):
        with open(self.log_path, "ab") as log:
            child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                     start_new_session=True)
        started = stat_of(child.pid)
        child.returncode = 0  # it outlives this program: no warning about it
        self._write(self.pid_path, child.pid)
        self._write(self.start_path, started[2] if started else 0)

    @staticmethod
    def _write(path, number):
        with open(path, "w", encoding="ascii") as f:
            f.write(f"{number}\n")

    def pid(self):
        """The pid while it is still that process and alive, else None."""
        try:
            with open(self.pid_path, encoding="ascii") as f:
                pid = int(f.read())
            with open(self.start_path, encoding="ascii") as f:
                start = int(f.read())
        except (OSError, ValueError):
            return None
        now = stat_of(pid)
        return pid if now and now[2] == start and now[0] not in "ZX" else None

    def child(self):
        """The member process below a guardian, None when there is none."""
        pid = self.pid()
        alive = [c for c in children_of(pid) if (stat_of(c) or "Z")[0] not in "ZX"] if pid else []
        return alive[0] if alive else None

    def state(self):
        pid = self.pid()
        if not pid:
            return "stopped"
        states = [(stat_of(p) or "Z")[0] for p in [pid, *children_of(pid)]]
        return "paused" if "T" in states else "running"

    def signal(self, number, family=False):
        """To the process itself, or to it and then its children."""
        pid = self.pid()
        if not pid:
            return
        for target in [pid, *(children_of(pid) if family else [])]:
            try:
                os.kill(target, number)
            except ProcessLookupError:
                pass

    def pause(self):
        """SIGSTOP; returns when every thread has stopped, which takes a moment on a busy machine."""
        self.signal(signal.SIGSTOP, family=True)
        pid = self.pid()
        family = [pid, *children_of(pid)] if pid else []
        wait_until(f"{self.name} stops", 60, lambda: all(is_stopped(p) for p in family))

    def wait_gone(self, seconds):
        wait_until(f"{self.name} ends", seconds, lambda: not self.pid())

    def stop(self, seconds=60):
        """SIGTERM, and SIGKILL when that did not end it. True when it ended by itself."""
        self.signal(signal.SIGCONT, family=True)
        self.signal(signal.SIGTERM)
        try:
            self.wait_gone(seconds)
            return True
        except Failed:
            self.signal(signal.SIGKILL, family=True)
            self.wait_gone(60)
            return False

    def log_tail(self, lines=15):
        try:
            with open(self.log_path, encoding="utf-8", errors="replace") as f:
                return "".join("    " + line for line in f.readlines()[-lines:])
        except OSError:
            return ""


def http_get(address, path, seconds=10):
    """(status, text), or None when nobody answers."""
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=seconds) as answer:
            return answer.status, answer.read().decode(errors="replace")
    except urllib.error.HTTPError as refusal:
        return refusal.code, refusal.read().decode(errors="replace")
    except (OSError, ValueError):
        return None


def _is_free(port):
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def take_ports(count, holder):
    """Free ports below the range that outgoing connections use, so that they stay free while a process is
    down. A file remembers who holds which, so that clusters starting at the same time do not collide; a
    holder is forgotten once its directory is gone."""
    path = os.path.join(tempfile.gettempdir(), f"baton-ports-{os.getuid()}")
    with open(path, "a+", encoding="utf-8") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        f.seek(0)
        try:
            held = {int(k): v for k, v in json.loads(f.read() or "{}").items()}
        except ValueError:
            held = {}
        held = {port: who for port, who in held.items() if os.path.isdir(who)}
        ports = []
        for port in random.sample(range(10000, 32000), 5000):
            if len(ports) < count and port not in held and _is_free(port):
                ports.append(port)
                held[port] = holder
        f.truncate(0)
        f.write(json.dumps(held))
    if len(ports) < count:
        raise Failed("no free ports left on 127.0.0.1")
    return ports
