"""A proxy in front of one etcd that does to chosen requests what networks do.

In a test:

    with EtcdFault("http://127.0.0.1:2379") as fault:
        member = start_member("--etcd", fault.url)
        rule = fault.add("drop-reply", path="/v3/kv/txn", key="/state/commit")
        rule.wait_hits(1)

or as a program: lines of JSON on stdin, one JSON answer each on stdout (see `command`).

Modes of a rule, for the next `count` requests that match it, after `skip` matching ones:
  pass           forward as usual, but count
  drop-reply     forward, read the whole answer, close: applied, and the caller never learns
  delay-request  forward after `seconds`, even when the caller is gone by then: one attempt past the next
  delay-reply    forward at once, hand the answer on after `seconds`
  refuse         reset the connection, forward nothing
  blackhole      forward nothing, answer nothing, until released
EtcdFault(url, raw=True) instead passes bytes on as they are, HTTP/2 too, for servers of any kind, and has no rules but
lose_answers() and freeze_after().
With seconds=None a delay lasts until rule.release(). Beside the rules, listen_off() refuses all new
connections and cuts the others, and freeze() stops every byte of every connection, streams too.
"""
import argparse
import base64
import collections
import json
import select
import socket
import struct
import sys
import threading

from kept_port import KeptPort

MODES = ("pass", "drop-reply", "delay-request", "delay-reply", "refuse", "blackhole")
MAX_HEAD = 64 << 10
SHORT = 60  # bytes of HTTP/2 that are no request and no answer
MAX_BODY = 64 << 20


class Gone(Exception):
    """The other end of a connection is gone, or the proxy stops."""


class Rule:
    """What happens to some requests. hits counts those it took hold of, done those it is through with."""

    def __init__(self, mode, path="", key=None, count=1, skip=0, seconds=None):
        if mode not in MODES:
            raise ValueError(f"mode {mode!r}: one of {', '.join(MODES)}")
        self.mode, self.path, self.count, self.skip, self.seconds = mode, path, count, skip, seconds
        self.key = key.encode() if isinstance(key, str) else key
        self.hits = self.done = 0
        self._changed = threading.Condition()
        self._released = threading.Event()

    def matches(self, path, keys):
        return path.startswith(self.path) and (
            self.key is None or any(self.key in key for key in keys))

    def take(self):
        """True when the rule takes hold of one more request that matches."""
        with self._changed:
            if self.skip > 0:
                self.skip -= 1
                return False
            if self.count == 0:
                return False
            self.count -= 1
            self.hits += 1
            self._changed.notify_all()
            return True

    def finish(self):
        with self._changed:
            self.done += 1
            self._changed.notify_all()

    def pause(self):
        self._released.wait(self.seconds)

    def release(self):
        self._released.set()

    def end(self):
        """Takes hold of nothing any more, and lets go."""
        with self._changed:
            self.count = 0
        self.release()

    def wait_hits(self, n=1, timeout=60):
        self._wait(lambda: self.hits >= n, f"{n} hits", timeout)

    def wait_done(self, n=1, timeout=60):
        self._wait(lambda: self.done >= n, f"{n} done", timeout)

    def _wait(self, condition, what, timeout):
        with self._changed:
            if not self._changed.wait_for(condition, timeout):
                raise TimeoutError(f"{self.mode} {self.path or '*'}: not {what} within {timeout} s "
                                   f"({self.hits} hits, {self.done} done)")


def keys_of(body):
    """All keys in a request, decoded: of ops, compares, watches; watches are several objects."""
    found, at, text = [], 0, body.decode("utf-8", "replace")

    def walk(value):
        if isinstance(value, dict):
            if isinstance(value.get("key"), str):
                found.append(base64.b64decode(value["key"]))
            for inner in value.values():
                walk(inner)
        elif isinstance(value, list):
            for inner in value:
                walk(inner)

    try:
        while at < len(text):
            value, at = json.JSONDecoder().raw_decode(text, at)
            walk(value)
    except ValueError:
        pass
    return found


