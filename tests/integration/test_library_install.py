"""What `cmake --install` gives to programs in C: they need the header, libbaton.so and pkg-config, nothing else."""
import glob
import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from cluster import BIN, SOURCE, ClusterTest, wait_until  # noqa: E402
import stubs  # noqa: E402


def run(*argv, **options):
    done = subprocess.run(argv, capture_output=True, text=True, **options)
    if done.returncode:
        raise AssertionError(f"{' '.join(argv)}: {done.stdout}{done.stderr}")
    return done.stdout


class Installed(ClusterTest):
    @classmethod
    def setUpClass(cls):
        made = tempfile.TemporaryDirectory(prefix="baton-install-")
        cls.addClassCleanup(made.cleanup)
        cls.prefix = made.name
        run("cmake", "--install", os.path.dirname(BIN), "--prefix", cls.prefix)
        cls.header = os.path.join(cls.prefix, "include", "baton", "baton.h")
        cls.library = os.path.join(cls.prefix, "lib", "libbaton.so")
        cls.environment = {**os.environ, "PKG_CONFIG_PATH": os.path.join(cls.prefix, "lib", "pkgconfig"),
                           "LD_LIBRARY_PATH": os.path.join(cls.prefix, "lib")}
        needed = run("nm", "-D", "--undefined-only", cls.library)
        cls.sanitizer = ["-fsanitize=address"] if "__asan_init" in needed else \
            ["-fsanitize=thread"] if "__tsan_init" in needed else []

    def pkg_config(self, *words):
        return run("pkg-config", *words, "baton", env=self.environment).split()

    def build(self, name):
        out = os.path.join(self.prefix, name)
        run("cc", "-std=c11", "-Wall", "-Wextra", "-Werror", *self.sanitizer,
            os.path.join(SOURCE, "examples", name + ".c"), *self.pkg_config("--cflags", "--libs"), "-o", out)
        return out

    def test_programs_and_library_are_there(self):
        for program in ("baton-meta", "baton-proxy", "batonctl"):
            said = run(os.path.join(self.prefix, "bin", program), "--version")
            self.assertIn(self.pkg_config("--modversion")[0], said)
        real = os.path.basename(os.path.realpath(self.library))
        self.assertEqual(real, "libbaton.so." + self.pkg_config("--modversion")[0])
        self.assertIn("libbaton.so.0]", run("readelf", "-d", self.library))

    def test_the_library_shows_what_the_header_declares(self):
        with open(self.header, encoding="utf-8") as f:
            declared = set(re.findall(r"^BATON_API\b[^;(]*?\b(\w+)\(", f.read(), re.M))
        shown = run("nm", "-D", "--defined-only", self.library).splitlines()
        exported = {line.split()[2].split("@")[0] for line in shown if line.split()[1] != "A"}
        self.assertEqual(exported, declared)
        self.assertGreater(len(exported), 20)

    def test_the_header_stands_alone(self):
        with open(self.header, encoding="utf-8") as f:
            text = f.read()
        self.assertEqual(set(re.findall(r"#include <(.*)>", text)), {"stdbool.h", "stddef.h", "stdint.h"})
        self.assertNotIn('#include "', text)
        for compiler in (["cc", "-xc", "-std=c99"], ["cc", "-xc", "-std=c17"], ["c++", "-xc++", "-std=c++11"],
                         ["c++", "-xc++", "-std=c++20"]):
            run(*compiler, "-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-", input="#include <baton/baton.h>\n",
                env={**os.environ, "CPATH": os.path.join(self.prefix, "include")})

    def test_every_example_compiles(self):
        names = [os.path.basename(path)[:-2] for path in glob.glob(os.path.join(SOURCE, "examples", "*.c"))]
        self.assertIn("kv", names)
        for name in names:
            self.build(name)

    def test_the_example_counts_through_a_kill(self):
        cluster = self.cluster(ttl=3, proxies=0)
        times = 500
        counting = subprocess.Popen([self.build("kv"), ",".join(cluster.members.values()), str(times)],
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=self.environment)
        self.addCleanup(counting.stdout.close)
        self.addCleanup(counting.wait)
        self.addCleanup(counting.kill)
        self.wait_count(cluster, 10)
        _, epoch = cluster.wait_leader()
        cluster.kill_leader()
        cluster.wait_leader(above_epoch=epoch)
        said, _ = counting.communicate(timeout=180)
        self.assertEqual(counting.returncode, 0, said)
        self.assertRegex(said, rf"^hello, at revision \d+\ncounted to {times}\n$")

    def wait_count(self, cluster, above):
        request = stubs.load("baton.v1.kv_pb2").GetRequest(key=b"example/count")

        def counted():
            leader, _ = cluster.wait_leader()
            answer = cluster.stub(cluster.members[leader]).Get(request, timeout=10)
            return answer.found and int(answer.kv.value) > above
        wait_until(f"the example has counted beyond {above}", counted)


if __name__ == "__main__":
    unittest.main()
