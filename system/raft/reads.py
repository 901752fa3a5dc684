"""Linearizable reads without log entries: ReadIndex (thesis §6.4)."""

from __future__ import annotations

from collections import deque

from .events import ReadFailed, ReadReady
from .quorum import reached_by_quorum
from .replication import Replication
from .state import RaftState


class Reads:
    """Reads of a leader that wait for its first commit, or for a round of acknowledgements.

    One round serves all reads that were asked before it began. At most one round is on its way
    outside heartbeats; reads that come meanwhile share the next.
    """

    __slots__ = ("_asked", "_confirmed_round", "_replication", "_rounds", "_state")

    def __init__(self, state: RaftState, replication: Replication) -> None:
        self._state = state
        self._replication = replication
        self._asked: list[int] = []
        self._rounds: deque[tuple[int, int, list[int]]] = deque()
        self._confirmed_round = 0

    def start(self) -> None:
        """Begin to lead, with no round yet."""
        self._confirmed_round = 0

    def ask(self, read: int) -> None:
        """Register a read; it waits for a round that starts after this moment."""
        self._asked.append(read)
        if not self._rounds:
            self.begin_round()

    def begin_round(self) -> bool:
        """Start a round for the reads that wait, once this leader has committed in its term.

        Until then its commit index may be behind what earlier leaders acknowledged.
        """
        state, replication = self._state, self._replication
        if not self._asked or state.commit_index < replication.first_index:
            return False
        self._rounds.append((replication.begin_round(), state.commit_index, self._asked))
        self._asked = []
        if state.quorum == 1:
            self.on_acknowledged()
        return True

    def on_acknowledged(self) -> None:
        """Serve the rounds that a quorum has answered, then start the next if reads wait."""
        rounds = self._rounds
        if rounds:
            replication = self._replication
            state = self._state
            acked = [replication.followers[voter].acked_round for voter in state.peers]
            if state.is_voter:
                acked.append(replication.round)
            self._confirmed_round = reached_by_quorum(acked, state.quorum)
            while rounds and rounds[0][0] <= self._confirmed_round:
                _, log_index, reads = rounds.popleft()
                state.effects.extend(ReadReady(read, log_index) for read in reads)
        if self._asked and not rounds:
            self.begin_round()

    def fail_all(self) -> None:
        """Fail every read: this server no longer leads."""
        failed = [read for _, _, reads in self._rounds for read in reads] + self._asked
        self._rounds.clear()
        self._asked = []
        self._state.effects.extend(ReadFailed(read) for read in failed)
