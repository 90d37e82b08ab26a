"""A real Prometheus (Debian's) that scrapes a local cluster, and promtool."""
import json
import os
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.parse
import urllib.request

from cluster import SOURCE, script, wait_until

ALERTS = os.path.join(SOURCE, "deploy", "prometheus", "alerts.yml")
CONFIG = """
global: {{scrape_interval: {interval}, scrape_timeout: {interval}, evaluation_interval: {interval}}}
rule_files: [{alerts}]
scrape_configs:
{jobs}
"""
JOB = """
  - job_name: {name}
    static_configs: [{{targets: {targets}, labels: {{cluster: local}}}}]
"""


def promtool(*words, text=None):
    """What it complains of; empty: nothing."""
    done = subprocess.run(["promtool", *words], input=text, capture_output=True, text=True)
    said = (done.stdout + done.stderr).strip()
    return said or f"promtool exits with {done.returncode}" if done.returncode else ""


def jobs_of(cluster):
    """job -> addresses to scrape, of the members and proxies of a LocalCluster."""
    parts = cluster.parts
    return {f"baton-{job}": [cluster.http[name] for name in parts.names(kind)]
            for job, kind in (("meta", "member"), ("proxy", "proxy"))}


class Prometheus:
    """Started when made, with temporary storage; ends with close()."""

    def __init__(self, jobs, interval="1s"):
        self.directory = tempfile.mkdtemp(prefix="baton-prometheus-")
        self.address = f"127.0.0.1:{script.take_ports(1, self.directory)[0]}"
        self.targets = sum(len(addresses) for addresses in jobs.values())
        config = os.path.join(self.directory, "prometheus.yml")
        with open(config, "w", encoding="utf-8") as f:
            f.write(CONFIG.format(interval=interval, alerts=json.dumps(ALERTS), jobs="".join(
                JOB.format(name=name, targets=json.dumps(targets)) for name, targets in jobs.items())))
        self.log = open(os.path.join(self.directory, "log"), "w+", encoding="utf-8")
        self.process = subprocess.Popen(
            ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={self.directory}/data",
             f"--web.listen-address={self.address}", "--log.level=warn"], stdout=self.log, stderr=self.log)
        try:
            wait_until("Prometheus serves", self._serves)
        except BaseException:
            self.close()
            raise

    def _serves(self):
        if self.process.poll() is not None:
            self.log.seek(0)
            raise AssertionError(f"prometheus ended: {self.log.read()}")
        try:
            with urllib.request.urlopen(f"http://{self.address}/-/ready", timeout=2) as answer:
                return answer.status == 200
        except OSError:
            return False

    def close(self):
        self.process.kill()
        self.process.wait()
        self.log.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def ask(self, path, **parameters):
        """The data of an answer of its HTTP API; AssertionError with its words when it refuses."""
        query = urllib.parse.urlencode(parameters, doseq=True)
        try:
            with urllib.request.urlopen(f"http://{self.address}/api/v1/{path}?{query}", timeout=30) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path} {parameters}: {error.read().decode()}") from None

    def query(self, expression):
        """[(labels, value)] now."""
        found = self.ask("query", query=expression)["result"]
        return [(one["metric"], float(one["value"][1])) for one in found]

    def query_range(self, expression, start, end, step):
        """[(labels, [value, …])]."""
        found = self.ask("query_range", query=expression, start=start, end=end, step=step)["result"]
        return [(one["metric"], [float(value) for _, value in one["values"]]) for one in found]

    def value(self, expression):
        """The one value of an expression, None when there is none."""
        found = self.query(expression)
        if len(found) > 1:
            raise AssertionError(f"{expression} has {len(found)} values")
        return found[0][1] if found else None

    def wait_scraped(self, times=3):
        """Until every target has been scraped so often."""
        wait_until(f"all targets are scraped {times} times", lambda: self.value(
            f"count(count_over_time(up[5m]) >= {times} and up == 1)") == self.targets)
