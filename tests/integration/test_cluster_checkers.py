"""The checkers of tests/lib find what they are there for: each kind of lie in a history is told to one."""
import collections
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
import history  # noqa: E402
from heard import EVENTS, PROGRESS, QUIET, SNAPSHOT, Key, Life, Replay, Told  # noqa: E402
from heard import check_state, check_workers, check_writes  # noqa: E402

Leadership = collections.namedtuple("Leadership", "epoch")


def op(kind, key, value, begin, end, outcome="done", revision=0, epoch=0):
    code = "OK" if outcome == "done" else "UNAVAILABLE"
    return history.Op(1, kind, key, value, begin, end, code, outcome, revision, epoch, "")


class Checkers(unittest.TestCase):
    def assert_finds(self, word, problems):
        problems = list(problems)
        self.assertEqual(len(problems), 1, problems)
        self.assertIn(word, problems[0])

    def test_unique_keys(self):
        seen = history.History([op("put", "a", 1, 0, 1, revision=5), op("put", "b", 2, 0, 1, "unknown"),
                                op("put", "c", 3, 0, 1, "not executed")])
        sound = {"a": (1, 1, 5)}
        self.assertEqual(list(history.check_unique_keys(seen, sound)), [])
        self.assertEqual(list(history.check_unique_keys(seen, {**sound, "b": (2, 1, 6)})), [])
        self.assert_finds("lost: a", history.check_unique_keys(seen, {}))
        self.assert_finds("changed: a", history.check_unique_keys(seen, {"a": (9, 1, 5)}))
        self.assert_finds("moved: a", history.check_unique_keys(seen, {"a": (1, 1, 6)}))
        self.assert_finds("doubled: a", history.check_unique_keys(seen, {"a": (1, 2, 5)}))
        self.assert_finds("invented: z", history.check_unique_keys(seen, {**sound, "z": (1, 1, 7)}))
        self.assert_finds("refused", history.check_unique_keys(seen, {**sound, "c": (3, 1, 7)}))

    def test_counter(self):
        seen = history.History([op("add", "n", 1, 0, 1), op("add", "n", 2, 1, 2), op("add", "n", 3, 2, 3, "unknown")])
        self.assertEqual(list(history.check_counter(seen, 2)) + list(history.check_counter(seen, 3)), [])
        self.assert_finds("counter is 1", history.check_counter(seen, 1))
        self.assert_finds("counter is 4", history.check_counter(seen, 4))

    def test_registers(self):
        writes = [op("write", "r", 1, 0, 1), op("write", "r", 2, 2, 4), op("write", "r", 3, 9, 10, "unknown")]

        def check(*reads):
            return list(history.check_registers(history.History(writes + list(reads))))
        self.assertEqual(check(op("read", "r", 0, 0, 1), op("read", "r", 1, 2, 3), op("read", "r", 2, 5, 6),
                               op("read", "r", 3, 11, 12), op("read", "r", 3, 13, 14)), [])
        self.assert_finds("after 2 had been written", check(op("read", "r", 1, 5, 6)))
        self.assert_finds("before it was written", check(op("read", "r", 3, 5, 6)))
        self.assert_finds("after 2 had been read", check(op("read", "r", 2, 2.1, 2.2), op("read", "r", 1, 2.3, 2.4)))
        self.assert_finds("after 3 had been read", check(op("read", "r", 3, 11, 12), op("read", "r", 2, 13, 14)))

    def test_epochs(self):
        sound = [op("read", "r", 1, 0, 1, epoch=1), op("read", "r", 1, 0.5, 3, epoch=2), op("read", "r", 1, 2, 4, epoch=1)]
        self.assertEqual(list(history.check_epochs_seen(history.History(sound))), [])
        late = sound + [op("read", "r", 1, 5, 6, epoch=1)]
        self.assert_finds("epoch 1", history.check_epochs_seen(history.History(late)))
        self.assertEqual(list(history.check_leaderships([Leadership(3), Leadership(2)])), [])
        for epochs in ((2, 2), (2, 3), (4, 2)):
            self.assert_finds("follows epoch", history.check_leaderships(list(map(Leadership, epochs))))

    def test_errors_and_gaps(self):
        seen = history.History([op("put", "a", 1, 0, 1), op("put", "b", 1, 1, 9), op("put", "c", 1, 3, 5),
                                op("put", "d", 1, 2, 3, "unknown")])
        self.assertEqual(len(list(history.check_errors(seen))), 1)
        self.assertEqual(seen.gap_after(2), 3)
        self.assertIsNone(seen.gap_after(4))
        self.assertEqual([history.percentile(range(1, 101), share) for share in (0.5, 0.99, 1)], [50, 99, 100])


