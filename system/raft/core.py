"""One Raft server as a pure function of its events: `RaftCore.step`."""

from __future__ import annotations

from ..bugs import NO_BUGS, Bugs
from .election import Election
from .events import (
    Appended,
    Apply,
    Effect,
    Event,
    LeadershipChanged,
    Persist,
    Persisted,
    Propose,
    RaftConfig,
    Read,
    ReadFailed,
    ReadReady,
    Receive,
    Refused,
    Role,
    Send,
    Tick,
    TransferDone,
    TransferLeadership,
)
from .following import on_append, on_snapshot
from .log import RaftLog
from .messages import (
    NUMBER_MAX,
    AppendEntries,
    AppendReply,
    HardState,
    InstallSnapshot,
    Message,
    RequestVote,
    TimeoutNow,
    VoteReply,
)
from .reads import Reads
from .replication import Replication
from .state import Entropy, RaftState
from .transfer import Transfer

__all__ = [
    "Appended",
    "Apply",
    "Effect",
    "Event",
    "LeadershipChanged",
    "Persist",
    "Persisted",
    "Propose",
    "RaftConfig",
    "RaftCore",
    "RaftLog",
    "Read",
    "ReadFailed",
    "ReadReady",
    "Receive",
    "Refused",
    "Role",
    "Send",
    "Tick",
    "TransferDone",
    "TransferLeadership",
]


