"""What watchers and subscribers were told, and what must be true of it.

A stream's messages are brought into one form, Told, in the order in which they came, over all streams that one listener
opened one after another."""
import collections

EVENTS, SNAPSHOT, QUIET, PROGRESS = "events", "snapshot", "quiet", "progress"

# One message. stream: which one of the listener's, from 0. kind QUIET: of members or the leader only. keys and workers:
# lists of Key and Life. more: the same revision goes on in the next message.
Told = collections.namedtuple("Told", "stream kind revision epoch cluster keys workers restart more",
                              defaults=((), (), False, False))
Key = collections.namedtuple("Key", "key value version revision deleted", defaults=(False,))
# A worker as it was told. slot: None without one.
Life = collections.namedtuple("Life", "id incarnation type addr slot grant revision gone expired",
                              defaults=(None, 0, 0, False, False))

WRITES = ("put", "write", "add")  # kinds of history.Op that change a key


class Replay:
    """Follows what was told as a receiver would; problems: what no receiver may be told.

    keys, workers: the state at the end. changes: (key, revision) -> value, of all that was told as a change.
    lives: every Life that was told as a change, in order. whole: the revision up to which all was told."""

    def __init__(self, told):
        self.problems = []
        self.keys, self.workers, self.changes, self.lives = {}, {}, {}, []
        self.snapshots = []  # their revisions
        self.first = self.whole = None
        self.epoch, self.cluster = 0, None
        self._gone, self._held, self._grants = set(), {}, {}
        self._incarnation = collections.defaultdict(int)
        self._parts = []
        for message in told:
            self._hear(message)

    def _complain(self, message, text):
        self.problems.append(f"stream {message.stream}, revision {message.revision}: {text}")

    def _hear(self, message):
        self._check_leader(message)
        if self._parts and self._parts[-1].stream != message.stream:
            self._parts = []  # a stream that ended within a revision told nothing of it
        if self._parts and not belongs(message, self._parts[0]):
            self._complain(message, f"{message.kind} comes amid the {self._parts[0].kind} of {self._parts[0].revision}")
            self._parts = []
        self._check_order(message)
        self._parts.append(message)
        if not message.more:
            parts, self._parts = self._parts, []
            self._take(parts)

    def _check_leader(self, message):
        if self.cluster not in (None, message.cluster):
            self._complain(message, f"cluster {message.cluster} after {self.cluster}")
        if message.epoch < self.epoch:
            self._complain(message, f"epoch {message.epoch} after {self.epoch}")
        self.cluster, self.epoch = message.cluster, max(self.epoch, message.epoch)

    def _check_order(self, message):
        if message.restart and (message.kind != SNAPSHOT or self._parts):
            self._complain(message, "a restart that is not the start of a snapshot")
        if self.whole is None:
            return
        if message.kind in (QUIET, PROGRESS) and message.revision < self.whole:
            self._complain(message, f"{message.kind} after {self.whole} was told")
        if message.kind == EVENTS and message.revision <= self.whole:
            self._complain(message, f"told again or late, after {self.whole}")
        if message.kind == SNAPSHOT and message.revision < self.whole:
            self._complain(message, f"a snapshot older than {self.whole}, which was told")

    def _take(self, parts):
        kind, revision = parts[0].kind, parts[0].revision
        if kind == SNAPSHOT:
            if not parts[0].restart:
                self._complain(parts[0], "a snapshot without its start")
            self.snapshots.append(revision)
            self._take_snapshot(parts)
        else:
            seen = set()
            for message in parts:
                for event in message.keys:
                    self._take_key(message, event, seen)
                for life in message.workers:
                    self._take_life(message, life)
        if self.first is None:
            self.first = revision
        self.whole = max(self.whole or 0, revision)

    def _take_snapshot(self, parts):
        before = self.keys
        self.keys, self.workers, self._held = {}, {}, {}
        for message in parts:
            for event in message.keys:
                old = before.get(event.key)
                if event.deleted or event.revision > message.revision or event.key in self.keys:
                    self._complain(message, f"no snapshot: {event}")
                if old and old.revision > event.revision:
                    self._complain(message, f"{event.key} goes back from {old.revision} to {event.revision}")
                self.keys[event.key] = event
            for life in message.workers:
                self._take_life(message, life, change=False)

    def _take_key(self, message, event, seen):
        if event.revision != message.revision:
            self._complain(message, f"{event.key} of another revision, {event.revision}")
        if event.key in seen:
            self._complain(message, f"{event.key} twice in one revision")
        seen.add(event.key)
        self.changes[event.key, event.revision] = None if event.deleted else event.value
        old = self.keys.get(event.key)
        if event.deleted:
            self.keys.pop(event.key, None)
            return
        # A version above 1 was built on one that a listener from the start has heard of.
        expected = old.version + 1 if old else 1
        if event.version != expected and (old or self.snapshots):
            self._complain(message, f"{event.key} has version {event.version}, {expected} would be next")
        self.keys[event.key] = event

    def _take_life(self, message, life, change=True):
        if life.id in self._gone:
            self._complain(message, f"worker {life.id} is told of after it was gone")
        if life.incarnation < self._incarnation[life.id]:
            self._complain(message, f"worker {life.id} goes back to incarnation {life.incarnation}")
        self._incarnation[life.id] = life.incarnation
        if change:
            self.lives.append(life)
        old = self.workers.pop(life.id, None)
        if old and old.slot is not None:
            self._held.pop((old.type, old.slot), None)
        if life.gone:
            self._gone.add(life.id)
            return
        self.workers[life.id] = life
        if life.slot is not None:
            self._take_slot(message, life)

    def _take_slot(self, message, life):
        slot = life.type, life.slot
        if slot in self._held:
            self._complain(message, f"slot {slot} goes to worker {life.id} while {self._held[slot]} holds it")
        self._held[slot] = life.id
        holder, grant = self._grants.get(slot, (None, 0))
        if (holder, grant) != (life.id, life.grant) and life.grant <= grant:
            self._complain(message, f"slot {slot} goes to worker {life.id} with grant {life.grant}, {holder} had {grant}")
        self._grants[slot] = life.id, life.grant


