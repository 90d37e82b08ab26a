"""Programs on libbaton that know members and no proxy: each effect happens once, whoever of them dies."""
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from cluster import BIN, ClusterTest, script, wait_until  # noqa: E402

DRIVER = os.path.join(BIN, "library-driver")


class Counting:
    """`library-driver count` at work."""

    def __init__(self, directory, addresses, threads):
        self.path = os.path.join(directory, "driver.out")
        with open(self.path, "wb") as out:
            self.process = subprocess.Popen([DRIVER, "count", ",".join(addresses), str(threads)],
                                            stdin=subprocess.PIPE, stdout=out, stderr=subprocess.STDOUT)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.stdin.close()
        self.process.wait()

    def output(self):
        with open(self.path, encoding="utf-8", errors="replace") as f:
            return f.read()

    def ops(self):
        """0 until the first line; what was said last else."""
        if self.process.poll() is not None:
            raise AssertionError(f"the driver ended: {self.output()}")
        said = [line for line in self.output().splitlines() if line.startswith("ops ")]
        return int(said[-1].split()[1]) if said else 0

    def wait_progress(self):
        before = self.ops()
        wait_until(f"more than {before} operations are done", lambda: self.ops() >= before + 40)

    def finish(self):
        self.process.stdin.close()
        self.process.wait(120)
        last = self.output().splitlines()[-8:]
        if self.process.returncode:
            raise AssertionError("\n".join(last))
        print(last[-1])


class WithoutProxy(ClusterTest):
    def fleet(self):
        return self.cluster(ttl=3, proxies=0)

    def follower(self, cluster):
        leader, _ = cluster.wait_leader()
        return next(name for name in cluster.members if name != leader)

    def test_many_threads_through_kills(self):
        cluster = self.fleet()
        with Counting(cluster.directory, cluster.members.values(), 12) as driver:
            driver.wait_progress()
            for _ in range(3):
                _, epoch = cluster.wait_leader()
                fault = cluster.kill_leader()
                cluster.wait_leader(above_epoch=epoch)
                driver.wait_progress()
                cluster.restart(fault.name)
            driver.finish()

    def test_only_a_follower_is_known_and_then_gone(self):
        cluster = self.fleet()
        seed = self.follower(cluster)
        with Counting(cluster.directory, [cluster.members[seed]], 2) as driver:
            driver.wait_progress()
            script.kill_member(cluster.process(seed), hard=True)
            driver.wait_progress()
            _, epoch = cluster.wait_leader()
            cluster.kill_leader()
            cluster.wait_leader(above_epoch=epoch)
            driver.wait_progress()
            driver.finish()


class WithoutAnybody(unittest.TestCase):
    def run_driver(self, *words):
        done = subprocess.run([DRIVER, *words], capture_output=True, text=True, timeout=240)
        return done.returncode, done.stdout

    def test_deadlines_are_kept(self):
        _, said = self.run_driver("get", "127.0.0.1:1", "k", "300")
        self.assertTrue(said.startswith("-1 14 UNREACHABLE after "), said)
        self.assertLess(int(said.split()[4]), 60_000)
        self.assertIn("nobody answers", said)
        self.assertEqual(self.run_driver("get", "http://x:1", "k", "300")[0], 2)


if __name__ == "__main__":
    unittest.main()
