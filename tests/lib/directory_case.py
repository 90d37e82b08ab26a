"""Members beside those of a LocalCluster, whose exit status is seen: with directories and ids that may not be theirs."""
import os
import shutil
import subprocess

from cluster import BIN
from failover import FailoverTest
from processes import take_ports

TTL = 10  # nobody waits for its end


class DirectoryTest(FailoverTest):
    def member(self, cluster, member_id, directory, *args, etcd=True):
        """One more baton-meta, as a child of this process: (process, what it prints so far)."""
        addr, http = (f"127.0.0.1:{port}" for port in take_ports(2, cluster.directory))
        argv = [os.path.join(BIN, "baton-meta"), "--id", member_id, "--data", directory, "--listen", addr,
                "--http", http, "--cluster", "local", *args]
        if etcd:
            argv += ["--etcd", f"http://{cluster.etcd[0]}", "--ttl", f"{TTL}s"]
        path = os.path.join(cluster.directory, f"more-{addr[-5:]}.log")
        with open(path, "wb") as log:
            process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.addCleanup(self.bury, process)

        def said():
            with open(path, encoding="utf-8", errors="replace") as f:
                return f.read()
        return process, said, addr

    @staticmethod
    def bury(process):
        if process.poll() is None:
            process.kill()
            process.wait()

    def assert_refused(self, process, said, *texts):
        self.assertEqual(process.wait(60), 1, said())
        for text in texts:
            self.assertIn(text, said())

    def copy(self, cluster, name):
        path = os.path.join(cluster.directory, f"copy-of-{name}")
        shutil.copytree(os.path.join(cluster.directory, name), path)
        return path
