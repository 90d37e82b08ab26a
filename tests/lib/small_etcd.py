"""An etcd with a small quota: filled by others, and put in order again as its operator would."""
import base64
import json
import os
import urllib.error
import urllib.request

FOREIGN = "/somebody/else/"


class SmallEtcd:
    """The etcd of a LocalCluster without members, restarted with this quota and these flags."""

    def __init__(self, cluster, quota_mib, *flags):
        self.cluster = cluster
        argv = cluster.parts.parts["etcd1"]["argv"]
        at = argv.index("--auto-compaction-mode")  # what compacts is what the test looks at
        del argv[at:at + 4]
        argv += ["--quota-backend-bytes", str(quota_mib << 20), *flags]
        cluster.parts.save()
        cluster.restart("etcd1")
        self.url = "http://" + cluster.etcd[0]

    def ctl(self, *words):
        return self.cluster.etcdctl(*words)

    def call(self, path, **fields):
        """The answer of the gateway, or None with what etcd refuses."""
        request = urllib.request.Request(self.url + path, json.dumps(fields).encode())
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            error.close()
            return None

    def put(self, key, value):
        encoded = {name: base64.b64encode(what).decode() for name, what in (("key", key), ("value", value))}
        return self.call("/v3/kv/put", **encoded)

    def fill(self):
        """Somebody else writes until etcd takes no more, not even little things."""
        number = 0
        for size in (1 << 20, 64 << 10, 4 << 10, 16):
            while self.put(f"{FOREIGN}{number}".encode(), os.urandom(size)):
                number += 1

    def alarms(self):
        return self.ctl("alarm", "list").split()

    def revision(self):
        return int(self.call("/v3/kv/range", key="AA==")["header"]["revision"])

    def sizes(self):
        """Bytes of the file, and in use."""
        status = self.call("/v3/maintenance/status")
        return int(status["dbSize"]), int(status.get("dbSizeInUse", 0))

    def make_room(self):
        """What docs/operations.md tells the operator to do."""
        self.ctl("compact", str(self.revision()), "--physical")
        self.ctl("defrag")
        self.ctl("alarm", "disarm")
