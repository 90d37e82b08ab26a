"""batonctl top: on a terminal and elsewhere, while leaders come and go."""
import json
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from cluster import BIN, ClusterTest, wait_until  # noqa: E402
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
        _, epoch = cluster.wait_leader()
        screen = self.screen(cluster)
        plain = screen.modes()

        def shows(above):
            """Whoever leads now, in an epoch above that one: the machine may be slow enough for more than one."""
            def look(lines):
                name, its_epoch = cluster.leader() or ("", 0)
                led = lines and its_epoch > above and \
                    lines[0] == f"leader {name} at {cluster.members[name]}   epoch {its_epoch}"
                return led and any(line.startswith(f"{name} ") and " leader " in line for line in lines)
            return look

        screen.wait("the leader", shows(epoch - 1))
        screen.wait("rates", lambda lines: any(line.startswith("commits ") and "/s" in line for line in lines))
        self.assertIn(BOLD, screen.written)
        self.assertNotEqual(screen.modes(), plain)
        cluster.kill_leader()
        screen.wait("the next leader", shows(epoch))
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
        self.assertEqual(screen.end(), 0)
        self.assertTrue(screen.written.endswith(RESTORED))
        done = subprocess.run([BATONCTL, "--addr", cluster.proxy, "top", "--interval", "100ms"], capture_output=True,
                              timeout=60)
        self.assertEqual(done.returncode, 4)
        self.assertTrue(done.stdout.startswith(b"no leader for "), done.stdout)
        cluster.run_script("restart", "m1")

        def led_views():
            done = subprocess.run([BATONCTL, "--addr", cluster.proxy, "-o", "json", "top", "--interval", "100ms",
                                   "--count", "2"], capture_output=True, timeout=60)
            views = [json.loads(line) for line in done.stdout.splitlines()]
            self.assertEqual(len(views), 2, done.stderr)
            self.assertEqual(done.returncode, 0 if views[1]["leader"] else 4)
            return views if all(v["leader"] and v["info"] and v["members"] and v["per_second"] for v in views) else None

        for view in wait_until("two views with a leader", led_views):
            self.assertEqual((view["leader"]["id"], view["info"]["leader"], view["info"]["members"]), ("m1", "m1", 1))
            self.assertEqual([m["id"] for m in view["members"]], ["m1"])
            self.assertGreaterEqual(view["per_second"]["reads"], 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
