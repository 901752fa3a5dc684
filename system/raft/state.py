"""The state of one Raft server that all parts of the core share, and the effects of a step."""

from __future__ import annotations

from collections.abc import Callable

from ..bugs import Bugs
from .durability import Durability
from .events import Apply, Effect, Persist, RaftConfig, Role, Send
from .log import LogStart, RaftLog
from .members import Checkpoint, Members
from .membership import Membership
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
        peers: The other voters.
        others: The other members, learners included.
        is_voter: Whether this server, with its data directory, is a voter.
        quorum: How many voters elect.
        commit_quorum: How many voters commit.
    """

    __slots__ = (
        "_entries",
        "_hard_state_changed",
        "_reset",
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
        "is_voter",
        "leader",
        "leader_contact_us",
        "log",
        "membership",
        "node_id",
        "now_us",
        "on_probation",
        "others",
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
        checkpoint: Checkpoint,
    ) -> None:
        # A crash may come after a snapshot was activated and before its term was stored.
        term = max(hard_state.term, checkpoint.term)
        assert term >= log.last_term, (
            f"term-behind-log: term {term}, last entry of term {log.last_term}"
        )
        assert log.start_index - 1 <= checkpoint.index <= log.last_index, (
            f"log-hole: checkpoint {checkpoint.index}, log {log.start_index}..{log.last_index}"
        )
        self.config = config
        self.node_id = config.node_id
        self.on_probation = config.on_probation
        self.election_us_min = config.election_ms_min * 1000
        self.election_us_max = config.election_ms_max * 1000
        self.heartbeat_us = config.heartbeat_ms * 1000
        self.bugs = bugs
        self.entropy = entropy
        self.now_us = now_us
        self.log = log
        self.term = term
        self.voted_for = hard_state.voted_for if term == hard_state.term else None
        self.role = Role.FOLLOWER
        self.leader: str | None = None
        self.leader_contact_us = 0
        self.commit_index = checkpoint.index
        self.applied_index = checkpoint.index
        self.durability = Durability(log.last_index)
        self.durability.rest_on(checkpoint.index, resets=False)
        base = checkpoint.members if checkpoint.members.voters else seed_of(config)
        self.membership = Membership(checkpoint.index, base)
        self.membership.append(log.between(checkpoint.index + 1, log.last_index))
        self._follow_members()
        self.effects: list[Effect] = []
        self._hard_state_changed = False
        self._reset: LogStart | None = None
        self._truncate_from: int | None = None
        self._entries: tuple[Entry, ...] = ()
        self.election_timeout_us = 0
        self.election_deadline_us = now_us
        # The only voter has nobody to wait for.
        if self.peers or not self.may_campaign:
            self.restart_election_timer()

    def _follow_members(self) -> None:
        """Count by the membership in force; one server at a time changes, so quorums overlap."""
        members, node_id = self.membership.members, self.node_id
        if self.on_probation and self.config.incarnation:
            # Who was taken in with this data directory has never voted with another one since.
            self.on_probation = not self.membership.has_named(node_id, self.config.incarnation)
        self.peers = tuple(voter for voter in members.voters if voter != node_id)
        self.others = tuple(server for server in members.servers if server != node_id)
        self.is_voter = node_id in members.voters and self._is_own(members)
        self.quorum = quorum_size(len(members.voters), self.bugs)
        self.commit_quorum = commit_quorum_size(len(members.voters), self.bugs)

    def _is_own(self, members: Members) -> bool:
        known = members.known_of(self.node_id).incarnation
        return not known or not self.config.incarnation or known == self.config.incarnation

    @property
    def may_campaign(self) -> bool:
        """Whether this server may stand for election: a voter, or one until that is committed.

        A server whose removal is in its own log alone may be the only one that can be elected.
        """
        if self.on_probation:
            return False
        if self.is_voter:
            return True
        previous = self.membership.previous
        return (
            self.membership.index > self.commit_index
            and self.node_id in previous.voters
            and self._is_own(previous)
        )

    @property
    def write_sequence(self) -> int:
        """Number of the write that holds everything changed so far, this step included."""
        return self.durability.issued + self._has_write()

    def _has_write(self) -> bool:
        return (
            self._hard_state_changed
            or self._truncate_from is not None
            or bool(self._entries)
            or self._reset is not None
        )

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
        if self.membership.append(entries):
            self._follow_members()

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
        if self.membership.truncate_from(index):
            self._follow_members()

    def compact(self, index: int) -> None:
        """Forget entries that a durable checkpoint holds."""
        assert index <= self.applied_index, (
            f"compact-range: {self.node_id} compacts up to {index}, applied {self.applied_index}"
        )
        if index >= self.log.start_index:
            self.log.compact(index)
            self.membership.compact(index)

    def install(self, index: int, term: int, members: Members) -> None:
        """Rest on a received snapshot; the log stays if it goes on from there."""
        if index <= self.applied_index and "snapshot-overwrites-newer-log" not in self.bugs:
            return
        resets = self.log.term_at(index) != term or "snapshot-overwrites-newer-log" in self.bugs
        if term > self.term:
            self.become_follower(term, None)
        if resets:
            assert self.commit_index < index, (
                f"committed-truncated: {self.node_id} drops its log for a snapshot of {index}, "
                f"committed up to {self.commit_index}"
            )
            assert self.role is not Role.LEADER, f"log-matching: leader lacks committed {index}"
            self._reset = LogStart(index, term)
            self.log.reset(self._reset)
            self.membership.truncate_from(self.log.start_index)
        self.durability.rest_on(index, resets)
        self.commit_index = max(self.commit_index, index)
        self.applied_index = index
        self.membership.install(index, members)
        self._follow_members()

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
            effects.insert(
                0, Persist(sequence, hard_state, self._truncate_from, self._entries, self._reset)
            )
            self._hard_state_changed = False
            self._reset = None
            self._truncate_from = None
            self._entries = ()
        ready_index = min(self.commit_index, durability.durable_index)
        if ready_index > self.applied_index:
            effects.append(Apply(self.log.between(self.applied_index + 1, ready_index)))
            self.applied_index = ready_index
        self.effects = []
        return effects


def seed_of(config: RaftConfig) -> Members:
    """Return the membership that a new cluster begins with."""
    return Members(tuple(sorted(config.voters)))
