"""The leader compacts etcd's history, unless it is somebody else's too; members that were away list the state anew."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
import stubs  # noqa: E402
from cluster import ClusterTest, wait_until  # noqa: E402
from small_etcd import SmallEtcd  # noqa: E402

kv = stubs.load("baton.v1.kv_pb2")


class Compaction(ClusterTest):
    def set_up(self, *member_args):
        self.etcd = SmallEtcd(self.cluster(members=0, proxies=0), 2048)
        self.baton = self.cluster(etcd=0, etcd_urls=[self.etcd.url], members=2, ttl=10, member_args=member_args)
        self.leader = self.baton.wait_leader()
        self.stub = self.baton.stub(self.baton.proxy)

    def write(self, rounds, size=16 << 10):
        """Overwrites a few keys; what they hold then."""
        state = {}
        for number in range(rounds):
            key, value = b"key%d" % (number % 20), os.urandom(size)
            self.stub.Put(kv.PutRequest(key=key, value=value), timeout=60)
            state[key] = value
        return state

    def state_of(self, member, min_revision):
        request = kv.RangeRequest(consistency=kv.CONSISTENCY_STALE, min_revision=min_revision)
        return {item.key: item.value for item in self.baton.stub(self.baton.members[member]).Range(request, timeout=60).kvs}

    def compacted(self):
        return self.baton.metric(self.leader[0], "baton_meta_compacted_revision")

    def is_compacted(self, revision):
        """Whether etcd has forgotten what was there at a revision."""
        return self.etcd.call("/v3/kv/range", key="AA==", revision=revision) is None

    def test_growth_is_compacted_and_who_was_away_comes_back(self):
        self.set_up("--compact-growth=2MiB", "--compact-every=1h", "--compact-keep=1h")
        standby = next(name for name in self.baton.members if name != self.leader[0])
        self.write(20)
        away = int(self.stub.Get(kv.GetRequest(key=b"key1"), timeout=60).revision)
        wait_until("the standby has it", lambda: self.state_of(standby, away))
        self.baton.run_script("stop", standby)
        listings = self.baton.log(standby).count("listed the state anew")
        state = {}

        def gone():
            state.update(self.write(100))
            return self.is_compacted(away + 1)
        wait_until("what the standby has missed is compacted", gone)
        wait_until("its metric says so", lambda: self.compacted() > away)
        history = self.etcd.ctl("get", "--prefix", self.baton.prefix + "state/history/", "--keys-only").split()
        self.assertTrue(history, "living keys are not touched")
        self.baton.restart(standby)
        now = int(self.stub.Get(kv.GetRequest(key=b"key1"), timeout=60).revision)
        self.assertEqual(self.state_of(standby, now), state)
        self.assertGreater(self.baton.log(standby).count("listed the state anew"), listings)
        self.assertEqual(self.baton.wait_leader(), self.leader)
        # it can lead with what it has
        self.baton.kill_leader()
        self.baton.wait_leader(above_epoch=self.leader[1])
        self.assertEqual({item.key: item.value for item in self.stub.Range(kv.RangeRequest(), timeout=60).kvs}, state)

    def test_time_compacts_what_is_old_enough(self):
        self.set_up("--compact-every=1s", "--compact-keep=1s", "--watch-history=0")
        revision = self.stub.Put(kv.PutRequest(key=b"key", value=b"1"), timeout=60).revision
        self.stub.Put(kv.PutRequest(key=b"key", value=b"1"), timeout=60)
        # a watch that starts from the last change is still served
        self.stub.Put(kv.PutRequest(key=b"key", value=b"2"), timeout=60)
        wait_until("the first value is forgotten", lambda: self.is_compacted(revision))
        self.assertEqual(self.stub.Get(kv.GetRequest(key=b"key"), timeout=60).kv.value, b"2")
        self.assertEqual(self.baton.wait_leader(), self.leader)

    def test_the_history_of_others_is_theirs(self):
        self.set_up("--compact-every=1s", "--compact-keep=0s", "--watch-history=0")
        self.etcd.put(b"zzz", b"of somebody else")
        revision = self.etcd.revision()
        for value in (b"1", b"2"):
            self.stub.Put(kv.PutRequest(key=b"key", value=value), timeout=60)
        wait_until("it says why it does not compact",
                   lambda: "are not Baton's, as 'zzz'" in self.baton.log(self.leader[0]))
        self.assertFalse(self.is_compacted(revision))
        self.assertLess(self.compacted(), revision)


if __name__ == "__main__":
    unittest.main()
