"""The faulty way to etcd does what it says: tests that build on it must be able to trust it."""
import base64
import http.client
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest

LIB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib")
sys.path.insert(0, LIB)
from cluster import script, wait_until
from etcd_fault import EtcdFault, keys_of

TXN, RANGE, WATCH = "/v3/kv/txn", "/v3/kv/range", "/v3/watch"


def b64(text):
    return base64.b64encode(text.encode()).decode()


class Caller:
    """A client with one kept connection."""

    def __init__(self, url, timeout=60):
        host, port = url.split("//")[1].split(":")
        self.connection = http.client.HTTPConnection(host, int(port), timeout=timeout)

    def close(self):
        self.connection.close()

    def post(self, path, *objects):
        self.connection.request("POST", path, "".join(json.dumps(each) for each in objects))
        return self.connection.getresponse()

    def ask(self, path, value):
        return json.loads(self.post(path, value).read())

    def put(self, key, value):
        return self.ask(TXN, {"success": [{"request_put": {"key": b64(key), "value": b64(value)}}]})

    def get(self, key):
        kvs = self.ask(RANGE, {"key": b64(key)}).get("kvs")
        return base64.b64decode(kvs[0].get("value", "")).decode() if kvs else None


def spawn_etcd():
    directory = tempfile.mkdtemp(prefix="baton-etcd-")
    client, peer = (f"http://127.0.0.1:{port}" for port in script.take_ports(2, directory))
    process = subprocess.Popen(
        ["etcd", "--data-dir", directory, "--listen-client-urls", client, "--advertise-client-urls", client,
         "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
         "--initial-cluster", f"default={peer}", "--logger", "zap", "--log-level", "error"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return process, directory, client


def answers(process, url):
    caller = Caller(url, 10)
    try:
        caller.get("ready")
        return True
    except (OSError, http.client.HTTPException):
        if process.poll() is not None:
            raise
        return False
    finally:
        caller.close()


class FaultTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        process, directory, cls.etcd = spawn_etcd()
        cls.addClassCleanup(shutil.rmtree, directory, ignore_errors=True)
        cls.addClassCleanup(process.wait)
        cls.addClassCleanup(process.kill)
        wait_until("etcd answers", lambda: answers(process, cls.etcd))
        cls.direct = Caller(cls.etcd)
        cls.addClassCleanup(cls.direct.close)

    def setUp(self):
        self.fault = EtcdFault(self.etcd)
        self.addCleanup(self.fault.stop)
        self.key = self.id()

    def caller(self, timeout=60, url=None):
        caller = Caller(url or self.fault.url, timeout)
        self.addCleanup(caller.close)
        return caller

    def watch(self, *requests):
        answer = self.caller().post(WATCH, *requests)
        self.addCleanup(answer.close)
        return answer

    def assert_cut(self, caller, value):
        with self.assertRaises((ConnectionError, http.client.HTTPException)):
            caller.put(self.key, value)

    def test_passes_and_counts(self):
        caller = self.caller()
        for value in "abc":
            caller.put(self.key, value)
        self.assertEqual(caller.get(self.key), "c")
        self.assertEqual(self.fault.counts[TXN, None], 3)
        self.assertEqual(self.fault.counts[RANGE, None], 1)
        large = "x" * 300000
        caller.put(self.key, large)
        self.assertEqual(caller.get(self.key), large)

    def test_drop_reply_applies(self):
        rule = self.fault.add("drop-reply", path=TXN, count=2)
        self.assert_cut(self.caller(), "a")
        self.assertEqual(self.direct.get(self.key), "a")
        self.assert_cut(self.caller(), "b")
        self.assertEqual((rule.hits, rule.done), (2, 2))
        self.caller().put(self.key, "c")
        self.assertEqual(self.direct.get(self.key), "c")
        self.assertEqual(self.fault.counts[TXN, "drop-reply"], 2)

    def test_a_rule_picks_by_path_key_and_turn(self):
        caller = self.caller()
        rule = self.fault.add("drop-reply", path=TXN, key=self.key + "/picked", skip=1)
        caller.put(self.key + "/other", "a")
        caller.get(self.key + "/picked")
        caller.put(self.key + "/picked", "first")
        self.assertEqual(rule.hits, 0)
        with self.assertRaises((ConnectionError, http.client.HTTPException)):
            caller.put(self.key + "/picked", "second")
        self.assertEqual(rule.hits, 1)
        self.assertEqual(keys_of(b'{"compare":[{"key":"YQ=="}],"success":[{"request_range":{"key":"Yg=="}}]}'
                                 b'{"create_request":{"key":"Yw=="}}'), [b"a", b"b", b"c"])

    def test_delay_request_overtaken_by_the_next(self):
        rule = self.fault.add("delay-request", path=TXN)
        with self.assertRaises(TimeoutError):
            self.caller(timeout=0.1).put(self.key, "first")
        rule.wait_hits()
        self.assertIsNone(self.direct.get(self.key))
        self.caller().put(self.key, "second")
        self.assertEqual(self.direct.get(self.key), "second")
        rule.release()
        rule.wait_done()
        self.assertEqual(self.direct.get(self.key), "first")

    def test_delay_for_a_time(self):
        self.fault.add("delay-request", path=TXN, seconds=0.2)
        self.fault.add("delay-reply", path=RANGE, seconds=0.2)
        caller = self.caller()
        for act in (lambda: caller.put(self.key, "a"), lambda: caller.get(self.key)):
            start = time.monotonic()
            act()
            self.assertGreaterEqual(time.monotonic() - start, 0.2)

    def test_delay_reply_applies_at_once(self):
        rule = self.fault.add("delay-reply", path=TXN)
        answers = []
        thread = threading.Thread(target=lambda: answers.append(self.caller().put(self.key, "a")))
        thread.start()
        rule.wait_hits()
        wait_until("the put is applied", lambda: self.direct.get(self.key) == "a")
        self.assertEqual(answers, [])
        rule.release()
        thread.join(60)
        self.assertEqual(len(answers), 1)

    def test_refuse_and_blackhole_do_nothing(self):
        self.fault.add("refuse", path=TXN)
        self.assert_cut(self.caller(), "a")
        hole = self.fault.add("blackhole", path=TXN)
        with self.assertRaises(TimeoutError):
            self.caller(timeout=0.1).put(self.key, "a")
        hole.release()
        hole.wait_done()
        self.assertIsNone(self.direct.get(self.key))

    def test_watches_pass_unbuffered(self):
        watch = self.watch({"create_request": {"key": b64(self.key), "watch_id": 1}},
                           {"create_request": {"key": b64(self.key + "2"), "watch_id": 2}})
        for watch_id in ("1", "2"):
            line = json.loads(watch.readline())["result"]
            self.assertTrue(line["created"])
            self.assertEqual(line["watch_id"], watch_id)
        for value in "abc":  # each event is there before the next write
            self.direct.put(self.key, value)
            event = json.loads(watch.readline())["result"]["events"][0]
            self.assertEqual(event["kv"]["value"], b64(value))

    def test_a_closed_watch_is_closed_at_etcd(self):
        def watchers():
            connection = self.caller(url=self.etcd).connection
            connection.request("GET", "/metrics")
            for line in connection.getresponse().read().decode().splitlines():
                if line.startswith("etcd_debugging_mvcc_watcher_total"):
                    return int(line.split()[1])
            return 0

        before = watchers()
        caller = self.caller()
        watch = caller.post(WATCH, {"create_request": {"key": b64(self.key)}})
        watch.readline()
        self.assertEqual(watchers(), before + 1)
        watch.close()
        caller.close()
        wait_until("etcd lost the watcher", lambda: watchers() == before)

    def test_freeze_stops_streams_too(self):
        caller = self.caller()
        watch = caller.post(WATCH, {"create_request": {"key": b64(self.key)}})
        self.addCleanup(watch.close)
        watch.readline()
        caller.connection.sock.settimeout(0.3)
        self.fault.freeze()
        self.direct.put(self.key, "a")
        with self.assertRaises(TimeoutError):
            watch.readline()
        with self.assertRaises(TimeoutError):
            self.caller(timeout=0.1).get(self.key)
        self.fault.thaw()
        self.assertEqual(self.caller().get(self.key), "a")

    def test_listen_off_refuses_and_cuts(self):
        caller = self.caller()
        caller.get(self.key)
        watch = self.watch({"create_request": {"key": b64(self.key)}})
        watch.readline()
        self.fault.listen_off()
        with self.assertRaises(ConnectionRefusedError):
            self.caller().get(self.key)
        with self.assertRaises((ConnectionError, http.client.HTTPException)):
            caller.get(self.key)
        with self.assertRaises((ConnectionError, http.client.HTTPException)):
            if not watch.readline():
                raise ConnectionError("the stream ended")
        self.fault.listen_on()
        self.assertIsNone(self.caller().get(self.key))

    def test_as_a_program(self):
        program = subprocess.Popen([sys.executable, os.path.join(LIB, "etcd_fault.py"), "--target", self.etcd],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(program.wait)
        self.addCleanup(program.stdout.close)
        self.addCleanup(program.stdin.close)

        def do(**words):
            program.stdin.write(json.dumps(words) + "\n")
            program.stdin.flush()
            return json.loads(program.stdout.readline())

        url = json.loads(program.stdout.readline())["url"]
        self.assertEqual(do(do="add", mode="drop-reply", path=TXN), {"rule": 0})
        self.assert_cut(self.caller(url=url), "a")
        self.assertEqual(do(do="rule", rule=0), {"hits": 1, "done": 1})
        self.assertEqual(do(do="counts"), {"counts": [[TXN, "drop-reply", 1]]})
        self.assertIn("error", do(do="add", mode="nonsense"))
        self.assertEqual(do(do="clear"), {"done": "clear"})
        self.assertEqual(self.caller(url=url).get(self.key), "a")


if __name__ == "__main__":
    unittest.main()
