#!/usr/bin/python3
"""The dashboard and the alerts, against a real Prometheus that scrapes a real cluster through a failover."""
import math
import os
import re
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cluster import BIN, SOURCE, ClusterTest, wait_until  # noqa: E402
from dashboard import Dashboard  # noqa: E402
from prometheus import ALERTS, Prometheus, jobs_of, promtool  # noqa: E402
from workload import Load  # noqa: E402

METRIC = re.compile(r"\b(?:baton|process)_\w+")


def known_metrics():
    """Names of all series that the programs can have."""
    names = set()
    for program in ("baton-meta", "baton-proxy"):
        done = subprocess.run([os.path.join(BIN, program), "--metrics-doc"], capture_output=True, text=True, check=True)
        for name, kind in re.findall(r"(?m)^\| `(\w+)` \| (\w+)", done.stdout):
            names |= {name + end for end in ("_bucket", "_sum", "_count")} if kind == "histogram" else {name}
    return names


class Files(unittest.TestCase):
    """What needs no cluster."""

    def test_alerts(self):
        self.assertEqual(promtool("check", "rules", ALERTS), "")
        self.assertEqual(promtool("test", "rules", os.path.join(SOURCE, "tests", "prometheus", "alerts_test.yml")), "")

    def test_alerts_are_explained(self):
        """Each one is a row of docs/operations.md, and the other way round."""
        with open(ALERTS, encoding="utf-8") as f:
            alerts = set(re.findall(r"- alert: (\w+)", f.read()))
        with open(os.path.join(SOURCE, "docs", "operations.md"), encoding="utf-8") as f:
            explained = set(re.findall(r"(?m)^\| `(Baton\w+)` \|", f.read()))
        self.assertEqual(alerts, explained)

    def test_alerts_tested(self):
        with open(ALERTS, encoding="utf-8") as f:
            alerts = set(re.findall(r"- alert: (\w+)", f.read()))
        with open(os.path.join(SOURCE, "tests", "prometheus", "alerts_test.yml"), encoding="utf-8") as f:
            fired = set(re.findall(r"alertname: (\w+)\n\s+exp_alerts", f.read()))
        self.assertEqual(alerts - fired, set())

    def test_names(self):
        """Dashboard and alerts ask for nothing that no program tells."""
        names = known_metrics()
        for path in (ALERTS, os.path.join(SOURCE, "deploy", "grafana", "dashboards", "baton.json")):
            with open(path, encoding="utf-8") as f:
                self.assertEqual(set(METRIC.findall(f.read())) - names, set(), path)

    def test_panels(self):
        """Each panel says what it shows, what is good and bad, in which unit; none lies upon another."""
        dashboard = Dashboard()
        ids, covered = set(), set()
        for panel in dashboard.content["panels"]:
            with self.subTest(panel=panel["title"]):
                self.assertNotIn(panel["id"], ids)
                ids.add(panel["id"])
                at = panel["gridPos"]
                cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
                self.assertLessEqual(at["x"] + at["w"], 24)
                self.assertEqual(cells & covered, set())
                covered |= cells
                if panel["type"] == "row":
                    continue
                self.assertGreater(len(panel["description"]), 10)
                self.assertEqual(panel["datasource"]["uid"], "${datasource}")
                if panel["type"] in ("timeseries", "stat"):
                    self.assertTrue(panel["fieldConfig"]["defaults"]["unit"])
                refs = [target["refId"] for target in panel["targets"]]
                self.assertEqual(len(set(refs)), len(refs))


