"""What the proxy does only after a long time. Needs more than a minute: runs with BATON_SLOW=1."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from h2_backend import silent, source
from proxy_harness import GET, STREAM, UNARY, ProxyTest, main

LONG_S = 100


@unittest.skipUnless(os.environ.get("BATON_SLOW"), "takes over a minute; set BATON_SLOW=1")
class PatienceTest(ProxyTest):
    """All kinds of slow clients side by side, so that their times run together."""

    def test_slow_clients_are_cut_alone(self):
        cluster, proxy, good = self.pair("--drain-timeout", "1s")
        cluster.on(STREAM, source(64 << 20)).on(GET, silent)
        waiting = good.start(GET)

        no_credit = self.client(proxy)
        starved = no_credit.start(STREAM, hold=True)
        neighbour = no_credit.start(GET)

        no_reads = self.client(proxy)
        for _ in range(40):
            no_reads.start(STREAM)
        cluster[0].wait_calls(STREAM, 41)
        self.lab.call(no_reads.peer.freeze)
        blocked = [c for c in cluster.calls_of(STREAM)][1:]

        # A connection that cannot be written: 30 s. Its calls end upstream, too.
        self.lab.wait(lambda: all(c.reset is not None or c.peer.closed for c in blocked),
                      "the calls of the client that does not read end", LONG_S)
        # A stream whose client does not read while data waits: 60 s. It goes alone.
        self.lab.wait(lambda: starved.done, "the stream without credit is ended", LONG_S)
        self.assertNotEqual(starved.grpc_status, 0)
        self.assertFalse(no_credit.closed)
        self.assertFalse(neighbour.done)
        self.assertFalse(waiting.done)
        self.assert_ok(good.unary(UNARY))
        self.assert_ok(no_credit.unary(UNARY))


if __name__ == "__main__":
    main()
