"""Grafana's dashboard as a test reads it: its panels, variables and queries, with what Grafana would put in."""
import json
import os
import re

from cluster import SOURCE

PATH = os.path.join(SOURCE, "deploy", "grafana", "dashboards", "baton.json")
# What Grafana's editor sets by itself; the rest is of the data source.
BUILT_IN = {"__rate_interval": "5s", "__range": "60s", "__interval": "1s"}


class Dashboard:
    def __init__(self, path=PATH):
        with open(path, encoding="utf-8") as f:
            self.text = f.read()
        self.content = json.loads(self.text)
        self.panels = [panel for panel in self.content["panels"] if panel["type"] != "row"]
        self.variables = {one["name"]: one for one in self.content["templating"]["list"]}

    def values(self, picked=None):
        """name -> value of each variable: what stands for all, unless something is picked."""
        found = dict(BUILT_IN)
        for name, one in self.variables.items():
            found[name] = (picked or {}).get(name, one.get("allValue", ""))
        return found

    def fill(self, text, picked=None):
        values = self.values(picked)

        def value(match):
            name = match.group(1) or match.group(2)
            if name not in values:
                raise AssertionError(f"no such variable: {match.group(0)}")
            return values[name]
        return re.sub(r"\$(?:\{(\w+)\}|(\w+))", value, text)

    def queries(self, picked=None):
        """(what it is of, expression, whether it is asked for one moment only)."""
        for panel in self.panels:
            for target in panel["targets"]:
                yield (f"{panel['title']} ({target['refId']})", self.fill(target["expr"], picked),
                       target.get("instant", False))

    def variable_queries(self):
        """(variable, metric selector, label)."""
        for name, one in self.variables.items():
            if one["type"] == "query":
                selector, label = re.fullmatch(r"label_values\((.*), (\w+)\)", one["query"]["query"]).groups()
                yield name, self.fill(selector), label
