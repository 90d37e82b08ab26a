"""An etcd that applies and loses the answer, delays one attempt past the next, or cannot be reached by one member."""
import os
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
import stubs  # noqa: E402
from cluster import Kill, wait_until  # noqa: E402
from etcd_fault import EtcdFault  # noqa: E402
from failover import FailoverTest  # noqa: E402
from workload import Load  # noqa: E402

TTL, SHORT_TTL = 10, 5  # the short one is waited for
COMMIT = {"path": "/v3/kv/txn", "key": "/state/commit"}
TAKEOVER = {"path": "/v3/kv/txn", "key": "/state/history/"}


class FaultyEtcd(FailoverTest):
    def setUp(self):
        super().setUp()
        self.kv = stubs.load("baton.v1.kv_pb2")

    def fault_in_front(self, etcd, raw=False):
        fault = EtcdFault("http://" + etcd.etcd[0], raw=raw)
        fault.__enter__()
        self.addCleanup(fault.__exit__, None, None, None)
        return fault

    def start(self, faults=1, raw=False, ttl=TTL, **options):
        """A cluster whose members reach etcd through fault proxies: one for all, or one each."""
        etcd = self.cluster(members=0, proxies=0)
        fronts = [self.fault_in_front(etcd, raw) for _ in range(faults)]
        cluster = self.cluster(etcd=0, etcd_urls=[front.url for front in fronts], ttl=ttl, **options)
        cluster.etcd = etcd.etcd
        return cluster, dict(zip(cluster.members, fronts)) if faults > 1 else fronts[0]


class LostAnswers(FaultyEtcd):
    def put_once(self, cluster, key):
        """A put is answered, and was done exactly once."""
        stub = cluster.stub(cluster.proxy)
        put = stub.Put(self.kv.PutRequest(key=key, value=b"v"), timeout=60)
        kv = stub.Get(self.kv.GetRequest(key=key), timeout=60).kv
        self.assertEqual((kv.value, kv.version, kv.mod_revision), (b"v", 1, put.revision))

    def test_commit_applied_and_answer_lost(self):
        cluster, fault = self.start()
        before = cluster.wait_leader()
        for i in range(5):
            rule = fault.add("drop-reply", **COMMIT)
            self.put_once(cluster, b"lost/%d" % i)
            rule.wait_done()
        with Load(cluster.proxy) as load:
            for _ in range(10):
                fault.add("drop-reply", **COMMIT).wait_done()
                load.wait_progress(puts=20)
            load.stop()
        self.assert_sound(load, cluster)
        self.assertEqual(cluster.wait_leader(), before, "a lost answer is no reason to give up leadership")

    def test_answers_lost_by_grpc(self):
        """The same on the way that is taken without a proxy of HTTP/1.1 in between."""
        cluster, fault = self.start(raw=True, member_args=["--etcd-transport=grpc"])
        with Load(cluster.proxy) as load:
            for i in range(10):
                fault.lose_answers()
                wait_until("an answer was lost", lambda n=i: fault.lost > n)
                load.wait_progress(puts=20)
            load.stop()
        self.assert_sound(load, cluster)

    def test_attempt_delayed_past_the_next(self):
        cluster, fault = self.start()
        with Load(cluster.proxy) as load:
            for _ in range(5):
                fault.add("delay-request", seconds=1.0, **COMMIT).wait_done()
                load.wait_progress(puts=20)
            load.stop()
        self.assert_sound(load, cluster)

    def test_commit_that_arrives_after_its_leader_died(self):
        cluster, fault = self.start()
        with Load(cluster.proxy) as load:
            for _ in range(2):
                late = fault.add("delay-request", seconds=None, **COMMIT)
                late.wait_hits()
                killed = self.strike(cluster, load, cluster.kill_leader)
                late.release()
                late.wait_done()
                cluster.restart(killed.name)
                load.wait_progress(puts=20)
            load.stop()
        self.assert_sound(load, cluster)

    def test_takeover_applied_and_answer_lost(self):
        cluster, fault = self.start()
        _, epoch = cluster.wait_leader()
        with Load(cluster.proxy) as load:
            rule = fault.add("drop-reply", **TAKEOVER)
            killed = self.strike(cluster, load, cluster.kill_leader)
            rule.wait_done()
            cluster.restart(killed.name)
            load.stop()
        self.assert_sound(load, cluster)
        self.assertEqual(cluster.wait_leader()[1], epoch + 1, "the member whose takeover was applied leads")

    def test_every_connection_cut(self):
        cluster, fault = self.start()
        before = cluster.wait_leader()
        with Load(cluster.proxy) as load:
            for _ in range(3):
                fault.listen_off()
                fault.listen_on()
                load.wait_progress(puts=50)
            load.stop()
        self.assert_sound(load, cluster)
        self.assertEqual(cluster.wait_leader(), before, "a moment without etcd is no reason to give up leadership")


class CutOff(FaultyEtcd):
    def test_leader_cut_off_from_etcd(self):
        cluster, faults = self.start(faults=3, ttl=SHORT_TTL)

        def cut():
            name, epoch = cluster.wait_leader()
            at = time.monotonic()
            faults[name].freeze()
            return Kill("cut off", name, at, epoch)
        self.fail_over(cluster, [cut] * 2, SHORT_TTL, lambda fault: faults[fault.name].thaw())

    def test_keepalives_lost(self):
        """For less than a TTL: nothing happens. For good: one clean failover."""
        cluster, faults = self.start(faults=3, ttl=SHORT_TTL)
        name, epoch = cluster.wait_leader()
        with Load(cluster.proxy) as load:
            short = faults[name].add("blackhole", path="/v3/lease/keepalive", count=1)
            short.wait_hits()
            short.release()
            load.wait_progress()
            self.assertEqual(cluster.wait_leader(), (name, epoch))
            lost = faults[name].add("blackhole", path="/v3/lease/keepalive", count=1000)
            other, newer = cluster.wait_leader(above_epoch=epoch)
            self.assertEqual(newer, epoch + 1)
            self.assertNotEqual(other, name)
            lost.release()
            faults[name].clear()
            load.wait_progress()
            wait_until("the deposed leader queues again", lambda: len(cluster.election_queue()) == 3)
            load.stop()
        self.assert_sound(load, cluster)
        self.assertEqual(cluster.wait_leader(), (other, newer), "one failover, no more")


if __name__ == "__main__":
    unittest.main(verbosity=2)