class Scraped(ClusterTest):
    """One cluster for all, for starting it is what takes long."""

    def has_data(self, prometheus, expression, instant, since):
        """At least one number in the time since."""
        if instant:
            return any(math.isfinite(value) for _, value in prometheus.query(expression))
        found = prometheus.query_range(expression, since, time.time(), 1)
        return any(math.isfinite(value) for _, values in found for value in values)

    def wait_data(self, prometheus, queries, since):
        """Until each query had data once."""
        missing = list(queries)

        def none_missing():
            missing[:] = [one for one in missing if not self.has_data(prometheus, *one[1:], since)]
            return not missing
        try:
            wait_until("every query has data", none_missing)
        except AssertionError as error:
            raise AssertionError(f"{error}; without any: {missing}") from None

    def check_dashboard(self, prometheus, cluster, since):
        dashboard = Dashboard()
        annotation = dashboard.content["annotations"]["list"][0]["expr"]
        queries = list(dashboard.queries()) + [("annotation", dashboard.fill(annotation), False)]
        self.assertGreater(len(queries), 80)
        self.wait_data(prometheus, queries, since)
        for name, selector, label in dashboard.variable_queries():
            values = prometheus.ask(f"label/{label}/values", **{"match[]": selector})
            wanted = {"cluster": ["local"], "member": sorted(jobs_of(cluster)["baton-meta"]),
                      "proxy": sorted(jobs_of(cluster)["baton-proxy"])}[name]
            self.assertEqual(sorted(values), wanted, name)
        # one cluster, one member and one proxy picked by name
        picked = {"cluster": "local", "member": jobs_of(cluster)["baton-meta"][0],
                  "proxy": jobs_of(cluster)["baton-proxy"][0]}
        for what, expression, _ in dashboard.queries(picked):
            with self.subTest(what=what):
                prometheus.query(expression)

    def check_what_it_shows(self, prometheus, since):
        """Two of its figures, to be sure that the numbers are those of this cluster."""
        dashboard = Dashboard()
        queries = {what: expression for what, expression, _ in dashboard.queries()}
        wait_until("one leader is seen", lambda: prometheus.value(queries["Leaders (A)"]) == 1)
        wait_until("two takeovers are seen", lambda: prometheus.value(queries["Epoch (A)"]) == 2)
        wait_until("no member is missing", lambda: prometheus.value(queries["Members missing (A)"]) == 0)
        reasons = prometheus.query_range(queries["Takeovers by reason (A)"], since, time.time(), 1)
        self.assertGreater(max(v for labels, values in reasons if labels["reason"] == "released" for v in values), 0)

    def check_rules(self, prometheus):
        """Every alert is evaluated, and none that is about this cluster fires while all is well."""
        def rules():
            return [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]
        wait_until("all rules are evaluated", lambda: all(rule["health"] == "ok" for rule in rules()))
        self.assertGreater(len(rules()), 15)
        self.assertEqual([rule["name"] for rule in rules() if rule["state"] == "firing"], [])
        for rule in rules():
            prometheus.query(rule["query"])

    def check_outage(self, prometheus, cluster):
        """All members stop: it is seen, by the dashboard and by the alert."""
        for name in cluster.members:
            cluster.run_script("stop", name)
        alert = 'ALERTS{alertname="BatonNoLeader"}'
        wait_until("the alert is pending or firing", lambda: prometheus.query(alert))
        queries = {what: expression for what, expression, _ in Dashboard().queries()}
        wait_until("the dashboard shows no leader", lambda: prometheus.value(queries["Leaders (A)"]) == 0)
        self.assertEqual(prometheus.query(queries["Who leads (A)"]), [({"instance": "nobody"}, 0)])
        wait_until("it fires", lambda: prometheus.query('ALERTS{alertname="BatonNoLeader",alertstate="firing"}'))

    def test_through_a_failover(self):
        cluster = self.cluster(members=3, proxies=1, ttl=10)
        _, epoch = cluster.wait_leader()
        prometheus = Prometheus(jobs_of(cluster))
        self.addCleanup(prometheus.close)
        since = time.time()
        prometheus.wait_scraped(times=5)
        with Load(cluster.proxy, clients=8) as load:
            fault = cluster.kill_leader()
            cluster.wait_leader(above_epoch=epoch)
            load.wait_progress(since=fault.at)
            cluster.restart(fault.name)
            prometheus.wait_scraped(times=10)
            self.check_dashboard(prometheus, cluster, since)
        self.assertEqual(load.problems(cluster), [])
        self.check_what_it_shows(prometheus, since)
        self.check_rules(prometheus)
        self.check_outage(prometheus, cluster)


if __name__ == "__main__":
    unittest.main()