def belongs(message, first):
    """It goes on with what the first part of a revision began."""
    return message.revision == first.revision and (message.kind == SNAPSHOT) == (first.kind == SNAPSHOT)


def check_writes(history, replay):
    """Every acknowledged write was told as a change at its revision, unless it went into a snapshot, and nothing was
    told that nobody asked for. Meant for listeners that opened before the first of these writes."""
    asked = {}
    for op in history.ops:
        if op.kind in WRITES and op.outcome != "not executed":
            asked.setdefault(op.key, set()).add(op.value)
    for op in history.ops:
        if op.kind in WRITES and op.code == "OK":
            yield from _check_write(op, replay)
    for (key, revision), value in replay.changes.items():
        if value is not None and value not in asked.get(key, ()):
            yield f"invented: {key} = {value} was told at {revision}"


def _check_write(op, replay):
    told = replay.changes.get((op.key, op.revision))
    if told is None:
        if replay.whole is None or op.revision > replay.whole:
            yield f"missing at the end: {op.key} = {op.value}, acknowledged at {op.revision}, told up to {replay.whole}"
        elif not any(op.revision <= revision for revision in replay.snapshots):
            yield f"gap: {op.key} = {op.value}, acknowledged at {op.revision}, was not told"
    elif told != op.value:
        yield f"changed: {op.key} was told as {told} at {op.revision}, {op.value} was acknowledged"


def check_state(replay, stored):
    """stored: key -> (value, version, revision) of what is there at the end."""
    told = {key: (event.value, event.version, event.revision) for key, event in replay.keys.items()}
    for key in sorted(told.keys() | stored.keys()):
        if told.get(key) != stored.get(key):
            yield f"state differs: {key} was told as {told.get(key)}, there is {stored.get(key)}"


def check_workers(replay, listed, expired):
    """listed: id -> Life of those there at the end. expired: ids that had to expire, each once; nobody else may."""
    for worker in sorted(replay.workers.keys() | listed.keys()):
        told, there = replay.workers.get(worker), listed.get(worker)
        if told is None or there is None or told[:6] != there[:6]:
            yield f"workers differ: {worker} was told as {told}, there is {there}"
    counted = collections.Counter(life.id for life in replay.lives if life.expired)
    for worker in sorted(counted.keys() | set(expired)):
        wanted = 1 if worker in expired else 0
        if counted[worker] != wanted:
            yield f"worker {worker} was told to have expired {counted[worker]} times, {wanted} wanted"
