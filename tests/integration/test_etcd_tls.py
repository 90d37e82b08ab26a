"""Members that reach etcd through TLS and show a certificate; and what they say of certificates that will not do."""
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from cluster import BIN, wait_until  # noqa: E402
from failover import FailoverTest  # noqa: E402
from secured_etcd import Certificates, SecuredEtcd, write  # noqa: E402
from workload import Load  # noqa: E402

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "scripts"))
from processes import take_ports  # noqa: E402

TTL = 3


class Certified(FailoverTest):
    def certified(self):
        """(etcd, its certificates, its https:// URL); it serves its own tests through http:// besides."""
        cluster = self.cluster(members=0, proxies=0)
        certs = Certificates(tempfile.mkdtemp(dir=cluster.directory))
        port, = take_ports(1, cluster.directory)
        plain, secure = "http://" + cluster.etcd[0], f"https://127.0.0.1:{port}"
        etcd = SecuredEtcd(cluster, "--listen-client-urls", f"{plain},{secure}", "--cert-file", certs.cert,
                           "--key-file", certs.key, "--trusted-ca-file", certs.ca, "--client-cert-auth")
        return etcd, certs, secure

    @staticmethod
    def files(certs, ca=None, cert="server"):
        return ["--etcd-ca=" + (ca or certs.ca), "--etcd-cert=" + certs.path(cert),
                "--etcd-key=" + certs.path(cert, "key")]

    def test_leaders_are_killed(self):
        etcd, certs, url = self.certified()
        certs.made("member", subject="/O=baton")  # a common name would pass for the name of a user
        etcd.enable_auth()
        cluster = self.cluster(etcd=0, etcd_urls=[url], ttl=TTL,
                               member_args=["--etcd-transport=grpc", *self.files(certs, cert="member"), *etcd.member_args()])
        cluster.etcdctl = lambda *words, **_: etcd.ctl(*words)
        self.fail_over(cluster, [cluster.kill_leader] * 2, TTL, lambda fault: cluster.restart(fault.name))

    def test_etcd_restarts_with_a_new_certificate(self):
        etcd, certs, url = self.certified()
        cluster = self.cluster(etcd=0, etcd_urls=[url], ttl=10, member_args=self.files(certs))
        with Load(cluster.proxy) as load:
            certs.made("server")
            etcd.cluster.restart("etcd1")
            load.wait_progress()
            load.stop()
        self.assert_sound(load, cluster)

    def assert_says(self, text, url, *args):
        argv = [os.path.join(BIN, "baton-meta"), "--id", "x", "--data", tempfile.mkdtemp(dir=self.directory),
                "--listen", "127.0.0.1:0", "--advertise", "127.0.0.1:1", "--http", "off", "--etcd", url, *args]
        with tempfile.TemporaryFile("w+") as said:
            process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=said, stderr=said)

            def says():
                said.seek(0)
                return text in said.read()
            try:
                wait_until(f"it says '{text}'", says)
            except AssertionError as late:
                said.seek(0)
                raise AssertionError(f"{late}; but:\n{said.read()[:2000]}") from None
            finally:
                process.kill()  # the member dies with it
                process.wait()

    def test_complaints(self):
        etcd, certs, url = self.certified()
        self.directory = etcd.directory
        foreign = Certificates(tempfile.mkdtemp(dir=etcd.directory))
        missing, text = os.path.join(self.directory, "missing"), write(os.path.join(self.directory, "text"), "hello")
        # files: before anything is tried
        self.assert_says(f"--etcd-ca {missing}: No such file", url, "--etcd-ca", missing)
        self.assert_says(f"--etcd-ca {text}: holds no certificate", url, "--etcd-ca", text)
        self.assert_says(f"--etcd-cert {text}: holds no certificate", url, "--etcd-cert", text, "--etcd-key", certs.key)
        self.assert_says(f"--etcd-key {text}: holds no private key", url, "--etcd-cert", certs.cert, "--etcd-key", text)
        self.assert_says(f"--etcd-key {foreign.key}: is not the key of --etcd-cert {certs.cert}", url,
                         "--etcd-cert", certs.cert, "--etcd-key", foreign.key)
        self.assert_says("--etcd-key", url, "--etcd-cert", certs.cert)
        self.assert_says("are for https:// endpoints", etcd.url, "--etcd-ca", certs.ca)
        # what only the other end tells
        etcd.enable_auth()
        self.assert_says("takes no client certificate with a common name", url, *self.files(certs),
                         *etcd.member_args())
        self.assert_says("must be valid now, name this host and be signed by --etcd-ca", url,
                         *self.files(certs, ca=foreign.ca))
        self.assert_says("matches target host name 'localhost'", url.replace("127.0.0.1", "localhost"),
                         *self.files(certs))
        self.assert_says("refuses the certificate of --etcd-cert, or wants one", url, "--etcd-ca", certs.ca)
        certs.made("server", days=0)
        etcd.cluster.restart("etcd1")
        self.assert_says("certificate has expired", url, *self.files(certs))


if __name__ == "__main__":
    unittest.main(verbosity=2)
