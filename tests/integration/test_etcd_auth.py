"""Members as users of an etcd with authentication: the least role suffices, tokens come and go unnoticed."""
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from cluster import BIN, wait_until  # noqa: E402
from failover import FailoverTest  # noqa: E402
from secured_etcd import PASSWORD, SecuredEtcd, USER, run, wait_log, write  # noqa: E402
from workload import Load  # noqa: E402

TTL = 3


class AuthTest(FailoverTest):
    def secured(self, *flags, auth=True):
        etcd = SecuredEtcd(self.cluster(members=0, proxies=0), *flags)
        if auth:
            etcd.enable_auth()
        return etcd

    def members_of(self, etcd, ttl=10, **options):
        cluster = self.cluster(etcd=0, etcd_urls=[etcd.url], member_args=etcd.member_args(), ttl=ttl, **options)
        cluster.etcdctl = lambda *words, **_: etcd.ctl(*words)
        return cluster

    def assert_no_secret_is_told(self, cluster, *secrets):
        for name in cluster.members:
            said = cluster.log(name)
            for secret in secrets:
                self.assertNotIn(secret, said)


class Users(AuthTest):
    def test_leaders_are_killed(self):
        """The guardian lets go at once: it has the token of its child."""
        cluster = self.members_of(self.secured(), ttl=TTL)
        self.fail_over(cluster, [cluster.kill_leader] * 3, TTL, lambda fault: cluster.restart(fault.name))
        self.assert_no_secret_is_told(cluster, PASSWORD)

    def test_password_is_changed_under_load(self):
        etcd = self.secured()
        cluster = self.members_of(etcd)
        before = cluster.wait_leader()
        with Load(cluster.proxy) as load:
            for password in ("second", "third"):
                etcd.change_password(password)
                load.wait_progress()
            load.stop()
        self.assert_sound(load, cluster)
        self.assertEqual(cluster.wait_leader(), before, "a token that is refused is no reason to give up leadership")

    def test_roles_are_changed_and_authentication_is_switched_under_load(self):
        etcd = self.secured(auth=False)
        write(etcd.password_file, PASSWORD)
        cluster = self.members_of(etcd)
        wait_log(cluster, "m1", "asks for no user")
        before = cluster.wait_leader()
        with Load(cluster.proxy) as load:
            etcd.enable_auth()
            load.wait_progress()
            etcd.ctl("role", "grant-permission", "baton", "read", "elsewhere")
            load.wait_progress()
            etcd.ctl("auth", "disable")
            load.wait_progress()
            load.stop()
        self.assert_sound(load, cluster)
        self.assertEqual(cluster.wait_leader(), before)

    def test_signed_tokens_end_under_load(self):
        """A JWT ends when its time is up, however often it is used."""
        directory = SecuredEtcd(self.cluster(members=0, proxies=0)).directory
        key, public = os.path.join(directory, "jwt.key"), os.path.join(directory, "jwt.pub")
        run("openssl", "genrsa", "-out", key, "2048")
        run("openssl", "rsa", "-in", key, "-pubout", "-out", public)
        etcd = self.secured("--auth-token", f"jwt,pub-key={public},priv-key={key},sign-method=RS256,ttl=2s")
        cluster = self.members_of(etcd)
        before = cluster.wait_leader()
        with Load(cluster.proxy) as load:
            asked = etcd.tokens()
            wait_until("three more tokens were asked for", lambda: etcd.tokens() >= asked + 3)
            load.wait_progress()
            load.stop()
        self.assert_sound(load, cluster)
        self.assertEqual(cluster.wait_leader(), before)

    def test_simple_tokens_end_between_heartbeats(self):
        etcd = self.secured("--auth-token-ttl", "1")
        cluster = self.members_of(etcd, members=2)
        before = cluster.wait_leader()
        asked = etcd.tokens()
        wait_until("two more tokens were asked for", lambda: etcd.tokens() >= asked + 2)
        with Load(cluster.proxy) as load:
            load.wait_progress()
            load.stop()
        self.assert_sound(load, cluster)
        self.assertEqual(cluster.wait_leader(), before)

    def test_one_token_serves_all_clients(self):
        etcd = self.secured()
        before = etcd.tokens()
        cluster = self.members_of(etcd, members=1)
        with Load(cluster.proxy) as load:
            load.wait_progress()
            load.stop()
        self.assertLessEqual(etcd.tokens() - before, 2)

    def test_revoked_and_granted_again(self):
        """What an operator takes away by mistake is no outage for ever, nor a reason to exit."""
        etcd = self.secured()
        cluster = self.members_of(etcd, members=2, ttl=TTL)
        _, epoch = cluster.wait_leader()
        etcd.ctl("user", "revoke-role", USER, "baton")
        wait_until("nobody leads", lambda: not cluster.leader())
        wait_until("it is said why", lambda: any("permission denied" in cluster.log(m) for m in cluster.members))
        etcd.ctl("user", "grant-role", USER, "baton")
        cluster.wait_leader(above_epoch=epoch)
        with Load(cluster.proxy) as load:
            load.wait_progress()
            load.stop()
        self.assert_sound(load, cluster)


class Refused(AuthTest):
    """What only an operator can put right is said at once, and the process exits."""

    def refusal(self, etcd, *args):
        argv = [os.path.join(BIN, "baton-meta"), "--id", "x", "--data", tempfile.mkdtemp(dir=etcd.directory),
                "--listen", "127.0.0.1:0", "--advertise", "127.0.0.1:1", "--http", "off", "--etcd", etcd.url, *args]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertNotIn(PASSWORD, done.stderr)
        return done.stderr

    def test_refusals(self):
        etcd = self.secured()
        good = ["--cluster", "local", "--etcd-user", USER, "--etcd-password-file"]
        self.assertIn("--etcd-user and --etcd-password-file", self.refusal(etcd))
        wrong = write(os.path.join(etcd.directory, "wrong"), "guessed")
        self.assertIn("etcd refuses the user or the password", self.refusal(etcd, *good, wrong))
        self.assertNotIn("guessed", self.refusal(etcd, *good, wrong))
        self.assertIn("needs a role with readwrite on the prefix /baton/other/",
                      self.refusal(etcd, *good, etcd.password_file, "--cluster", "other"))
        etcd.ctl("role", "revoke-permission", "--prefix=true", "baton", "/baton/local/")
        etcd.ctl("role", "grant-permission", "--prefix=true", "baton", "read", "/baton/local/")
        self.assertIn("needs a role with readwrite", self.refusal(etcd, *good, etcd.password_file))
        missing = os.path.join(etcd.directory, "missing")
        self.assertIn(f"--etcd-password-file {missing}: No such file", self.refusal(etcd, *good, missing))
        empty = write(os.path.join(etcd.directory, "empty"), "\n")
        self.assertIn("holds no password", self.refusal(etcd, *good, empty))
        self.assertIn("--etcd-user", self.refusal(etcd, "--etcd-password-file", empty))


if __name__ == "__main__":
    unittest.main(verbosity=2)
