"""batonctl top: on a terminal and elsewhere, while leaders come and go."""
import json
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from cluster import BIN, ClusterTest  # noqa: E402
from pty_screen import Screen  # noqa: E402

BATONCTL = os.path.join(BIN, "batonctl")
RESTORED = "\x1b[?25h\x1b[?1049l"
BOLD = "\x1b[1m"


class Top(ClusterTest):
    def screen(self, cluster, env=None, **size):
        argv = [BATONCTL, "--addr", cluster.proxy, "top", "--interval", "200ms"]
        made = Screen(argv, env, **size)
        self.addCleanup(made.close)
        return made

    def test_on_a_terminal_over_a_kill(self):
        cluster = self.cluster()
        name, epoch = cluster.wait_leader()
        screen = self.screen(cluster)
        plain = screen.modes()

        def shows(leader, its_epoch):
            def look(lines):
                led = lines and lines[0] == f"leader {leader} at {cluster.members[leader]}   epoch {its_epoch}"
                return led and any(line.startswith(f"{leader} ") and " leader " in line for line in lines)
            return look

        screen.wait("the leader", shows(name, epoch))
        screen.wait("rates", lambda lines: any(line.startswith("commits ") and "/s" in line for line in lines))
        self.assertIn(BOLD, screen.written)
        self.assertNotEqual(screen.modes(), plain)
        cluster.kill_leader()
        screen.wait("the next leader", shows(*cluster.wait_leader(epoch)))
        screen.resize(3, 20)
        screen.wait("a small frame", lambda lines: len(lines) == 3 and max(map(len, lines)) == 20)
        screen.resize(40, 160)
        screen.wait("a large frame", lambda lines: max(map(len, lines)) > 20)
        screen.type("q")
        self.assertEqual(screen.end(), 0)
        self.assertTrue(screen.written.endswith(RESTORED), repr(screen.written[-40:]))
        self.assertEqual(screen.modes(), plain)

    def test_without_a_leader_and_colors(self):
        cluster = self.cluster(members=1)
        screen = self.screen(cluster, env={"NO_COLOR": "1"})
        screen.wait("the leader", lambda lines: lines and lines[0].startswith("leader m1 "))
        cluster.run_script("stop", "m1")
        screen.wait("its absence", lambda lines: lines and lines[0].startswith("no leader for "))
        self.assertNotIn(BOLD, screen.written)
        screen.type("\x03")
        self.assertEqual(screen.end(), 4)
        self.assertTrue(screen.written.endswith(RESTORED))
        done = subprocess.run([BATONCTL, "--addr", cluster.proxy, "top", "--interval", "100ms"], capture_output=True,
                              timeout=60)
        self.assertEqual(done.returncode, 4)
        self.assertTrue(done.stdout.startswith(b"no leader for "), done.stdout)
        cluster.run_script("restart", "m1")
        name, epoch = cluster.wait_leader()
        done = subprocess.run([BATONCTL, "--addr", cluster.proxy, "-o", "json", "top", "--interval", "100ms",
                               "--count", "2"], capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        seen = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([(s["leader"]["id"], s["leader"]["epoch"]) for s in seen], [(name, epoch)] * 2)
        self.assertEqual([m["id"] for m in seen[1]["members"]], [name])
        self.assertEqual((seen[1]["info"]["leader"], seen[1]["info"]["members"]), (name, 1))
        self.assertGreaterEqual(seen[1]["per_second"]["reads"], 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
