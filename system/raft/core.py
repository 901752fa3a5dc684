"""One Raft server as a pure function of its events: `RaftCore.step`."""

from __future__ import annotations

from ..bugs import NO_BUGS, Bugs
from .changes import Refusal, refusal_of, wanted_members
from .coherence import are_in_range
from .election import Election
from .events import (
    Appended,
    Apply,
    ChangeMembers,
    ChangeRefused,
    Compact,
    Effect,
    Event,
    LeadershipChanged,
    MemberRegressed,
    MembersChanged,
    MembersKept,
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
    SendSnapshot,
    SnapshotInstalled,
    SnapshotSent,
    Tick,
    TransferDone,
    TransferLeadership,
    Vouched,
)
from .following import on_append
from .log import RaftLog
from .members import Checkpoint, Members
from .messages import (
    AppendEntries,
    AppendReply,
    HardState,
    RequestVote,
    TimeoutNow,
    VoteReply,
)
from .reads import Reads
from .replication import Replication
from .state import Entropy, RaftState
from .transfer import Transfer
from .view import CoreView

__all__ = [
    "Appended",
    "Apply",
    "ChangeMembers",
    "ChangeRefused",
    "Checkpoint",
    "Compact",
    "Effect",
    "Event",
    "LeadershipChanged",
    "MemberRegressed",
    "Members",
    "MembersChanged",
    "MembersKept",
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
    "SendSnapshot",
    "SnapshotInstalled",
    "SnapshotSent",
    "Tick",
    "TransferDone",
    "TransferLeadership",
    "Vouched",
]


