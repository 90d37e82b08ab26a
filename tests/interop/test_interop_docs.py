"""The programs that the documentation shows do what it says, through a proxy at another address."""
import os
import re
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
import interop  # noqa: E402
from cluster import SOURCE, wait_until  # noqa: E402

ADDRESS = "127.0.0.1:5680"  # of the proxy, as the pages have it


class Docs(interop.InteropTest):
    def program(self, page, language, proxy, section=""):
        """The file with the one program in a language that a page, or a section of it, shows."""
        with open(os.path.join(SOURCE, page), encoding="utf-8") as f:
            text = f.read()
        if section:
            text = text.split(f"\n## {section}\n")[1].split("\n## ")[0]
        shown = re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)
        self.assertEqual(len(shown), 1, f"programs in {language} in {page}, {section}")
        self.assertIn(ADDRESS, shown[0])
        path = os.path.join(self.workspace(), f"program.{language}")
        with open(path, "w", encoding="utf-8") as f:
            f.write(shown[0].replace(ADDRESS, proxy))
        return path

    def output(self, argv, **env):
        done = subprocess.run(argv, cwd=SOURCE, env={**os.environ, **env}, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_programs(self):
        cluster = self.cluster(members=1)
        stubs = self.workspace()
        interop.run(["bash", "-c", self.stub_command()], cwd=SOURCE, env={**os.environ, "OUT": stubs})
        for page, section in (("README.md", ""), ("docs/api.md", "Clients")):
            program = self.program(page, "python", cluster.proxy, section)
            self.assertEqual(self.output([sys.executable, program], PYTHONPATH=stubs), "hello\n", page)
        program = self.program("docs/api.md", "js", cluster.proxy)
        self.assertEqual(self.output(["node", program], NODE_PATH=interop.node_packages()), "hello\n")
        program = interop.go_program(self.program("docs/api.md", "go", cluster.proxy), self.workspace())
        self.assertEqual(self.output([program]), "hello\n")
        leader = cluster.wait_leader()[0]
        for section, metric in (("Watch", "baton_meta_watches"), ("Workers", "baton_meta_heartbeats_total")):
            self.goes_on(self.program("docs/api.md", "python", cluster.proxy, section), stubs,
                         lambda m=metric: cluster.metric(leader, m) > 0)

    def goes_on(self, program, stubs, seen):
        """A program without an end works when its member sees it."""
        running = subprocess.Popen([sys.executable, program], env={**os.environ, "PYTHONPATH": stubs})
        try:
            wait_until(f"{program} is seen", seen)
            self.assertIsNone(running.poll())
        finally:
            running.kill()
            running.wait()

    def stub_command(self):
        """How docs/api.md makes stubs for Python."""
        with open(os.path.join(SOURCE, "docs", "api.md"), encoding="utf-8") as f:
            return re.search(r"^protoc -I proto --python_out.*?[^\\]$", f.read(), re.M | re.S).group(0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
