"""The one who changes the membership of a simulated cluster, at random, all the time."""

from __future__ import annotations

from typing import Final

from ...system.raft.core import Role
from ...system.raft.events import AddLearner, Change, Promote, Remove
from .counters import Counters
from .knobs import Knobs
from .oracles import number_of
from .scheduler import Scheduler
from .server import Server
from .streams import Stream

FIRST_CHANGE: Final = 2**41
"""Operations from here on are changes of the membership."""


class Operator:
    """Adds nodes as learners, promotes them, removes members, and replaces wiped ones.

    Attributes:
        is_over: Set to ask for nothing more.
    """

    __slots__ = ("_changes", "_counters", "_knobs", "_scheduler", "_servers", "_stream", "is_over")

    def __init__(
        self,
        seed: int,
        knobs: Knobs,
        scheduler: Scheduler,
        servers: list[Server],
        counters: Counters,
    ) -> None:
        self._knobs = knobs
        self._stream = Stream(seed, "operator")
        self._scheduler = scheduler
        self._servers = servers
        self._counters = counters
        self._changes = FIRST_CHANGE
        self.is_over = False
        if knobs.change_pause_us:
            self._pause()

    def _pause(self) -> None:
        delay_us = self._stream.between(1, 2 * self._knobs.change_pause_us)
        self._scheduler.after(delay_us, self._act)

    def _act(self) -> None:
        if self.is_over:
            return
        self._pause()
        leaders = [
            server
            for server in self._servers
            if not server.is_down and server.core.role is Role.LEADER
        ]
        if leaders:
            leader = self._stream.pick(leaders)
            self._changes += 1
            leader.change(self._changes, self._choose(leader))

    def _choose(self, leader: Server) -> Change:
        """Choose by what the leader takes for the membership."""
        stream, members = self._stream, leader.core.members
        strange = [
            name
            for name in members.servers
            if members.known_of(name).incarnation != self._servers[number_of(name)].identity
        ]
        if strange and stream.chance(0.7):
            return Remove(stream.pick(strange))
        # Who takes a good voter out while another one is lost may be left without a majority.
        removable = strange or members.servers
        learners = [name for name in members.learners if name not in strange]
        if learners and stream.chance(0.5):
            return Promote(stream.pick(learners))
        outside = [server for server in self._servers if server.name not in members.servers]
        if outside and stream.chance(0.6):
            server = stream.pick(outside)
            return AddLearner(server.name, server.identity)
        if len(members.voters) > 2 or stream.chance(0.2):
            return Remove(stream.pick(removable))
        return Promote(stream.pick(members.voters))

    def answer(self, ok: bool) -> None:
        """A change ended."""
        if ok:
            self._counters.changes += 1
        else:
            self._counters.changes_refused += 1
