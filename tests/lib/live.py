"""A cluster that is used in every way at once while faults strike it: a load of puts, a watcher, a subscriber, and
workers; and what must be true of all that in the end."""
import itertools
import signal

import heard
from cluster import wait_until
from fleet import Fleet, Workers
from listeners import Subscriber, Watcher
from workload import Load


class Live:
    """with Live(cluster) as live: live.kill() ...; live.problems()."""

    def __init__(self, cluster, clients=8, workers=200, ttl_ms=0):
        self.cluster, self.faults = cluster, 0
        self.load = Load(cluster.proxy, clients)
        self.prefix = f"load/{self.load.run}/"
        self.subscriber = Subscriber(cluster.proxy, self.prefix)
        self.listeners = [Watcher(cluster.proxy, self.prefix), self.subscriber]
        self.fleet = Fleet(cluster.proxy, workers, ttl_ms)
        self.expired = []  # ids that had to

    def __enter__(self):
        for listener in self.listeners:
            listener.start().wait_open()
        self.fleet.__enter__()
        self.load.__enter__()
        return self

    def __exit__(self, *_):
        self.load.stop()
        self.fleet.__exit__()
        for listener in self.listeners:
            listener.stop()

    # Faults. Each returns when puts and heartbeats are answered again, and the cluster is whole.

    def _settle(self):
        self.faults += 1
        self.load.wait_progress(puts=10)
        self.fleet.wait_beats(1)
        wait_until("all members queue", lambda: len(self.cluster.election_queue()) == len(self.cluster.members))

    def _depose(self, fault):
        _, epoch = self.cluster.wait_leader()
        done = fault()
        self.cluster.wait_leader(above_epoch=epoch)
        return done

    def kill(self, hard=False):
        self.cluster.restart(self._depose(lambda: self.cluster.kill_leader(hard)).name)
        self._settle()

    def transfer(self):
        self._depose(self.cluster.transfer_leader)
        self._settle()

    def restart_etcd(self):
        etcd = self.cluster.process("etcd1")
        etcd.signal(signal.SIGKILL)
        etcd.wait_gone(10)
        self.cluster.restart("etcd1")
        self.cluster.wait_leader()
        self._settle()

    def strike(self, kills, transfers, etcd_restarts):
        """So many of each, mixed."""
        left = [(kills, self.kill), (transfers, self.transfer), (etcd_restarts, self.restart_etcd)]
        turns = sorted(((number + 0.5) / count, index) for index, (count, _) in enumerate(left) for number in range(count))
        for _, index in turns:
            left[index][1]()

    def let_one_die(self, ttl_ms=3000):
        """A worker that holds a slot falls silent; the slot goes to another when it has expired, and no sooner."""
        client, numbers = Workers(self.cluster.proxy), itertools.count(1)
        dead = client.add(f"dead:{self.faults + 1}", kind="slotted", ttl_ms=ttl_ms, slot=True)
        self.expired.append(dead.id)

        def inherit():
            worker = client.add(f"heir:{next(numbers)}", kind="slotted", slot=True)
            client.delete(worker)
            return worker.slot == dead.slot and worker
        heir = wait_until("the slot of a dead worker is given out", inherit)
        client.close()
        return dead, heir

    # The end.

    def problems(self):
        """Ends the load, and says what is wrong with all that was told until then."""
        history = self.load.stop()
        found = self.load.problems(self.cluster)
        last = max(op.revision for op in history.ops if op.kind in heard.WRITES and op.code == "OK")
        stored = self.load.stored(self.cluster.proxy)
        for listener in self.listeners:
            listener.wait_told(last)
            replay = heard.Replay(listener.told)
            of_it = replay.problems + list(heard.check_writes(history, replay)) + list(heard.check_state(replay, stored))
            found += [f"{type(listener).__name__}: {problem}" for problem in of_it]
        return found + self._problems_of_workers(replay) + self._problems_of_leaders()

    def _problems_of_workers(self, replay):
        client = Workers(self.cluster.proxy)
        listed = client.listed()
        client.close()
        return [f"{reason}: worker {worker}" for worker, reason in self.fleet.refused] + list(
            heard.check_workers(replay, listed, self.expired))

    def _problems_of_leaders(self):
        """As the subscriber was told of them; the first message of each stream repeats the last."""
        told = self.subscriber.leaders
        if [epoch for _, epoch in told] != sorted(epoch for _, epoch in told):
            return [f"leaders were told as {told}"]
        led = {one.epoch: one.leader_id for one in self.cluster.history()}
        return [f"{name} was told to lead in epoch {epoch}, {led.get(epoch)} did" for name, epoch in told
                if led.get(epoch) != name]

    def summary(self):
        """Lines for people."""
        lines = [f"{self.faults} faults, {len(self.load.history().ops)} calls"]
        for listener in self.listeners:
            told = sum(message.kind == heard.EVENTS for message in listener.told)
            lines.append(f"  {type(listener).__name__} heard {told} messages of changes on {listener.streams + 1} streams")
        lines.append(f"  {self.fleet.beats} heartbeats of {len(self.fleet.workers)} workers, {len(self.fleet.refused)} refused; "
                     f"{len(self.expired)} workers had to expire")
        return "\n".join(lines)
