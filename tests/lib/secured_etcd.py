"""Clusters on an etcd that asks who comes: users with roles, certificates."""
import os
import subprocess
import tempfile

from cluster import ETCDCTL_PATIENCE, wait_until

ROOT, USER = "root:secret of root", "baton"
PASSWORD = 'pass "word\\ \tü'


def run(*argv, **options):
    done = subprocess.run(argv, capture_output=True, text=True, check=False, **options)
    if done.returncode:
        raise AssertionError(f"{' '.join(argv)}: {done.stderr}")
    return done.stdout


def write(path, text):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    return path


class Certificates:
    """A CA, a certificate for 127.0.0.1 signed by it, and some that are wrong in one way each."""

    def __init__(self, directory):
        self.directory = directory
        self.ca, self.cert, self.key = self.made("ca"), self.made("server"), self.path("server", "key")

    def path(self, name, what="pem"):
        return os.path.join(self.directory, f"{name}.{what}")

    def made(self, name, ca="ca", names="IP:127.0.0.1", days=1, subject=None):
        """Path of a certificate of this name; its key is beside it."""
        key, request, cert = self.path(name, "key"), self.path(name, "csr"), self.path(name)
        if name == ca:
            run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-subj", f"/CN={name}", "-days", "2", "-keyout", key, "-out", cert)
            return cert
        run("openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-subj", subject or f"/CN={name}", "-keyout", key, "-out", request)
        extensions = write(self.path(name, "ext"),
                           f"subjectAltName={names}\nextendedKeyUsage=serverAuth,clientAuth\n")
        run("openssl", "x509", "-req", "-in", request, "-CA", self.path(ca), "-CAkey", self.path(ca, "key"),
            "-CAcreateserial", "-days", str(days), "-extfile", extensions, "-out", cert)
        return cert


class SecuredEtcd:
    """One etcd of a LocalCluster, restarted with further flags, spoken to with etcdctl as root."""

    def __init__(self, cluster, *flags):
        self.cluster, self.flags = cluster, []
        self.directory = tempfile.mkdtemp(dir=cluster.directory)
        # the hash of passwords is slow on purpose; tests have no need of that
        cluster.parts.parts["etcd1"]["argv"] += ["--bcrypt-cost", "4", *flags]
        cluster.parts.save()
        cluster.restart("etcd1")
        self.password_file = os.path.join(self.directory, "password")

    @property
    def url(self):
        return "http://" + self.cluster.etcd[0]

    def ctl(self, *words):
        return run("etcdctl", "--endpoints", self.url, *ETCDCTL_PATIENCE, *self.flags, *words,
                   env={**os.environ, "ETCDCTL_API": "3"}, timeout=120)

    def enable_auth(self, name="local"):
        """The role that docs/operations.md gives to members, no more, and a password for it."""
        self.ctl("user", "add", ROOT)
        self.ctl("user", "grant-role", "root", "root")
        self.ctl("role", "add", "baton")
        self.ctl("role", "grant-permission", "--prefix=true", "baton", "readwrite", f"/baton/{name}/")
        self.ctl("user", "add", f"{USER}:{PASSWORD}")
        self.ctl("user", "grant-role", USER, "baton")
        self.ctl("auth", "enable")
        self.flags = ["--user", ROOT]
        write(self.password_file, PASSWORD + "\n")

    def change_password(self, password):
        """All tokens of the user are of no use from here on."""
        write(self.password_file, password)
        run("etcdctl", "--endpoints", self.url, *self.flags, "user", "passwd", "--interactive=false", USER,
            env={**os.environ, "ETCDCTL_API": "3"}, input=password, timeout=120)

    def member_args(self):
        return ["--etcd-user=" + USER, "--etcd-password-file=" + self.password_file]

    def tokens(self):
        """How often etcd was asked to authenticate, by its own count."""
        text = run("curl", "-s", self.url + "/metrics")
        return sum(float(line.rpartition(" ")[2]) for line in text.splitlines()
                   if line.startswith("grpc_server_handled_total{") and 'grpc_method="Authenticate"' in line)


def wait_log(cluster, name, text):
    wait_until(f"{name} says '{text}'", lambda: text in cluster.log(name))