class RaftCore(CoreView):
    """The consensus core of one server; no input or output, no clock, no randomness of its own.

    The shell feeds events in one order, carries out the effects, and calls `step(now, Tick())` no
    later than `deadline_us`. A new core is a restarted server: a follower that rests on its
    checkpoint and applies its log again from there as it learns what is committed.

    Messages from itself or with impossible fields are ignored. Appends and requests for votes are
    taken from any server: who is a member may be in entries that are still to come (thesis
    §4.2.1). Answers count only from members, and only of the incarnation that is known.

    Raises:
        AssertionError: An invariant is broken. Its message begins with the invariant's name and
            gives the operands; the server must stop.
    """

    __slots__ = (
        "_announced",
        "_announced_members",
        "_election",
        "_reads",
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
        checkpoint: Checkpoint | None = None,
    ) -> None:
        """Start a server from what its disk remembers.

        Args:
            config: Settings.
            hard_state: Durable term and vote; `HardState(0, None)` at the first start.
            log: Durable entries, as `recovered_log` fits them to the checkpoint. The core owns it
                from now on.
            entropy: Draws an integer between two bounds, both included.
            now_us: Current time.
            bugs: Planted defects.
            checkpoint: What the state machine holds already; nothing by default. One at index 0
                may name the members that a new cluster begins with, in place of `config.voters`.
        """
        state = RaftState(
            config,
            hard_state,
            log,
            entropy,
            now_us,
            bugs,
            checkpoint or Checkpoint(log.start_index - 1, log.previous_term),
        )
        replication = Replication(state)
        super().__init__(state, replication, Transfer(state, replication))
        self._election = Election(state)
        self._reads = Reads(state, replication)
        self._announced = (Role.FOLLOWER, state.term, state.leader)
        self._announced_members = state.membership.members
        self.deadline_us = state.election_deadline_us

    def step(self, now_us: int, event: Event) -> list[Effect]:
        """Take one event and return what must be done, in order."""
        state = self._state
        if now_us > state.now_us:
            state.now_us = now_us
        if isinstance(event, Receive):
            self._on_message(event)
        elif isinstance(event, Persisted):
            self._on_persisted(event.sequence)
        elif isinstance(event, Tick):
            self._on_tick()
        elif isinstance(event, Propose):
            self._on_propose(event)
        elif isinstance(event, Read):
            self._on_read(event.read)
        elif isinstance(event, TransferLeadership):
            self._transfer.request(event.target)
        elif isinstance(event, ChangeMembers):
            self._on_change(event)
        elif isinstance(event, Vouched):
            self._election.end_probation()
        else:
            self._on_storage(event)
        return self._finish()

    def _finish(self) -> list[Effect]:
        state = self._state
        if state.role is Role.LEADER and (
            not state.is_voter or len(self._replication.followers) > len(state.others)
        ):
            self._settle_members()
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
        membership = state.membership
        if membership.members is not self._announced_members:
            self._announced_members = membership.members
            state.effects.append(MembersChanged(membership.members, membership.index))
        effects = state.finish_step()
        deadline_us = state.election_deadline_us
        if state.role is Role.LEADER:
            deadline_us = self._replication.heartbeat_deadline_us
        if self._transfer.target is not None:
            deadline_us = min(deadline_us, self._transfer.deadline_us)
        self.deadline_us = deadline_us
        return effects

    def _settle_members(self) -> None:
        """Once a removal is committed, let the removed go; a leader that is removed steps down."""
        state = self._state
        if state.membership.index > state.commit_index:
            return
        self._replication.dismiss()
        if not state.is_voter:
            self._replication.beat()
            successor = self._transfer.most_caught_up()
            if successor is not None:
                state.send(successor, TimeoutNow(state.term))
            state.become_follower(state.term, None)

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

    def _on_change(self, event: ChangeMembers) -> None:
        state = self._state
        if state.role is not Role.LEADER or self._transfer.target is not None:
            state.effects.append(Refused(event.proposal, state.leader))
            return
        membership = state.membership
        wanted = wanted_members(membership.members, event.change)
        if wanted == membership.members:
            if self.is_members_committed:
                state.effects.append(MembersKept(event.proposal))
            else:
                term = state.log.entry_at(membership.index).term
                state.effects.append(Appended(event.proposal, term, membership.index))
            return
        refusal = (
            wanted
            if isinstance(wanted, Refusal)
            else refusal_of(state, self._replication, wanted, event.change)
        )
        if isinstance(wanted, Members) and refusal is None:
            self._replication.change_members(event.proposal, wanted)
        elif refusal is not None:
            state.effects.append(ChangeRefused(event.proposal, refusal.code, refusal.text))

    def _on_storage(self, event: Compact | SnapshotSent | SnapshotInstalled) -> None:
        state = self._state
        if isinstance(event, SnapshotInstalled):
            state.install(event.index, event.term, event.members)
        elif isinstance(event, SnapshotSent):
            self._replication.on_snapshot_sent(event.to, event.index, event.ok)
        else:
            floor = self._replication.snapshot_floor
            state.compact(event.index if floor is None else min(event.index, floor))
            self._replication.on_compacted()

    def _on_read(self, read: int) -> None:
        if self._state.role is Role.LEADER:
            self._reads.ask(read)
        else:
            self._state.effects.append(ReadFailed(read))

    def _on_message(self, event: Receive) -> None:
        state = self._state
        sender, message = event.sender, event.message
        if sender in ("", state.node_id):
            return
        if isinstance(message, AppendEntries):
            on_append(state, sender, message)
        elif isinstance(message, RequestVote):
            if are_in_range(message.term, message.last_log_index, message.last_log_term):
                self._election.on_request(sender, message)
        elif self._is_stranger(sender, event.incarnation):
            return
        elif isinstance(message, AppendReply):
            self._on_append_reply(sender, message)
        elif isinstance(message, VoteReply):
            if are_in_range(message.term) and self._election.on_reply(sender, message):
                self._lead()
        else:
            self._on_timeout_now(sender, message)

    def _is_stranger(self, sender: str, incarnation: str) -> bool:
        """Whether a sender's answers mean nothing: no member, or one that lost its disk.

        Appends and requests for votes are taken from all: this server's membership may be older
        than the sender's.
        """
        state = self._state
        if sender == state.leader:
            return False
        membership = state.membership
        # One that is leaving is known from before.
        is_member = sender in membership.members.servers
        members = membership.members if is_member else membership.previous
        known = members.known_of(sender).incarnation
        if incarnation and known not in ("", incarnation):
            return True
        return sender not in state.others and sender not in self._replication.followers

    def _on_append_reply(self, sender: str, reply: AppendReply) -> None:
        state = self._state
        if not are_in_range(reply.term, reply.match_index, reply.round):
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
            and state.may_campaign
            and self._election.campaign(transfer=True)
        ):
            self._lead()