def events(revision, *keys, stream=0, epoch=1, **more):
    return Told(stream, EVENTS, revision, epoch, "c", keys, **more)


def wrote(key, value, revision, version=1, deleted=False):
    return Key(key, value, version, revision, deleted)


class HeardByWatchers(unittest.TestCase):
    """Each fault that a watch could have is planted in a record, and found."""

    def sound(self):
        return [Told(0, PROGRESS, 4, 1, "c"),
                events(5, wrote("a", 1, 5)),
                events(6, wrote("a", 2, 6, 2), more=True), events(6, wrote("b", 1, 6)),
                Told(0, PROGRESS, 9, 1, "c"),
                events(10, wrote("c", 1, 10), stream=1, epoch=2, more=True),  # cut, so it is told anew
                events(10, wrote("c", 1, 10), stream=2, epoch=3, more=True),
                events(10, wrote("b", None, 10, deleted=True), stream=2, epoch=3),
                Told(3, SNAPSHOT, 20, 4, "c", [wrote("a", 3, 12, 3)], restart=True, more=True),
                Told(3, SNAPSHOT, 20, 4, "c", [wrote("d", 1, 20)]),
                events(21, wrote("d", 2, 21, 2), stream=3, epoch=4), events(22, wrote("b", 7, 22), stream=3, epoch=4)]

    def assert_finds(self, word, told):
        problems = Replay(told).problems
        self.assertTrue(any(word in problem for problem in problems), problems)

    def planted(self, place, *instead):
        told = self.sound()
        told[place:place + 1] = instead
        return told

    def test_sound(self):
        replay = Replay(self.sound())
        self.assertEqual(replay.problems, [])
        self.assertEqual((replay.first, replay.whole, replay.epoch, replay.snapshots), (4, 22, 4, [20]))
        self.assertEqual({key: event.value for key, event in replay.keys.items()}, {"a": 3, "d": 2, "b": 7})
        self.assertEqual(replay.changes["a", 6], 2)
        self.assertIsNone(replay.changes["b", 10])

    def test_gaps_and_repeats(self):
        told = self.sound()
        self.assert_finds("version 2, 1 would be next", [told[8], told[9], events(21, wrote("e", 1, 21, 2), stream=3, epoch=4)])
        self.assert_finds("version 4, 3 would be next", told[:5] + [events(10, wrote("a", 4, 10, 4))])
        self.assert_finds("told again", self.planted(1, told[1], told[1]))
        self.assert_finds("told again", [*told, events(22, wrote("z", 1, 22), stream=4, epoch=4)])
        self.assert_finds("told again", self.planted(3, told[3], told[1]))
        self.assert_finds("twice in one revision", self.planted(1, events(5, wrote("a", 1, 5), wrote("a", 2, 5, 2))))
        self.assert_finds("another revision", self.planted(1, events(5, wrote("a", 1, 4))))
        self.assert_finds("amid", self.planted(3, events(7, wrote("b", 1, 7))))
        self.assert_finds("amid", self.planted(3, Told(0, PROGRESS, 9, 1, "c")))

    def test_going_back(self):
        told = self.sound()
        self.assert_finds("epoch 3 after 4", [*told, events(23, epoch=3, stream=3)])
        self.assert_finds("cluster other", [*told, Told(4, PROGRESS, 23, 4, "other")])
        self.assert_finds("progress after 22", [*told, Told(3, PROGRESS, 21, 4, "c")])
        self.assert_finds("quiet after 22", [*told, Told(3, QUIET, 21, 4, "c")])
        self.assert_finds("a snapshot older", [*told, Told(4, SNAPSHOT, 21, 4, "c", restart=True)])
        self.assert_finds("goes back from 21", [*told, Told(4, SNAPSHOT, 22, 4, "c", [wrote("d", 1, 20)], restart=True)])

    def test_bad_snapshots(self):
        told = self.sound()
        self.assert_finds("without its start", self.planted(8, told[8]._replace(restart=False)))
        self.assert_finds("not the start", self.planted(9, told[9]._replace(restart=True)))
        self.assert_finds("not the start", self.planted(10, told[10]._replace(restart=True)))
        self.assert_finds("no snapshot", self.planted(9, told[9]._replace(keys=[wrote("d", 1, 21)])))
        self.assert_finds("no snapshot", self.planted(9, told[9]._replace(keys=[wrote("a", 3, 12, 3)])))

    def test_writes(self):
        def check(*ops, told=None):
            return list(check_writes(history.History(ops), Replay(told or self.sound())))
        asked = [op("put", "a", 1, 0, 1, revision=5), op("write", "a", 2, 0, 1, revision=6), op("put", "b", 1, 0, 1, "unknown"),
                 op("add", "c", 1, 0, 1, revision=10), op("put", "d", 2, 0, 1, "unknown"), op("put", "b", 7, 0, 1, revision=22)]
        self.assertEqual(check(*asked), [])
        self.assertEqual(check(*asked, op("put", "a", 3, 0, 1, revision=12)), [])  # went into the snapshot
        self.assertIn("gap: z", check(*asked, op("put", "z", 1, 0, 1, revision=21))[0])
        self.assertIn("gap: z", check(*asked[:3], op("put", "z", 1, 0, 1, revision=6), told=self.sound()[:5])[0])
        self.assertIn("missing at the end: z", check(*asked, op("put", "z", 1, 0, 1, revision=23))[0])
        self.assertIn("changed: a was told as 1", check(*asked, op("put", "a", 9, 0, 1, revision=5))[0])
        self.assertIn("invented: b", check(*asked[:2], *asked[3:5])[0])
        refused = [op("put", "b", 1, 0, 1, "not executed"), *asked[:2], *asked[3:]]
        self.assertIn("invented: b = 1", check(*refused)[0])

    def test_state(self):
        def check(stored):
            return list(check_state(Replay(self.sound()), stored))
        there = {"a": (3, 3, 12), "d": (2, 2, 21), "b": (7, 1, 22)}
        self.assertEqual(check(there), [])
        self.assertEqual(len(check({**there, "z": (1, 1, 22)})), 1)
        self.assertEqual(len(check({**there, "a": (3, 3, 13)})), 1)
        self.assertEqual(len(check({"a": there["a"], "d": there["d"]})), 1)


