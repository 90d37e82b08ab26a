"""What clients did and saw, and what must be true of it."""
import bisect
import collections
import itertools
import math

# One call. begin and end are time.monotonic(). value: what was put or read (an int). code: "OK" or the status.
# outcome: "done", "not executed" or "unknown".
Op = collections.namedtuple("Op", "client kind key value begin end code outcome revision epoch detail")


class History:
    def __init__(self, ops):
        self.ops = sorted(ops, key=lambda op: op.end)

    def acknowledged(self, kind):
        return [op for op in self.ops if op.kind == kind and op.code == "OK"]

    def errors(self):
        return [op for op in self.ops if op.code != "OK"]

    def unknown(self, kind):
        return [op for op in self.ops if op.kind == kind and op.outcome == "unknown"]

    def gap_after(self, at):
        """Seconds from `at` to the first acknowledged put that was issued after it; None when there was none."""
        ends = [op.end for op in self.ops if op.kind == "put" and op.code == "OK" and op.begin >= at]
        return min(ends) - at if ends else None

    def longest_silence(self, begin, end):
        """Seconds of the longest stretch in this time in which no put was acknowledged."""
        ends = [op.end for op in self.ops if op.kind == "put" and op.code == "OK" and begin <= op.end <= end]
        return max(later - earlier for earlier, later in itertools.pairwise([begin, *ends, end]))

    def handover_gap(self, epoch):
        """Seconds from the last answer of the leader of `epoch` to the first of a later one."""
        done = [op for op in self.ops if op.code == "OK" and op.epoch]
        first = min((op.end for op in done if op.epoch > epoch), default=0)
        last = max((op.end for op in done if op.epoch <= epoch and op.end <= first), default=None)
        return first - last if last else None

    def longest_call(self, at, seconds=1.0):
        """Seconds of the longest call in flight between `at` and so much later."""
        return max((op.end - op.begin for op in self.ops if op.end >= at and op.begin <= at + seconds), default=None)


def check_errors(history):
    for op in history.errors()[:10]:
        yield f"client {op.client} {op.kind} {op.key}: {op.code} ({op.outcome}): {op.detail}"


def check_unique_keys(history, stored):
    """stored: key -> (value, version, mod_revision), read at the end. Every acknowledged key is there as it was put,
    and was written once; what is there was asked for."""
    puts = {op.key: op for op in history.ops if op.kind == "put"}
    for op in history.acknowledged("put"):
        found = stored.get(op.key)
        if found is None:
            yield f"lost: {op.key} = {op.value}, acknowledged at revision {op.revision}"
        elif found[0] != op.value:
            yield f"changed: {op.key} is {found[0]}, {op.value} was acknowledged"
        elif found[2] != op.revision:
            yield f"moved: {op.key} has revision {found[2]}, {op.revision} was acknowledged"
    for key, (_, version, _) in stored.items():
        if version != 1:
            yield f"doubled: {key} was put once and written {version} times"
        if key not in puts:
            yield f"invented: {key}"
        elif puts[key].outcome == "not executed":
            yield f"executed although refused as not executed: {key}"


def check_counter(history, final):
    """Each acknowledged compare-and-set added one; one of unknown outcome may have."""
    sure, maybe = len(history.acknowledged("add")), len(history.unknown("add"))
    if not sure <= final <= sure + maybe:
        yield f"the counter is {final}, {sure} additions were acknowledged and {maybe} are unknown"


def check_registers(history):
    """Each register has one writer, whose values grow, so it is linearizable exactly if every read shows a value
    that was not overwritten before the read began, was written before it ended, and never goes back."""
    by_key = collections.defaultdict(list)
    for op in history.ops:
        if op.kind in ("write", "read"):
            by_key[op.key].append(op)
    for key, ops in by_key.items():
        yield from _check_register(key, ops)


def _check_register(key, ops):
    issued = {op.value: op.begin for op in ops if op.kind == "write"}
    written = _Highest(op for op in ops if op.kind == "write" and op.code == "OK")
    read = _Highest(op for op in ops if op.kind == "read" and op.code == "OK")
    for op in ops:
        if op.kind != "read" or op.code != "OK":
            continue
        if op.value and issued.get(op.value, float("inf")) > op.end:
            yield f"{key}: {op.value} was read before it was written"
        for what, earlier in (("written", written), ("read", read)):
            newest = earlier.before(op.begin)
            if newest > op.value:
                yield f"{key}: {op.value} was read after {newest} had been {what}"


class _Highest:
    """The greatest value among calls that had ended before a time."""

    def __init__(self, ops):
        events = sorted((op.end, op.value) for op in ops)
        self.ends = [end for end, _ in events]
        self.highest = list(itertools.accumulate((value for _, value in events), max))

    def before(self, time):
        count = bisect.bisect_left(self.ends, time)
        return self.highest[count - 1] if count else 0


def check_epochs_seen(history):
    """A call that began after another had ended never came from an earlier leader."""
    highest, highest_end = 0, 0.0
    by_begin = sorted((op for op in history.ops if op.epoch), key=lambda op: op.begin)
    by_end = [op for op in history.ops if op.epoch]
    i = 0
    for op in by_begin:
        while i < len(by_end) and by_end[i].end < op.begin:
            if by_end[i].epoch > highest:
                highest, highest_end = by_end[i].epoch, by_end[i].end
            i += 1
        if op.epoch < highest:
            yield (f"client {op.client} {op.kind} {op.key}: answered by epoch {op.epoch}, "
                   f"{op.begin - highest_end:.3f} s after epoch {highest} had answered")


def check_leaderships(leaderships):
    """Newest first, as GetHistory answers: each epoch was led once, and none is missing."""
    for newer, older in zip(leaderships, leaderships[1:]):
        if newer.epoch != older.epoch + 1:
            yield f"epoch {newer.epoch} follows epoch {older.epoch}"


def percentile(values, share):
    """The nearest-rank percentile; share 1 is the greatest."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * share) - 1)] if ordered else None
