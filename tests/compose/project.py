"""One project of docker-compose.yml, as its users start and stop it, on ports and under a name of its own."""
import json
import os
import re
import shlex
import shutil
import subprocess
import urllib.parse

import grpc

import cluster
import stubs
from cluster import script, wait_until

SOURCE = stubs.SOURCE
WELL_SECONDS = 120
PORTS = ["BATON_PROXY1_PORT", "BATON_PROXY1_HTTP_PORT", "BATON_PROXY2_PORT", "BATON_PROXY2_HTTP_PORT",
         "BATON_PROMETHEUS_PORT", "BATON_GRAFANA_PORT"]


def compose_command():
    """docker-compose 1.29, or Compose v2 as a plugin of docker."""
    return ["docker-compose"] if shutil.which("docker-compose") else ["docker", "compose"]


class Project:
    ETCDS, MEMBERS, PROXIES = ["etcd1", "etcd2", "etcd3"], ["m1", "m2", "m3"], ["proxy1", "proxy2"]
    ALL = ETCDS + MEMBERS + PROXIES + ["prometheus"]

    def __init__(self, name, directory, files=()):
        """directory: holds the ports for as long as it is there. files: further compose files."""
        self.name = name
        self.ports = dict(zip(PORTS, script.take_ports(len(PORTS), directory)))
        self.env = {**os.environ, **{key: str(port) for key, port in self.ports.items()},
                    "COMPOSE_PROJECT_NAME": name,
                    "COMPOSE_FILE": ":".join([os.path.join(SOURCE, "docker-compose.yml"), *files])}
        self.proxies = [f"127.0.0.1:{self.ports[f'BATON_PROXY{i}_PORT']}" for i in (1, 2)]
        self.proxy = self.proxies[0]
        self.prometheus = f"127.0.0.1:{self.ports['BATON_PROMETHEUS_PORT']}"

    # Commands.

    def _run(self, argv, seconds):
        done = subprocess.run(argv, env=self.env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=seconds)
        if done.returncode:
            raise AssertionError(f"{shlex.join(argv)}: {(done.stderr or done.stdout)[-3000:]}")
        return done.stdout

    def compose(self, *words, seconds=180):
        return self._run([*compose_command(), *words], seconds)

    def docker(self, *words, seconds=60):
        return self._run(["docker", *words], seconds)

    def up(self):
        """All but Grafana, which needs an image that is not built here."""
        self.compose("up", "-d", "prometheus", seconds=1200)
        self.wait_well()

    def down(self):
        self.compose("down")

    def remove(self):
        """With all that it stored, and the images built for it."""
        self.compose("down", "--volumes", "--rmi", "local")

    def container(self, service):
        out = self.docker("ps", "-aq", "--filter", f"label=com.docker.compose.project={self.name}",
                          "--filter", f"label=com.docker.compose.service={service}")
        return out.strip()

    def inspect(self, service):
        return json.loads(self.docker("inspect", self.container(service)))[0]

    def execute(self, service, *words):
        """Runs a command inside a container."""
        return self.docker("exec", self.container(service), *words)

    def logs(self, lines=30):
        return self.compose("logs", "--no-color", f"--tail={lines}")

    # Asking.

    def wait_well(self, services=()):
        """Until their health checks say so. They are run here: Docker does so only every few seconds."""
        for service in services or self.ALL:
            state = self.inspect(service)
            check = ["exec", state["Id"], *state["Config"]["Healthcheck"]["Test"][1:]]
            wait_until(f"{service} is well", lambda c=check: self._succeeds(c), WELL_SECONDS)

    def _succeeds(self, words):
        try:
            self.docker(*words)
        except AssertionError:
            return False
        return True

    def _ask(self, method, request):
        """The leader, through the proxy that answers."""
        stub_class = stubs.load("baton.v1.member_pb2_grpc").ClusterMemberServiceStub
        with grpc.insecure_channel("ipv4:" + ",".join(self.proxies), options=cluster.CHANNEL_OPTIONS) as channel:
            return getattr(stub_class(channel), method)(request, timeout=15)

    def wait_leader(self, above_epoch=0):
        """(service, epoch); the members' names are those of their services."""
        request = stubs.load("baton.v1.member_pb2").GetLeaderAddrRequest()

        def look():
            state = self._ask("GetLeaderAddr", request)
            return (state.id, state.epoch) if state.known and state.epoch > above_epoch else None
        return wait_until(f"a member leads in an epoch above {above_epoch}", look)

    def history(self):
        """Leaderships, newest first."""
        request = stubs.load("baton.v1.member_pb2").GetHistoryRequest(limit=1000)
        return list(self._ask("GetHistory", request).leaderships)

    def etcd_leader(self):
        for service in self.ETCDS:
            status = json.loads(self.execute(service, "etcdctl", "endpoint", "status", "-w", "json"))[0]["Status"]
            if status["header"]["member_id"] == status["leader"]:
                return service
        return None

    def query(self, expression):
        """The vector that Prometheus answers: [(labels, value)]."""
        path = "/api/v1/query?" + urllib.parse.urlencode({"query": expression})
        answer = script.http_get(self.prometheus, path, seconds=10)
        if answer is None or answer[0] != 200:
            return []
        return [(item["metric"], float(item["value"][1])) for item in json.loads(answer[1])["data"]["result"]]

    # Doing things to containers.

    def crash(self, service):
        """Kills the member below its guardian, which lets go and exits; Docker starts both again."""
        before = self.inspect(service)["RestartCount"]
        self.execute(service, "bash", "-c", "kill -9 $(</proc/1/task/1/children)")
        wait_until(f"{service} is started again", lambda: self.inspect(service)["RestartCount"] > before)

    def kill(self, service):
        self.docker("kill", self.container(service))

    def start(self, service):
        self.docker("start", self.container(service))

    def pause(self, service):
        self.docker("pause", self.container(service))

    def unpause(self, service):
        self.docker("unpause", self.container(service))

    def restart(self, service):
        self.compose("restart", service)

    def _network(self):
        return f"{self.name}_default"

    def disconnect(self, service):
        self.docker("network", "disconnect", self._network(), self.container(service))

    def connect(self, service):
        """Its name has to be given again: that of the service is no longer known after a disconnection."""
        self.docker("network", "connect", "--alias", service, self._network(), self.container(service))

    def complaints(self):
        """Of the programs: what no healthy process prints."""
        said = self.compose("logs", "--no-color", *self.MEMBERS, *self.PROXIES)
        return [line for line in said.splitlines() if cluster.CRASH.search(re.sub(r"^\S+\s*\| ", "", line))]
