"""Handing leadership over (thesis §3.10)."""

from __future__ import annotations

from .events import Role, TransferDone
from .messages import TimeoutNow
from .replication import Replication
from .state import RaftState


class Transfer:
    """At most one transfer of leadership, from its request until it is known how it ended.

    Attributes:
        target: The successor; None when no transfer is under way.
        deadline_us: When a transfer under way is given up.
    """

    __slots__ = ("_has_told", "_replication", "_state", "_term", "deadline_us", "target")

    def __init__(self, state: RaftState, replication: Replication) -> None:
        self._state = state
        self._replication = replication
        self._term = 0
        self._has_told = False
        self.target: str | None = None
        self.deadline_us = 0

    def request(self, target: str | None) -> None:
        """Begin; refuses when not leading, when already under way, or when nobody can take it."""
        state = self._state
        if state.role is Role.LEADER and self.target is None:
            self.target = target if target in state.peers else None
            if target is None:
                self.target = self.most_caught_up()
            if self.target is not None:
                self._term = state.term
                self._has_told = False
                self.deadline_us = state.now_us + state.election_us_max
                self.advance()
                return
        state.effects.append(TransferDone(False))

    def most_caught_up(self) -> str | None:
        """Return the live voter with the longest matching log, if any was heard recently."""
        state = self._state
        live = []
        for voter in state.peers:
            progress = self._replication.followers[voter]
            if state.now_us - progress.contact_us < state.election_us_max:
                live.append((progress.match_index, progress.contact_us, voter))
        return max(live)[2] if live else None

    def advance(self, again: bool = False) -> None:
        """Tell the successor to campaign once it has every entry; `again` in case it got lost."""
        state = self._state
        if self.target is None or state.role is not Role.LEADER or (self._has_told and not again):
            return
        if self.target not in state.peers:
            self.deadline_us = state.now_us
            return
        if self._replication.followers[self.target].match_index == state.log.last_index:
            self._has_told = True
            state.send(self.target, TimeoutNow(state.term))

    def settle(self) -> None:
        """End the transfer when another leader is known, or when its time is up."""
        if self.target is None:
            return
        state = self._state
        has_new_leader = state.term > self._term and state.leader is not None
        if has_new_leader or state.now_us >= self.deadline_us:
            is_done = has_new_leader and state.leader != state.node_id
            self.target = None
            state.effects.append(TransferDone(is_done))