class RaftCore:
    """The consensus core of one server; no input or output, no clock, no randomness of its own.

    The shell feeds events in one order, carries out the effects, and calls `step(now, Tick())` no
    later than `deadline_us`. A new core is a restarted server: a follower that applies its log
    again from its start as it learns what is committed.

    Messages from itself, from servers that are no voters, or with impossible fields are ignored.

    Raises:
        AssertionError: An invariant is broken. Its message begins with the invariant's name and
            gives the operands; the server must stop.
    """

    __slots__ = (
        "_announced",
        "_election",
        "_reads",
        "_replication",
        "_state",
        "_transfer",
        "deadline_us",
    )

    def __init__(
        self,
        config: RaftConfig,
        hard_state: HardState,
        log: RaftLog,
        entropy: Entropy,
        now_us: int,
        bugs: Bugs = NO_BUGS,
    ) -> None:
        """Start a server from what its disk remembers.

        Args:
            config: Settings; the voters are the same on every server.
            hard_state: Durable term and vote; `HardState(0, None)` at the first start.
            log: Durable entries. The core owns it from now on.
            entropy: Draws an integer between two bounds, both included.
            now_us: Current time.
            bugs: Planted defects.
        """
        self._state = RaftState(config, hard_state, log, entropy, now_us, bugs)
        self._election = Election(self._state)
        self._replication = Replication(self._state)
        self._reads = Reads(self._state, self._replication)
        self._transfer = Transfer(self._state, self._replication)
        self._announced = (Role.FOLLOWER, self._state.term, self._state.leader)
        self.deadline_us = self._state.election_deadline_us

    @property
    def role(self) -> Role:
        """What this server takes itself for."""
        return self._state.role

    @property
    def term(self) -> int:
        """The current term."""
        return self._state.term

    @property
    def leader(self) -> str | None:
        """The leader of the current term, if known."""
        return self._state.leader

    @property
    def commit_index(self) -> int:
        """The last index known to be committed."""
        return self._state.commit_index

    @property
    def durable_index(self) -> int:
        """The last index of the log that is durable here."""
        return self._state.durability.durable_index

    @property
    def last_index(self) -> int:
        """The last index of the log in memory."""
        return self._state.log.last_index

    @property
    def applied_index(self) -> int:
        """The last index given out by `Apply`."""
        return self._state.applied_index

    @property
    def log(self) -> RaftLog:
        """The log in memory; for looking only."""
        return self._state.log

    @property
    def is_transferring(self) -> bool:
        """Whether a leadership transfer is under way, so that proposals are refused."""
        return self._transfer.target is not None

    @property
    def quorum_contact_us(self) -> int:
        """When this server last knew of a quorum; 0 for never since its start.

        A leader: when a quorum last answered it. Others: when they last heard from their leader.
        """
        if self._state.role is Role.LEADER:
            return self._replication.quorum_contact_us()
        return self._state.leader_contact_us

    def step(self, now_us: int, event: Event) -> list[Effect]:
        """Take one event and return what must be done, in order."""
        state = self._state
        if now_us > state.now_us:
            state.now_us = now_us
        if isinstance(event, Receive):
            self._on_message(event.sender, event.message)
        elif isinstance(event, Persisted):
            self._on_persisted(event.sequence)
        elif isinstance(event, Tick):
            self._on_tick()
        elif isinstance(event, Propose):
            self._on_propose(event)
        elif isinstance(event, Read):
            self._on_read(event.read)
        else:
            self._transfer.request(event.target)
        return self._finish()

    def _finish(self) -> list[Effect]:
        state = self._state
        if state.role is not Role.LEADER and self._announced[0] is Role.LEADER:
            self._replication.stop()
            self._reads.fail_all()
        if self._transfer.target is not None:
            self._transfer.settle()
        announced = self._announced
        if (
            announced[0] is not state.role
            or announced[1] != state.term
            or announced[2] != state.leader
        ):
            self._announced = (state.role, state.term, state.leader)
            state.effects.append(LeadershipChanged(state.role, state.term, state.leader))
        effects = state.finish_step()
        deadline_us = state.election_deadline_us
        if state.role is Role.LEADER:
            deadline_us = self._replication.heartbeat_deadline_us
        if self._transfer.target is not None:
            deadline_us = min(deadline_us, self._transfer.deadline_us)
        self.deadline_us = deadline_us
        return effects

    def _lead(self) -> None:
        """Take up the leadership that was just won."""
        state = self._state
        assert state.role is Role.CANDIDATE, f"{state.node_id} wins as {state.role.value}"
        state.role = Role.LEADER
        state.leader = state.node_id
        self._reads.start()
        self._replication.start()

    def _on_tick(self) -> None:
        state = self._state
        if state.role is Role.LEADER:
            silence_us = state.now_us - self._replication.quorum_contact_us()
            if state.config.check_quorum and silence_us > state.election_us_max:
                state.become_follower(state.term, None)
            elif state.now_us >= self._replication.heartbeat_deadline_us:
                if not self._reads.begin_round():
                    self._replication.beat()
                self._transfer.advance(again=True)
        elif state.now_us >= state.election_deadline_us and self._election.time_out():
            self._lead()

    def _on_persisted(self, sequence: int) -> None:
        state = self._state
        durability = state.durability
        durability.settle(sequence)
        state.effects.extend(durability.release())
        if state.role is Role.LEADER:
            self._replication.advance_commit(durability.durable_index)
            self._reads.on_acknowledged()
        elif self._election.on_durable():
            self._lead()

    def _on_propose(self, event: Propose) -> None:
        state = self._state
        if state.role is not Role.LEADER or self._transfer.target is not None:
            state.effects.append(Refused(event.proposal, state.leader))
        else:
            self._replication.propose(event.proposal, event.payloads)

    def _on_read(self, read: int) -> None:
        if self._state.role is Role.LEADER:
            self._reads.ask(read)
        else:
            self._state.effects.append(ReadFailed(read))

    def _on_message(self, sender: str, message: Message) -> None:
        state = self._state
        if sender not in state.peers:
            return
        if isinstance(message, AppendEntries):
            on_append(state, sender, message)
        elif isinstance(message, AppendReply):
            self._on_append_reply(sender, message)
        elif isinstance(message, RequestVote):
            if _is_in_range(message.term, message.last_log_index, message.last_log_term):
                self._election.on_request(sender, message)
        elif isinstance(message, VoteReply):
            if _is_in_range(message.term) and self._election.on_reply(sender, message):
                self._lead()
        elif isinstance(message, TimeoutNow):
            self._on_timeout_now(sender, message)
        elif isinstance(message, InstallSnapshot) and _is_in_range(
            message.term, message.last_included_index
        ):
            on_snapshot(state, sender, message)

    def _on_append_reply(self, sender: str, reply: AppendReply) -> None:
        state = self._state
        if not _is_in_range(reply.term, reply.match_index, reply.round):
            return
        if reply.term > state.term:
            state.become_follower(reply.term, None)
        elif reply.term == state.term and state.role is Role.LEADER:
            self._replication.on_reply(sender, reply)
            self._reads.on_acknowledged()
            self._transfer.advance()

    def _on_timeout_now(self, sender: str, message: TimeoutNow) -> None:
        """Campaign at once, without a pre-vote, because the leader itself asks for it."""
        state = self._state
        if (
            message.term == state.term
            and state.role is Role.FOLLOWER
            and state.leader in (None, sender)
            and self._election.campaign(transfer=True)
        ):
            self._lead()


def _is_in_range(*numbers: int) -> bool:
    return all(0 <= number <= NUMBER_MAX for number in numbers)
