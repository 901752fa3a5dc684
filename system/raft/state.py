"""The state of one Raft server that all parts of the core share, and the effects of a step."""

from __future__ import annotations

from collections.abc import Callable

from ..bugs import Bugs
from .durability import Durability
from .events import Apply, Effect, Persist, RaftConfig, Role, Send
from .log import RaftLog
from .messages import Entry, HardState, Message
from .quorum import commit_quorum_size, quorum_size

Entropy = Callable[[int, int], int]
"""Returns an integer between two bounds, both included."""


class RaftState:
    """Term, vote, log, role and clock of one server; collects the effects of the current step.

    Attributes:
        now_us: Time of the current step.
        election_deadline_us: When a server that does not lead campaigns.
        leader_contact_us: When the leader of the current term was last heard; 0 for never.
        applied_index: Up to where `Apply` has been issued.
    """

    __slots__ = (
        "_entries",
        "_hard_state_changed",
        "_truncate_from",
        "applied_index",
        "bugs",
        "commit_index",
        "commit_quorum",
        "config",
        "durability",
        "effects",
        "election_deadline_us",
        "election_timeout_us",
        "election_us_max",
        "election_us_min",
        "entropy",
        "heartbeat_us",
        "leader",
        "leader_contact_us",
        "log",
        "node_id",
        "now_us",
        "peers",
        "quorum",
        "role",
        "term",
        "voted_for",
    )

    def __init__(
        self,
        config: RaftConfig,
        hard_state: HardState,
        log: RaftLog,
        entropy: Entropy,
        now_us: int,
        bugs: Bugs,
    ) -> None:
        assert hard_state.term >= log.last_term, (
            f"term-behind-log: term {hard_state.term}, last entry of term {log.last_term}"
        )
        self.config = config
        self.node_id = config.node_id
        self.peers = tuple(voter for voter in config.voters if voter != config.node_id)
        self.quorum = quorum_size(len(config.voters), bugs)
        self.commit_quorum = commit_quorum_size(len(config.voters), bugs)
        self.election_us_min = config.election_ms_min * 1000
        self.election_us_max = config.election_ms_max * 1000
        self.heartbeat_us = config.heartbeat_ms * 1000
        self.bugs = bugs
        self.entropy = entropy
        self.now_us = now_us
        self.log = log
        self.term = hard_state.term
        self.voted_for = hard_state.voted_for
        self.role = Role.FOLLOWER
        self.leader: str | None = None
        self.leader_contact_us = 0
        self.commit_index = log.start_index - 1
        self.applied_index = log.start_index - 1
        self.durability = Durability(log.last_index)
        self.effects: list[Effect] = []
        self._hard_state_changed = False
        self._truncate_from: int | None = None
        self._entries: tuple[Entry, ...] = ()
        self.election_timeout_us = 0
        self.election_deadline_us = now_us
        # The only voter has nobody to wait for.
        if self.peers:
            self.restart_election_timer()

    @property
    def write_sequence(self) -> int:
        """Number of the write that holds everything changed so far, this step included."""
        return self.durability.issued + self._has_write()

    def _has_write(self) -> bool:
        return self._hard_state_changed or self._truncate_from is not None or bool(self._entries)

    def send(self, to: str, message: Message, after: int = 0) -> None:
        """Send a message once write `after` is settled; 0 sends at once."""
        if after <= self.durability.settled:
            self.effects.append(Send(to, message))
        else:
            self.durability.hold(after, Send(to, message))

    def reply(self, to: str, message: Message) -> None:
        """Send an answer that tells this server's term, or a vote, once these are durable."""
        self.send(to, message, self.durability.hard_state_sequence)

    def change_hard_state(self, term: int, voted_for: str | None) -> None:
        """Enter a term, or vote in the current one."""
        assert term >= self.term, f"term-falls: from {self.term} to {term}"
        if term > self.term:
            self.durability.drop_held()
        else:
            assert self.voted_for is None or "double-vote" in self.bugs, (
                f"one-vote: {self.node_id} voted for {self.voted_for} in term {term}, "
                f"now for {voted_for}"
            )
        self.term = term
        self.voted_for = voted_for
        self._hard_state_changed = True
        self.durability.hard_state_sequence = self.write_sequence

    def append(self, entries: tuple[Entry, ...]) -> None:
        """Append entries in memory and to this step's write."""
        self.log.append(entries)
        self._entries = self._entries + entries if self._entries else entries

    def truncate_from(self, index: int) -> None:
        """Drop entries in memory and in this step's write."""
        assert index > self.commit_index, (
            f"committed-truncated: {self.node_id} drops entries from {index}, "
            f"committed up to {self.commit_index}"
        )
        assert not self._entries, f"write-order: truncation from {index} after an append"
        self.log.truncate_from(index)
        self.durability.truncate_from(index)
        self._truncate_from = index

    def commit(self, index: int) -> None:
        """Raise the commit index."""
        assert self.commit_index <= index <= self.log.last_index, (
            f"commit-range: {self.node_id} commits {index}, was {self.commit_index}, "
            f"last entry {self.log.last_index}"
        )
        self.commit_index = index

    def restart_election_timer(self) -> None:
        """Draw a new election timeout (Raft §5.2) and count it from now."""
        self.election_timeout_us = self.entropy(self.election_us_min, self.election_us_max)
        self.election_deadline_us = self.now_us + self.election_timeout_us

    def become_follower(self, term: int, leader: str | None) -> None:
        """Follow in `term`; a server that led or stood for election gets a fresh timeout."""
        if term > self.term:
            self.change_hard_state(term, None)
        if self.role is not Role.FOLLOWER:
            self.role = Role.FOLLOWER
            self.restart_election_timer()
        self.leader = leader

    def hear_leader(self, leader: str, term: int) -> None:
        """Note word from the leader of `term`, which is at least the current one."""
        if term > self.term or self.leader != leader or self.role is not Role.FOLLOWER:
            assert term > self.term or (
                self.role is not Role.LEADER and self.leader in (None, leader)
            ), (
                f"one-leader: {self.node_id} ({self.role.value}, leader {self.leader}) "
                f"hears leader {leader} in term {term}"
            )
            self.become_follower(term, leader)
            self.restart_election_timer()
        self.leader_contact_us = self.now_us
        self.election_deadline_us = self.now_us + self.election_timeout_us

    def finish_step(self) -> list[Effect]:
        """Return the step's effects: its write first, then what may go out."""
        durability = self.durability
        effects = self.effects
        if self._has_write():
            sequence = self.write_sequence
            durability.issue(sequence, self.log.last_index)
            hard_state = None
            if self._hard_state_changed:
                stored_vote = None if "vote-not-persisted" in self.bugs else self.voted_for
                hard_state = HardState(self.term, stored_vote)
            effects.insert(0, Persist(sequence, hard_state, self._truncate_from, self._entries))
            self._hard_state_changed = False
            self._truncate_from = None
            self._entries = ()
        ready_index = min(self.commit_index, durability.durable_index)
        if ready_index > self.applied_index:
            effects.append(Apply(self.log.between(self.applied_index + 1, ready_index)))
            self.applied_index = ready_index
        self.effects = []
        return effects
