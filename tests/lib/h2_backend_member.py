"""Fake Baton members: scripted backends that answer the member service, truthfully or not."""
import asyncio

import stubs
from h2_backend import Backend, GRPC, OK
from h2_lab import Gone
from h2_stream import frame

SERVICE = "/baton.v1.ClusterMemberService/"
WATCH, LIST, ASK = SERVICE + "WatchLeader", SERVICE + "ListMembers", SERVICE + "GetLeaderAddr"
KEEPALIVE_S = 1.0


class FakeMember(Backend):
    """Its view of the leadership is `state`, set with `says`; every watcher is told at once."""

    def __init__(self, lab, name="m1", **options):
        super().__init__(lab, name, **options)
        pb = stubs.load("baton.v1.member_pb2")
        self.pb = pb
        self.state = pb.LeaderState(cluster_id="c1", member_id=name, revision=1)
        self.version = 0           # of the state: raised by each change
        self.listed = []           # (id, address) that ListMembers answers
        self.keepalives = 0
        self.watch_silent = False  # take watches, tell nothing
        self.on(WATCH, self._watch).on(LIST, self._list).on(ASK, self._ask)

    # For the test's thread.

    def says(self, **fields):
        """Changes fields of the state, as in says(known=True, epoch=2), and waits until it was sent to
        every watcher."""
        def change():
            for name, value in fields.items():
                setattr(self.state, name, value)
            self.version += 1
            self.lab.notify()
        self.lab.call(change)
        self.lab.wait(lambda: all(self._was_told(call) for call in self.watchers()),
                      f"{self.name} tells its watchers")

    def _was_told(self, call):
        told = getattr(call, "told", self.version)
        return told == self.version or self.watch_silent or call.peer.frozen or call.sent_end

    def watchers(self):
        return [c for c in self.calls_of(WATCH) if not c.peer.closed and c.reset is None]

    def end_watches(self, status=14):
        def end():
            for call in self.watchers():
                call.send_headers([("grpc-status", str(status))], end=True)
        self.lab.call(end)

    # Handlers.

    async def _watch(self, call):
        call.send_headers(GRPC)
        call.told = None
        while True:
            if not self.watch_silent:
                version = self.version
                await call.send_data(frame(self.state.SerializeToString()))
                call.told = version
                self.lab.notify()
            await self._change(call)

    async def _change(self, call):
        """Until the state changes or the keepalive is due."""
        news = call.until(lambda: self.version != call.told and not self.watch_silent)
        try:
            await asyncio.wait_for(news, KEEPALIVE_S)
        except asyncio.TimeoutError:
            self.keepalives += 1
            if call.sent_end:
                raise Gone("the watch was ended") from None

    async def _list(self, call):
        await call.until_request_ended()
        answer = self.pb.ListMembersResponse(cluster_id=self.state.cluster_id)
        for name, addr in self.listed:
            leads = self.state.known and self.state.addr == addr
            answer.members.add(id=name, addr=addr, role=4 if leads else 1)
        await self._reply(call, answer)

    async def _ask(self, call):
        await call.until_request_ended()
        await self._reply(call, self.state)

    async def _reply(self, call, message):
        call.send_headers(GRPC)
        await call.send_data(frame(message.SerializeToString()))
        call.send_headers(OK, end=True)


class FakeCluster:
    """Members that agree, unless a test makes one say something else."""

    def __init__(self, lab, count=3, cluster_id="c1", listening=True, settings=None):
        self.lab, self.cluster_id, self.epoch = lab, cluster_id, 0
        self.members = [FakeMember(lab, f"m{i + 1}", listening=listening, settings=settings)
                        for i in range(count)]
        for member in self.members:
            member.listed = [(m.name, m.addr) for m in self.members]
            member.says(cluster_id=cluster_id)

    def __getitem__(self, index):
        return self.members[index]

    @property
    def seeds(self):
        return ",".join(member.addr for member in self.members)

    def lead(self, index, epoch=None):
        """Makes a member the leader, in a new epoch, and every member say so."""
        self.epoch = self.epoch + 1 if epoch is None else epoch
        leader = self.members[index]
        for member in self.members:
            member.says(known=True, id=leader.name, addr=leader.addr, epoch=self.epoch)
        return leader

    def no_leader(self):
        """Every member says that the leadership of the present epoch ended."""
        for member in self.members:
            member.says(known=False, id="", addr="")

    def on(self, path, handler):
        for member in self.members:
            member.on(path, handler)
        return self

    def count(self, path):
        return sum(member.count(path) for member in self.members)

    def calls_of(self, path):
        return [call for member in self.members for call in member.calls_of(path)]

    @property
    def violations(self):
        return [f"{m.name}: {text}" for m in self.members for text in m.violations
                if not m.violations_expected]

    def close(self):
        for member in self.members:
            member.close()
