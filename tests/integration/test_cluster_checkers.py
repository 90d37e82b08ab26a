"""The checkers of tests/lib find what they are there for: each kind of lie in a history is told to one."""
import collections
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
import history  # noqa: E402

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


if __name__ == "__main__":
    unittest.main(verbosity=2)