class Peer:
    """One end of a connection, read exactly. While it waits it notices that `other` is gone, if given."""

    def __init__(self, sock, flowing):
        self.sock, self.flowing, self.pending = sock, flowing, b""
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def fill(self, other=None):
        while other is not None:
            ready, _, _ = select.select([self.sock, other.sock], [], [])
            if other.sock in ready and not other.sock.recv(1, socket.MSG_PEEK):
                raise Gone
            if self.sock in ready or other.sock in ready:
                break
        data = self.sock.recv(1 << 16)
        if not data:
            raise Gone
        self.pending += data

    def until(self, mark, limit, other=None):
        while mark not in self.pending:
            if len(self.pending) > limit:
                raise Gone
            self.fill(other)
        end = self.pending.index(mark) + len(mark)
        out, self.pending = self.pending[:end], self.pending[end:]
        return out

    def exactly(self, n, other=None):
        if n > MAX_BODY:
            raise Gone
        while len(self.pending) < n:
            self.fill(other)
        out, self.pending = self.pending[:n], self.pending[n:]
        return out

    def send(self, data):
        self.flowing.wait()
        self.sock.sendall(data)


def header_of(head, name):
    for line in head.split(b"\r\n")[1:]:
        key, _, value = line.partition(b":")
        if key.strip().lower() == name:
            return value.strip().lower()
    return None


def answer_parts(upstream, other=None):
    """The answer as it comes: its head, then each piece, nothing held back."""
    head = upstream.until(b"\r\n\r\n", MAX_HEAD, other)
    yield head
    if header_of(head, b"transfer-encoding") != b"chunked":
        yield upstream.exactly(int(header_of(head, b"content-length") or 0), other)
        return
    size = None
    while size != 0:
        line = upstream.until(b"\r\n", MAX_HEAD, other)
        size = int(line.split(b";")[0], 16)
        yield line + upstream.exactly(size + 2, other)