class HeardOfWorkers(unittest.TestCase):
    one = Life(1, 1, "w", "h:1", 0, 1, 5)
    two = Life(2, 2, "w", "h:2", 1, 2, 6)
    gone = one._replace(gone=True, expired=True, revision=8)
    heir = Life(3, 3, "w", "h:3", 0, 3, 9)

    def told(self, *lives):
        return [Told(0, SNAPSHOT, 4, 1, "c", restart=True),
                *(Told(0, EVENTS, revision, 1, "c", (), [life]) for revision, life in enumerate(lives, 5))]

    def assert_finds(self, word, *lives):
        problems = Replay(self.told(*lives)).problems
        self.assertEqual(len(problems), 1, problems)
        self.assertIn(word, problems[0])

    def test_sound(self):
        again = self.two._replace(incarnation=4, revision=10)
        replay = Replay(self.told(self.one, self.two, self.gone, self.heir, again))
        self.assertEqual(replay.problems, [])
        self.assertEqual(replay.workers, {2: again, 3: self.heir})
        self.assertEqual(list(check_workers(replay, {2: again, 3: self.heir}, expired=[1])), [])

    def test_planted(self):
        self.assert_finds("while 1 holds it", self.one, self.heir)
        self.assert_finds("grant 1, 1 had 1", self.one, self.gone, self.heir._replace(grant=1))
        self.assert_finds("after it was gone", self.one, self.gone, self.gone)
        self.assert_finds("after it was gone", self.one, self.gone, self.one._replace(slot=None))
        self.assert_finds("goes back to incarnation", self.one._replace(incarnation=2), self.one)

    def test_end(self):
        def check(listed, expired):
            return list(check_workers(Replay(self.told(self.one, self.two, self.gone)), listed, expired))
        there = {2: self.two}
        self.assertEqual(check(there, [1]), [])
        self.assertIn("workers differ: 2", check({}, [1])[0])
        self.assertIn("workers differ: 2", check({2: self.two._replace(slot=7)}, [1])[0])
        self.assertIn("workers differ: 9", check({**there, 9: self.two._replace(id=9)}, [1])[0])
        self.assertIn("worker 1 was told to have expired 1 times, 0", check(there, [])[0])
        self.assertIn("worker 2 was told to have expired 0 times, 1", check(there, [1, 2])[0])


if __name__ == "__main__":
    unittest.main(verbosity=2)
