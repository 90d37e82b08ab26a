"""etcd of a LocalCluster put back to an earlier state, as an operator does it: a snapshot, all etcd processes down, their
directories made anew from it, all up again."""
import os
import shutil
import subprocess

from cluster import wait_until


def option(argv, name):
    return argv[argv.index(name) + 1]


def save_snapshot(cluster, name="snapshot.db"):
    path = os.path.join(cluster.directory, name)
    done = subprocess.run(["etcdctl", "--endpoints", cluster.etcd[0], "snapshot", "save", path],
                          capture_output=True, text=True, env={**os.environ, "ETCDCTL_API": "3"})
    if done.returncode:
        raise AssertionError(done.stderr)
    return path


def stop_etcd(cluster):
    for name in cluster.parts.names("etcd"):
        cluster.process(name).stop()


def _restore_directory(argv, snapshot, token):
    directory = option(argv, "--data-dir")
    shutil.rmtree(directory)
    words = ["etcdctl", "snapshot", "restore", snapshot, "--name", option(argv, "--name"), "--data-dir", directory,
             "--initial-cluster", option(argv, "--initial-cluster"),
             "--initial-cluster-token", token or option(argv, "--initial-cluster-token"),
             "--initial-advertise-peer-urls", option(argv, "--initial-advertise-peer-urls")]
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "ETCDCTL_API": "3"})
    if done.returncode:
        raise AssertionError(done.stderr)


def restore_snapshot(cluster, snapshot, token=None):
    """The same token and peer urls as before, so the same cluster id, unless another token is given."""
    stop_etcd(cluster)
    names = cluster.parts.names("etcd")
    for name in names:
        _restore_directory(cluster.parts.parts[name]["argv"], snapshot, token)
    start_etcd(cluster)


def wipe_etcd(cluster):
    stop_etcd(cluster)
    for name in cluster.parts.names("etcd"):
        shutil.rmtree(option(cluster.parts.parts[name]["argv"], "--data-dir"))
    start_etcd(cluster)


def start_etcd(cluster):
    names = cluster.parts.names("etcd")
    for name in names:
        cluster.parts.start(name)
    for name in names:
        wait_until(f"{name} serves", lambda n=name: cluster.parts.is_up(n))
