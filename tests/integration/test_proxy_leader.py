"""Following the leader: whom the proxy believes, and what becomes of calls when the leader changes."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from h2_backend import Backend, Gate, echo, in_turn, kill, not_leader, silent, trailers_only
from h2_backend_member import LIST, WATCH
from proxy_harness import GET, PARKED, PUT, STREAM, UNARY, ProxyTest, main


class LeaderTest(ProxyTest):
    def goes_to(self, client, member, path=UNARY):
        """A new call is answered by this member."""
        before = member.count(path)
        self.assert_ok(client.unary(path))
        return member.count(path) == before + 1

    def wait_goes_to(self, client, member):
        self.lab.wait(lambda: self.goes_to(client, member), f"new calls go to {member.name}")

    def assert_goes_to(self, client, member, calls=3):
        for _ in range(calls):
            self.assertTrue(self.goes_to(client, member), f"a call did not go to {member.name}")

    def heard(self, proxy, *members):
        """What the members said last has been read: each got an answer to a PING sent after it."""
        for member in members:
            before = {peer: peer.ping_acks for peer in member.live_peers()}
            member.each_peer(lambda peer: peer.send_ping())
            self.lab.wait(lambda: all(peer.closed or peer.ping_acks > n for peer, n in before.items()),
                          f"the proxy answers PINGs of {member.name}")


class WatchTest(LeaderTest):
    def test_watches_every_member(self):
        cluster, _, _ = self.pair(count=3)
        for member in cluster.members:
            self.lab.wait(lambda: len(member.watchers()) >= 1, f"{member.name} is watched")
        self.assertGreaterEqual(sum(m.count(LIST) for m in cluster.members), 1)

    def test_new_epoch(self):
        cluster, _, client = self.pair(count=3)
        self.assert_goes_to(client, cluster[0])
        cluster.lead(2)
        self.wait_goes_to(client, cluster[2])
        self.assert_goes_to(client, cluster[2])

    def test_new_epoch_told_by_one_member_alone(self):
        cluster, _, client = self.pair(count=3)
        cluster[2].says(known=True, id="m3", addr=cluster[2].addr, epoch=5)
        self.wait_goes_to(client, cluster[2])
        self.heard(None, *cluster.members)
        self.assert_goes_to(client, cluster[2])

    def test_back_and_forth(self):
        cluster, _, client = self.pair(count=3)
        for i in (1, 2, 0, 1, 0):
            cluster.lead(i)
            self.wait_goes_to(client, cluster[i])
        self.assert_goes_to(client, cluster[0])

    def test_same_member_in_a_new_epoch(self):
        cluster, _, client = self.pair(count=3)
        cluster.lead(0)
        self.heard(None, *cluster.members)
        self.assert_goes_to(client, cluster[0])

    def test_lower_epoch_is_ignored(self):
        cluster, _, client = self.pair(count=3)
        cluster.lead(0, epoch=10)
        self.wait_goes_to(client, cluster[0])
        cluster[1].says(id="m2", addr=cluster[1].addr, epoch=9)
        cluster[2].says(id="m2", addr=cluster[1].addr, epoch=9)
        self.heard(None, cluster[1], cluster[2])
        self.assert_goes_to(client, cluster[0])

    def test_members_that_disagree(self):
        cluster = self.cluster(3, leader=None)
        for i, epoch in enumerate((3, 8, 5)):
            cluster[i].says(known=True, id=cluster[i].name, addr=cluster[i].addr, epoch=epoch)
        client = self.client(self.proxy(cluster))
        self.wait_goes_to(client, cluster[1])
        self.assert_goes_to(client, cluster[1])

    def test_end_told_by_a_follower_is_ignored(self):
        cluster, _, client = self.pair(count=3)
        self.wait_goes_to(client, cluster[0])
        cluster[1].says(known=False, id="", addr="")
        cluster[2].says(known=False, id="", addr="")
        self.heard(None, cluster[1], cluster[2])
        self.assert_goes_to(client, cluster[0])

    def test_end_told_by_the_leader(self):
        cluster, proxy, client = self.pair(count=3)
        cluster[0].says(known=False, id="", addr="")
        self.lab.wait(lambda: proxy.get("/readyz?leader")[0] != 200, "the end is known")
        call = client.start(UNARY)
        proxy.wait_metric(PARKED, 1)
        # The followers repeat the old epoch each second; that does not bring it back.
        for member in (cluster[1], cluster[2]):
            member.says(revision=99)
        self.heard(None, cluster[1], cluster[2])
        self.assertEqual(cluster.count(UNARY), 0)
        cluster.lead(1)
        self.assert_ok(client.finish(call))

    def test_watch_that_ends_is_opened_again(self):
        cluster, _, client = self.pair(count=3)
        before = [member.count(WATCH) for member in cluster.members]
        for member in cluster.members:
            self.lab.wait(member.watchers, "watched")
            member.end_watches()
        for member, count in zip(cluster.members, before):
            self.lab.wait(lambda: member.count(WATCH) > count, f"{member.name} is watched again")
        cluster.lead(1)
        self.wait_goes_to(client, cluster[1])

    def test_silent_follower_harms_nobody(self):
        cluster, _, client = self.pair(count=3)
        self.lab.wait(cluster[1].watchers, "watched")
        cluster[1].freeze()
        self.assert_goes_to(client, cluster[0])
        cluster.lead(2)
        self.wait_goes_to(client, cluster[2])

    def test_member_that_does_not_know_the_service(self):
        cluster = self.cluster(3)
        cluster[1].on(WATCH, trailers_only(12)).on(LIST, trailers_only(12))
        cluster[2].on(WATCH, self._garbage).on(LIST, self._garbage)
        client = self.client(self.proxy(cluster))
        self.assert_goes_to(client, cluster[0])
        self.assertLess(cluster[1].count(WATCH), 100)

    @staticmethod
    async def _garbage(call):
        call.send_headers([(":status", "200"), ("content-type", "application/grpc")])
        await call.send_data(b"\xff" * 3000)

    def test_reports_split_over_frames(self):
        cluster = self.cluster(1, leader=None)

        async def bytewise(call):
            call.send_headers([(":status", "200"), ("content-type", "application/grpc")])
            state = cluster[0].state.SerializeToString()
            body = b"\0" + len(state).to_bytes(4, "big") + state
            for i in range(len(body)):
                await call.send_data(body[i:i + 1])
        cluster.lead(0)
        cluster[0].on(WATCH, bytewise)
        client = self.client(self.proxy(cluster))
        self.assert_goes_to(client, cluster[0])


class MembersTest(LeaderTest):
    def test_one_seed_is_enough(self):
        cluster = self.cluster(3)
        client = self.client(self.proxy(cluster[0].addr))
        cluster.lead(2)
        self.wait_goes_to(client, cluster[2])
        for member in cluster.members:
            self.lab.wait(member.watchers, f"{member.name} is watched")

    def test_leader_that_was_listed_only_later(self):
        cluster = self.cluster(2)
        added = self.cluster(1, leader=None)[0]
        proxy = self.proxy(cluster)
        client = self.client(proxy)
        self.assert_goes_to(client, cluster[0])
        for member in (*cluster.members, added):
            member.listed = [(m.name, m.addr) for m in (*cluster.members, added)]
            member.says(known=True, id="m9", addr=added.addr, epoch=9)
        self.wait_goes_to(client, added)

    def test_seeds_that_are_down(self):
        cluster = self.cluster(3)
        cluster[0].refuse()
        cluster[1].mute = True
        cluster.lead(2)
        client = self.client(self.proxy(cluster))
        self.assert_goes_to(client, cluster[2])

    def test_seed_by_name(self):
        cluster = self.cluster(1)
        port = cluster[0].addr.rsplit(":", 1)[1]
        client = self.client(self.proxy(f"localhost:{port}"))
        self.assert_goes_to(client, cluster[0])

    def test_name_that_does_not_resolve(self):
        cluster = self.cluster(1)
        client = self.client(self.proxy(f"no-such-host.invalid:1,{cluster[0].addr}"))
        self.assert_goes_to(client, cluster[0])

    def test_endless_member_list(self):
        """A member that lists thousands of addresses: the proxy follows a bounded number of them."""
        cluster, proxy, client = self.pair(count=2)
        for member in cluster.members:
            member.listed = [(m.name, m.addr) for m in cluster.members]
            member.listed += [(f"x{i}", f"127.0.0.{2 + i // 250}:{1 + i % 250}") for i in range(3000)]
        before = sum(member.count(LIST) for member in cluster.members)
        cluster.lead(1)
        self.wait_goes_to(client, cluster[1])
        self.lab.wait(lambda: sum(m.count(LIST) for m in cluster.members) > before, "the list is read")
        self.assert_goes_to(client, cluster[1])
        self.assertLess(len(os.listdir(f"/proc/{proxy.process.pid}/fd")), 400)

    def test_endless_names(self):
        """Strings without measure in a report: it is ignored, the other members are believed."""
        cluster, _, client = self.pair(count=3)
        for size in (300, 70_000, 3_000_000):
            cluster[1].says(id="m" * size, epoch=50)
            cluster[2].says(addr="h" * size + ":1", epoch=60)
            self.heard(None, cluster[1], cluster[2])
        self.assert_goes_to(client, cluster[0])

    def test_member_that_comes_back(self):
        cluster, _, client = self.pair(count=3)
        cluster[0].refuse()
        cluster.lead(1)
        self.wait_goes_to(client, cluster[1])
        cluster[0].listen()
        cluster.lead(0)
        self.wait_goes_to(client, cluster[0])

    def test_dead_members_are_not_hammered(self):
        cluster, _, client = self.pair(count=2)
        cluster[1].on(WATCH, kill(when_ended=False))
        cluster[1].kill_connections()
        before = len(cluster[1].peers)
        self.lab.wait(lambda: len(cluster[1].peers) >= before + 2, "it is dialled again")
        self.assert_goes_to(client, cluster[0], 20)
        self.assertLess(len(cluster[1].peers) - before, 50)


class HintTest(LeaderTest):
    """Trailers `baton-leader` and `baton-epoch` of a refusal."""

    def hinted(self, addr, epoch, *, count=3):
        """The leader of epoch 5 refuses once and names another."""
        cluster = self.cluster(count, leader=None)
        cluster.lead(0, epoch=5)
        proxy = self.proxy(cluster)
        client = self.client(proxy)
        addr = cluster[addr].addr if isinstance(addr, int) else addr
        cluster[0].on(UNARY, in_turn(not_leader(addr, epoch), echo))
        return cluster, proxy, client

    def test_hint_to_a_member(self):
        cluster, _, client = self.hinted(1, 6)
        self.assert_ok(client.unary(UNARY), b"hello")
        self.assertEqual((cluster[0].count(UNARY), cluster[1].count(UNARY)), (1, 1))
        self.assert_goes_to(client, cluster[1])

    def test_hint_of_a_lower_epoch(self):
        cluster, _, client = self.hinted(1, 4)
        self.assert_ok(client.unary(UNARY))
        self.assertEqual((cluster[0].count(UNARY), cluster[1].count(UNARY)), (2, 0))

    def test_hint_to_an_address_that_is_not_listed(self):
        stranger = Backend(self.lab, "stranger")
        self.addCleanup(stranger.close)
        cluster, proxy, client = self.hinted(stranger.addr, 50)
        self.assert_ok(client.unary(UNARY))
        self.assertEqual(cluster[0].count(UNARY), 2)
        self.assert_ok(client.unary(UNARY))
        self.assertEqual(stranger.peers, [], "it was never dialled")

    def test_hints_that_are_nonsense(self):
        for addr, epoch in (("", "6"), ("nonsense", "6"), ("127.0.0.1:99999", "6"), (1, ""), (1, "x"),
                            (1, "-6"), (1, "99999999999999999999999"), ("a" * 2000 + ":1", "6")):
            cluster, _, client = self.hinted(addr, epoch)
            self.assert_ok(client.unary(UNARY))
            self.assertEqual(cluster[1].count(UNARY), 0, (addr, epoch))

    def test_hints_in_a_circle(self):
        """Two members that name each other: calls end by the park timeout, and not in a storm."""
        cluster = self.cluster(2)
        client = self.client(self.proxy(cluster, "--park-timeout", "1s"))
        cluster[0].on(UNARY, not_leader(cluster[1].addr, 1))
        cluster[1].on(UNARY, not_leader(cluster[0].addr, 1))
        self.assert_not_executed(client.unary(UNARY))
        self.assertLess(cluster.count(UNARY), 500)

    def test_hint_in_an_answer_of_success_changes_nothing(self):
        cluster, _, client = self.pair(count=2)

        async def boast(call):
            await call.until_request_ended()
            call.send_headers([(":status", "200"), ("content-type", "application/grpc"),
                               ("baton-leader", cluster[1].addr), ("baton-epoch", "77")])
            call.send_headers([("grpc-status", "0")], end=True)
        cluster[0].on(UNARY, in_turn(boast, echo))
        self.assert_ok(client.unary(UNARY))
        self.assert_goes_to(client, cluster[0])


class ClusterIdTest(LeaderTest):
    def liar(self, cluster, member, epoch=100, cluster_id="other"):
        member.says(cluster_id=cluster_id, known=True, id=member.name, addr=member.addr, epoch=epoch)

    def test_one_member_of_another_cluster(self):
        cluster, proxy, client = self.pair(count=3)
        self.assert_goes_to(client, cluster[0])
        self.liar(cluster, cluster[2])
        self.heard(proxy, cluster[2])
        self.assert_goes_to(client, cluster[0])

    def test_most_seeds_name_another_cluster(self):
        """Destroyed and created anew behind the proxy: epochs begin at 1 again."""
        cluster, proxy, client = self.pair(count=3)
        cluster.lead(0, epoch=40)
        self.wait_goes_to(client, cluster[0])
        for member in cluster.members:
            member.says(cluster_id="anew", known=True, id="m2", addr=cluster[1].addr, epoch=1)
        self.wait_goes_to(client, cluster[1])
        self.lab.wait(lambda: proxy.find_lines("anew"), "it is logged")
        self.assertEqual(len(proxy.find_lines("anew")), 1, proxy.log)

    def test_pinned(self):
        cluster = self.cluster(3, leader=None)
        for member in cluster.members:
            self.liar(cluster, member)
        proxy = self.proxy(cluster, "--cluster-id", "c1", ready=False)
        client = self.client(proxy)
        call = client.start(UNARY)
        for member in cluster.members:
            self.lab.wait(member.watchers, "watched")
        self.heard(proxy, *cluster.members)
        self.assertEqual(cluster.count(UNARY), 0)
        cluster[1].says(cluster_id="c1", addr=cluster[1].addr, id="m2", epoch=3, known=True)
        self.assert_ok(client.finish(call))
        self.assertEqual(cluster[1].count(UNARY), 1)

    def test_pinned_proxy_does_not_follow_the_majority(self):
        cluster = self.cluster(3)
        proxy = self.proxy(cluster, "--cluster-id", "c1")
        client = self.client(proxy)
        self.assert_goes_to(client, cluster[0])
        self.liar(cluster, cluster[1])
        self.liar(cluster, cluster[2])
        self.heard(proxy, cluster[1], cluster[2])
        self.assert_goes_to(client, cluster[0])


class HandoverTest(LeaderTest):
    """Calls in flight when a higher epoch appears elsewhere."""

    def test_reads_are_sent_again_after_the_grace(self):
        cluster, _, client = self.pair(count=2)
        cluster[0].on(GET, silent)
        call = client.start(GET)
        cluster[0].wait_calls(GET)
        cluster.lead(1)
        self.assert_ok(client.finish(call))
        self.assertEqual(cluster[1].count(GET), 1)
        old, = cluster[0].calls_of(GET)
        self.lab.wait(lambda: old.reset is not None, "the old attempt is reset")

    def test_mutations_keep_their_id(self):
        cluster, _, client = self.pair(count=2)
        cluster[0].on(PUT, silent)
        call = client.start(PUT)
        cluster[0].wait_calls(PUT)
        cluster.lead(1)
        self.assert_ok(client.finish(call))
        self.assertEqual(len({c.header("baton-request-id") for c in cluster.calls_of(PUT)}), 1)

    def test_grace_is_an_option(self):
        """With a long grace the old leader may still answer."""
        cluster, _, client = self.pair("--leader-grace", "60s", count=2)
        gate = Gate(self.lab)
        cluster[0].on(GET, gate)
        call = client.start(GET)
        cluster[0].wait_calls(GET)
        cluster.lead(1)
        self.wait_goes_to(client, cluster[1])
        gate.open()
        self.assert_ok(client.finish(call))
        self.assertEqual(cluster[1].count(GET), 0)

    def test_others_stay_until_the_old_side_ends_them(self):
        cluster, _, client = self.pair("--drain-timeout", "20s", count=2)
        gate = Gate(self.lab)
        cluster[0].on(UNARY, gate)
        cluster[0].on(GET, silent)
        call, read = client.start(UNARY), client.start(GET)
        cluster[0].wait_calls(UNARY)
        cluster[0].wait_calls(GET)
        cluster.lead(1)
        self.assert_ok(client.finish(read))  # by then the grace is over
        self.wait_goes_to(client, cluster[1])
        self.assertFalse(call.done)
        gate.open()
        self.assert_ok(client.finish(call), b"hello")
        self.assertEqual(cluster[0].count(UNARY), 1)

    def test_others_end_with_the_drain_timeout(self):
        cluster, _, client = self.pair("--drain-timeout", "1s", count=2)
        cluster[0].on(UNARY, silent).on(STREAM, silent)
        call, stream = client.start(UNARY), client.open(STREAM)
        cluster[0].wait_calls(UNARY)
        cluster[0].wait_calls(STREAM)
        cluster.lead(1)
        self.assert_unknown(client.finish(call))
        self.assert_unknown(client.finish(stream))
        self.assert_ok(client.unary(UNARY))

    def test_many_calls_and_a_dead_leader(self):
        cluster, proxy, client = self.pair(count=3)
        cluster[0].on(PUT, silent)
        calls = [client.start(PUT, message=b"%d" % i) for i in range(100)]
        cluster[0].wait_calls(PUT, 100)
        cluster[0].refuse()
        calls += [client.start(UNARY, message=b"%d" % i) for i in range(100, 150)]
        cluster.lead(1)
        for i, call in enumerate(calls):
            self.assert_ok(client.finish(call), b"%d" % i)
        ids = [call.header("baton-request-id") for call in cluster[1].calls_of(PUT)]
        self.assertEqual(len(set(ids)), 100)
        self.assertEqual(cluster[1].count(UNARY), 50)

    def test_proxy_named_as_the_leader(self):
        """A cluster that names the proxy itself: an error, not a loop."""
        cluster = self.cluster(1, leader=None)
        proxy = self.proxy(cluster, "--park-timeout", "2s", ready=False)
        cluster[0].listed.append(("m2", proxy.addr))
        cluster[0].says(known=True, id="m2", addr=proxy.addr, epoch=1)
        self.lab.wait(lambda: proxy.get("/readyz")[0] == 200, "a leader is known")
        call = self.client(proxy).unary(UNARY)
        self.assertNotIn(call.grpc_status, (0, None), call.describe())
        cluster.lead(0, epoch=2)
        self.wait_goes_to(self.client(proxy), cluster[0])


if __name__ == "__main__":
    main()