class EtcdFault:
    def __init__(self, target, port=0, raw=False):
        host, _, target_port = target.split("//")[-1].rstrip("/").rpartition(":")
        self._target = (host, int(target_port))
        self._lock = threading.Lock()
        self._rules, self._socks = [], set()
        self._raw, self._to_lose = raw, threading.Semaphore(0)
        self.lost, self._until_freeze = 0, None
        self._flowing = threading.Event()
        self._flowing.set()
        self._port, self._listener = KeptPort(port), None
        self.counts = collections.Counter()  # (path, mode) -> requests; mode None: no rule
        self.listen_on()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    @property
    def address(self):
        return self._port.address

    @property
    def url(self):
        return "http://" + self.address

    def add(self, mode, **options):
        rule = Rule(mode, **options)
        with self._lock:
            self._rules.append(rule)
        return rule

    def clear(self):
        """Forgets all rules; what they hold goes on."""
        with self._lock:
            rules, self._rules = self._rules, []
        for rule in rules:
            rule.end()

    def lose_answers(self, count=1):
        """Of a raw one: the next answers are read and thrown away, and their connections closed. What is not asked
        for, as the events of a watch, is no answer: it comes while nothing that was sent waits for one."""
        self._to_lose.release(count)

    def freeze_after(self, count):
        """Of a raw one: freezes once so many more bytes, or a few more, have gone to the server; not after a thaw()."""
        with self._lock:
            self._until_freeze = count

    def _count_sent(self, count):
        with self._lock:
            if self._until_freeze is None:
                return
            self._until_freeze -= count
            if self._until_freeze <= 0:
                self._until_freeze = None
                self.freeze()

    def freeze(self):
        self._flowing.clear()

    def thaw(self):
        with self._lock:
            self._until_freeze = None
            self._flowing.set()

    def listen_on(self):
        self._listener = self._port.listener()
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def listen_off(self):
        with self._lock:
            listener, self._listener = self._listener, None
            socks = list(self._socks)
        if listener:
            socks.append(listener)
        for sock in socks:  # a shutdown wakes those who wait for the socket, a close alone would not
            self._shut(sock)
        if listener:
            listener.close()

    def stop(self):
        self.clear()
        self.thaw()
        self.listen_off()
        self._port.close()

    def _own(self, sock):
        """False when the door was closed meanwhile."""
        with self._lock:
            self._socks.add(sock)
            return self._listener is not None

    @staticmethod
    def _shut(sock):
        try:
            sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def _accept(self, listener):
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock):
        socks = [sock]
        try:
            socks.append(socket.create_connection(self._target, timeout=60))
            socks[1].settimeout(None)
            client, upstream = (Peer(each, self._flowing) for each in socks)
            alive = all([self._own(each) for each in socks])
            if self._raw:
                self._relay(client, upstream, alive)
                return
            while alive:
                alive = self._one_request(client, upstream)
        except (Gone, OSError, ValueError):
            pass
        finally:
            with self._lock:
                self._socks.difference_update(socks)
            for each in socks:
                each.close()

    def _relay(self, client, upstream, alive):
        """Bytes both ways. A commit is long; acknowledgements and opened windows of HTTP/2 are short."""
        asked = False
        while alive:
            ready, _, _ = select.select([client.sock, upstream.sock], [], [])
            for source, sink in ((client, upstream), (upstream, client)):
                if source.sock not in ready:
                    continue
                source.fill()
                asked = asked or (source is client and len(source.pending) > SHORT)
                if source is upstream and asked and len(source.pending) > SHORT:
                    asked = False
                    if self._to_lose.acquire(blocking=False):
                        with self._lock:
                            self.lost += 1
                        return
                sink.send(source.pending)
                if source is client:
                    self._count_sent(len(source.pending))
                source.pending = b""

    def _rule_for(self, path, body):
        with self._lock:
            rules = list(self._rules)
        keys = keys_of(body) if any(rule.key is not None for rule in rules) else []
        rule = next((r for r in rules if r.matches(path, keys) and r.take()), None)
        with self._lock:
            self.counts[path, rule.mode if rule else None] += 1
        return rule

    def _one_request(self, client, upstream):
        """False when the connection is to be closed."""
        head = client.until(b"\r\n\r\n", MAX_HEAD)
        if head.startswith(b"PRI "):  # HTTP/2, which this proxy does not speak: clients go on in JSON
            client.send(b"HTTP/1.1 505 HTTP Version Not Supported\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            return False
        body = client.exactly(int(header_of(head, b"content-length") or 0))
        rule = self._rule_for(head.split(b" ", 2)[1].decode(), body)
        if rule is None:
            return self._forward(head + body, client, upstream)
        try:
            return self._misbehave(rule, head + body, client, upstream)
        finally:
            rule.finish()

    @staticmethod
    def _forward(request, client, upstream):
        upstream.send(request)
        for part in answer_parts(upstream, client):
            client.send(part)
        return True

    def _misbehave(self, rule, request, client, upstream):
        mode = rule.mode
        if mode == "pass":
            return self._forward(request, client, upstream)
        if mode in ("blackhole", "delay-request"):
            rule.pause()
        if mode in ("refuse", "blackhole"):
            client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return False
        upstream.send(request)
        whole = b"".join(answer_parts(upstream))
        if mode == "delay-reply":
            rule.pause()
        if mode != "drop-reply":
            client.send(whole)
        return mode != "drop-reply"


def command(fault, rules, words):
    """One line of stdin: {"do": "add", "mode": ..., ...} answers {"rule": n}; {"do": "rule", "rule": n}
    its hits and done; "release" and a rule; "counts"; "clear", "freeze", "thaw", "listen_on", "listen_off"."""
    do = words.pop("do")
    if do == "add":
        rules.append(fault.add(words.pop("mode"), **words))
        return {"rule": len(rules) - 1}
    if do == "rule":
        return {"hits": rules[words["rule"]].hits, "done": rules[words["rule"]].done}
    if do == "release":
        return {"released": rules[words["rule"]].release() is None}
    if do == "counts":
        return {"counts": [[path, mode, n] for (path, mode), n in sorted(fault.counts.items(), key=str)]}
    if do in ("clear", "freeze", "thaw", "listen_on", "listen_off"):
        getattr(fault, do)()
        return {"done": do}
    raise ValueError(f"no such command: {do}")


def main():
    options = argparse.ArgumentParser(description="A faulty way to an etcd; JSON commands on stdin.")
    options.add_argument("--target", required=True, help="client URL of the etcd")
    options.add_argument("--port", type=int, default=0, help="of 127.0.0.1; 0: any")
    args = options.parse_args()
    rules = []
    with EtcdFault(args.target, args.port) as fault:
        print(json.dumps({"url": fault.url}), flush=True)
        for line in sys.stdin:
            try:
                answer = command(fault, rules, json.loads(line))
            except (ValueError, KeyError, IndexError, TypeError, OSError) as error:
                answer = {"error": str(error)}
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
