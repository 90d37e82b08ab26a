"""What the benchmarks share: peers as child processes, their CPU, medians, tables, the way they are called."""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

SOURCE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
sys.path.insert(0, os.path.join(SOURCE, "scripts"))
from processes import Failed, children_of, take_ports, wait_until  # noqa: E402,F401

BIN = os.environ.get("BATON_BIN", os.path.join(SOURCE, "build", "bin"))


def have(program):
    """Path of a peer, or None: it is then printed as missing."""
    return shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin")


class Peer:
    """A child process that ends with the benchmark; only ever ended by its pid."""

    def __init__(self, argv, directory, name, core=None):
        if core is not None:
            argv = ["taskset", "-c", str(core), *argv]
        self.log_path = os.path.join(directory, name + ".log")
        self.log = open(self.log_path, "wb")
        self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=self.log)
        self.pid = self.process.pid

    def children(self):
        return children_of(self.pid)

    def cpu_us(self):
        """CPU that all threads have used so far, those of its children included."""
        total = 0
        for pid in [self.pid, *self.children()]:
            for task in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{task}/schedstat", encoding="ascii") as f:
                    total += int(f.read().split()[0])
        return total / 1000

    def stop(self):
        """Ends it; what it printed."""
        self.process.terminate()
        try:
            out, _ = self.process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            out, _ = self.process.communicate()
        self.log.close()
        return out.decode()


def accepts(port):
    """A listener is there (read from the kernel's table, so that no peer sees a stray connection)."""
    want = f":{port:04X}"
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(table, encoding="ascii") as f:
            if any(line.split()[1].endswith(want) and line.split()[3] == "0A" for line in list(f)[1:]):
                return True
    return False


def wait_port(port):
    wait_until(f"a listener on port {port}", 20, lambda: accepts(port))


def quartiles(values):
    if len(values) < 2:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def ratio_row(name, ours, theirs, target, unit):
    """One line of the table: medians with quartiles, and the ratio of the medians."""
    a, b = quartiles(ours), quartiles(theirs)
    return (f"{name:44} {a[1]:10.1f} [{a[0]:.1f}..{a[2]:.1f}]  {b[1]:10.1f} [{b[0]:.1f}..{b[2]:.1f}] {unit:8}"
            f" ratio {a[1] / b[1] if b[1] else float('nan'):5.2f}  target {target}")


def print_row(results, title, series, target, unit):
    """ratio_row of the two series, ours first; both are also kept in the results."""
    print(ratio_row(title, *series.values(), target, unit), flush=True)
    results[title] = series


def bench_main(about, measure, defaults, arguments=()):
    """Runs measure(options, results) and prints an error as one line. defaults: numbers to ask for by option;
    arguments: further options, each (name, settings of add_argument)."""
    parser = argparse.ArgumentParser(description=about)
    for name, value in defaults.items():
        parser.add_argument(f"--{name}", type=int, default=value, help=f"default {value}")
    for name, settings in arguments:
        parser.add_argument(name, **settings)
    parser.add_argument("--json", metavar="FILE", help="also write all values there")
    options = parser.parse_args()
    print(machine())
    results = {}
    try:
        measure(options, results)
    except Failed as e:
        raise SystemExit(f"{parser.prog}: {e}") from None
    if options.json:
        with open(options.json, "w", encoding="ascii") as f:
            json.dump(results, f, indent=1)


def scratch():
    return tempfile.TemporaryDirectory(prefix="baton-bench-")


def machine():
    with open("/proc/cpuinfo", encoding="ascii") as f:
        model = next((line.split(":")[1].strip() for line in f if line.startswith("model name")), "?")
    return f"{os.cpu_count()} cores, {model}, Linux {os.uname().release}"
