"""A guardian that is stopped while its member goes on: the member leads only when the guardian knows what to let go."""
import fcntl
import os
import signal
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from cluster import ClusterTest, wait_until  # noqa: E402

F_SETPIPE_SZ = 1031  # of Linux; Python names it since 3.10


def pipes_of(pid):
    """inode -> path of the pipes that a process holds."""
    folder = f"/proc/{pid}/fd"
    paths = [os.path.join(folder, name) for name in os.listdir(folder)]
    links = {path: os.readlink(path) for path in paths if os.path.islink(path)}
    return {link: path for path, link in links.items() if link.startswith("pipe:")}


class Guardian(ClusterTest):
    def shrink_pipe(self, guardian, child):
        """Makes one message fill the pipe between them."""
        common = pipes_of(guardian).keys() & pipes_of(child).keys()
        self.assertEqual(len(common), 1)
        with open(pipes_of(child)[common.pop()], "wb", buffering=0) as end:
            self.assertEqual(fcntl.fcntl(end, F_SETPIPE_SZ, 4096), 4096)

    def key_of(self, cluster, name):
        return next((key for key, address in cluster.election_queue() if address == cluster.members[name]), None)

    def test_no_takeover_that_it_does_not_hear_of(self):
        cluster = self.cluster(members=2, proxies=0, ttl=10)
        leader, epoch = cluster.wait_leader()
        other = next(name for name in cluster.members if name != leader)
        key = wait_until("it is in line", lambda: self.key_of(cluster, other))
        process = cluster.process(other)
        self.shrink_pipe(process.pid(), process.child())
        process.signal(signal.SIGSTOP)
        self.addCleanup(process.signal, signal.SIGCONT)
        # it tells that it has lost its lease, and stands again with another one
        cluster.etcdctl("lease", "revoke", key.rpartition("/")[2])
        wait_until("it is in line again", lambda: self.key_of(cluster, other) not in (None, key))
        cluster.kill_leader()
        wait_until("it says why it does not lead", lambda: "the guardian does not listen" in cluster.log(other))
        self.assertNotIn("leads with epoch", cluster.log(other))
        self.assertEqual(cluster.etcdctl("get", "--prefix", f"{cluster.prefix}state/history/", "--keys-only").count(
            "history"), epoch)
        process.signal(signal.SIGCONT)
        wait_until("it leads", lambda: f"leads with epoch {epoch + 1}" in cluster.log(other))


if __name__ == "__main__":
    unittest.main()
