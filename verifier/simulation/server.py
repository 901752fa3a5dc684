"""One simulated node: a Raft core between the simulated disk, network, clock and clients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from ...system.bugs import Bugs
from ...system.raft.core import (
    Appended,
    Apply,
    ChangeMembers,
    ChangeRefused,
    Checkpoint,
    Event,
    LeadershipChanged,
    MemberRegressed,
    Members,
    MembersChanged,
    MembersKept,
    Persist,
    Persisted,
    Propose,
    RaftConfig,
    RaftCore,
    Read,
    ReadFailed,
    ReadReady,
    Receive,
    Refused,
    Role,
    Send,
    SendSnapshot,
    Tick,
    TransferDone,
)
from ...system.raft.events import Change
from ...system.raft.members import Known
from ...system.raft.messages import AppendReply, Entry, Message, RequestVote, VoteReply
from ...system.raft.recovery import recovered_log
from .counters import Counters
from .disk import SimulatedDisk
from .knobs import Knobs
from .oracles import Oracles, OracleViolationError, number_of, violation_of
from .replica import Replica
from .scheduler import Scheduler
from .streams import Stream

Answer = Callable[[int, bool, int], None]
"""Called with an operation, whether it succeeded, and the log index it took or saw."""

LEARNER_LAG_MAX: Final = 20
"""Entries that a learner may lack when it is promoted: few, so that the limit matters."""

_DIGEST_MASK = 2**61 - 1


def first_identities(knobs: Knobs) -> tuple[str, ...]:
    """Return the data directories that a run's first members begin with."""
    return tuple(f"n{node + 1}.0" for node in range(knobs.nodes))


def first_members(knobs: Knobs) -> Members:
    """Return the membership that a run begins with."""
    names = tuple(f"n{node + 1}" for node in range(knobs.nodes))
    return Members(names, (), tuple(Known(name, f"{name}.0") for name in names))


class Proposed(NamedTuple):
    """A proposal that waits for its last entry to be applied."""

    operation: int
    term: int


class Server:
    """A node that can crash, restart, pause and go on.

    While down it loses everything but its disk; while paused it takes nothing in, and finds it
    all waiting when it goes on.

    Attributes:
        core: The core of the present incarnation.
        is_down: Crashed.
        is_paused: Stopped, with its memory intact.
        on_write: Called with each write handed to the disk, after the step's effects.
        on_win: Called when this node becomes leader.
        on_snapshot_wanted: Called with what a leader's core asks for.
        replica: The state machine of the present incarnation.
        identity: Which data directory this is.
        digest: Changes with everything the core was given and did.
    """

    def __init__(
        self,
        seed: int,
        node: int,
        knobs: Knobs,
        bugs: Bugs,
        scheduler: Scheduler,
        oracles: Oracles,
        counters: Counters,
        send: Callable[[int, int, Message, str], None],
        answer: Answer,
    ) -> None:
        self.node = node
        self.name = f"n{node + 1}"
        self.identity = f"{self.name}.0"
        self._knobs = knobs
        self._bugs = bugs
        self._scheduler = scheduler
        self._oracles = oracles
        self._counters = counters
        self._send = send
        self._answer = answer
        self._stream = Stream(seed, f"node:{node}")
        self.disk = SimulatedDisk(
            node, knobs, scheduler, Stream(seed, f"disk:{node}"), oracles, self._on_synced
        )
        self._replica_stream = Stream(seed, f"replica:{node}")
        if node < knobs.nodes:
            self.disk.log.checkpoint = Checkpoint(members=first_members(knobs))
        self.on_snapshot_wanted: Callable[[Server, str, int], None] | None = None
        self.on_write: Callable[[Server, Persist], None] | None = None
        self.on_win: Callable[[Server], None] | None = None
        self.is_down = True
        self.is_paused = False
        self.is_activating = False
        self.incarnation = 0
        self.digest = 0
        self.boot()

    def _config(self) -> RaftConfig:
        knobs = self._knobs
        return RaftConfig(
            node_id=self.name,
            voters=(),
            election_ms_min=knobs.election_ms_min,
            election_ms_max=2 * knobs.election_ms_min,
            heartbeat_ms=knobs.heartbeat_ms,
            max_append_entries=knobs.max_append_entries,
            max_append_bytes=knobs.max_append_bytes,
            max_inflight_appends=knobs.max_inflight_appends,
            incarnation=self.identity,
            learner_lag_max=LEARNER_LAG_MAX,
            # The first members are new together; whoever is new later may have been wiped.
            on_probation=self.identity not in first_identities(knobs),
        )

    @property
    def applied_index(self) -> int:
        """The last entry applied."""
        return self.replica.applied_index

    def boot(self) -> None:
        """Start from what the disk remembers."""
        self.is_down = False
        self.is_paused = False
        self.is_activating = False
        self.incarnation += 1
        self._inbox: list[Event] = []
        self._tick_us = 0
        self._proposed: dict[int, Proposed] = {}
        self._reading: list[tuple[int, int]] = []
        disk = self.disk
        log, reset = recovered_log(disk.log.entries, disk.log.start_index, disk.log.checkpoint)
        if reset is not None:
            disk.reset(reset)
        self.replica = Replica(
            self.node,
            self._knobs,
            disk,
            self._oracles,
            self._counters,
            self._replica_stream,
            self.take,
        )
        self._commit_index = disk.log.checkpoint.index
        self.core = RaftCore(
            self._config(),
            disk.hard_state,
            log,
            self._stream.between,
            self._scheduler.now_us,
            self._bugs,
            disk.log.checkpoint,
        )
        self._arm()

    def wipe(self) -> None:
        """Lose the disk too, after a crash; another, empty one takes its place."""
        assert self.is_down, f"{self.name} is wiped while it runs"
        self._counters.wipes += 1
        self._oracles.on_wipe(self.node, self.identity)
        self.identity = f"{self.name}.{int(self.identity.partition('.')[2]) + 1}"
        self.disk.wipe()

    def crash(self, survivors: int | None = None) -> None:
        """Lose memory and un-synced writes; see `SimulatedDisk.crash`."""
        self.is_down = True
        self.is_paused = False
        self._counters.crashes += 1
        self.disk.crash(survivors)

    def pause(self) -> None:
        """Stop taking anything in."""
        self.is_paused = True

    def go_on(self) -> None:
        """Take in what waited: sometimes the clock is seen first, sometimes the messages."""
        self.is_paused = False
        waiting, self._inbox = self._inbox, []
        late = Tick()
        if self._stream.chance(0.5):
            self.take(late)
        for event in waiting:
            self.take(event)
        self.take(late)

    def _arm(self) -> None:
        deadline_us = self.core.deadline_us
        if not self._tick_us or deadline_us < self._tick_us:
            self._tick_us = max(deadline_us, self._scheduler.now_us)
            self._scheduler.after(
                self._tick_us - self._scheduler.now_us,
                self._on_timer,
                self.incarnation,
                self._tick_us,
            )

    def _on_timer(self, incarnation: int, tick_us: int) -> None:
        if incarnation != self.incarnation or self.is_down or tick_us != self._tick_us:
            return
        self._tick_us = 0
        if self.is_paused:
            return
        if self._scheduler.now_us >= self.core.deadline_us:
            self.take(Tick())
        else:
            self._arm()

    def _on_synced(self, sequence: int) -> None:
        self.take(Persisted(sequence))

    def deliver(self, sender: str, message: Message, incarnation: str) -> None:
        """A message arrives."""
        self.take(Receive(sender, message, incarnation))

    def propose(self, operation: int, payloads: tuple[bytes, ...]) -> None:
        """A client's write arrives."""
        self.take(Propose(operation, payloads))

    def change(self, operation: int, change: Change) -> None:
        """The operator's wish arrives."""
        self.take(ChangeMembers(operation, change))

    def begin_activation(self) -> None:
        """A snapshot is to be activated."""
        self.is_activating = True
        self.replica.begin_activation()

    def end_activation(self, checkpoint: Checkpoint, state: int) -> None:
        """A snapshot is activated, if it still tells anything new."""
        wanted = self.core.wants_snapshot(checkpoint.index)
        applied = self.replica.end_activation(checkpoint, state, wanted)
        self.is_activating = False
        self._on_applied(applied)

    def read(self, operation: int) -> None:
        """A client's read arrives."""
        self.take(Read(operation))

    def take(self, event: Event) -> None:
        """Give the core an event and carry out the effects, unless down or paused."""
        if self.is_down:
            return
        if self.is_paused:
            self._inbox.append(event)
            return
        try:
            effects = self.core.step(self._scheduler.now_us, event)
        except AssertionError as error:
            raise violation_of(error) from error
        core = self.core
        self.digest = (
            self.digest * 1_000_003
            + self._scheduler.now_us * 31
            + len(effects) * 7
            + core.last_index
            + core.term * 1009
        ) & _DIGEST_MASK
        if core.commit_index > self._commit_index:
            first = max(self._commit_index + 1, core.log.start_index)
            self._commit_index = core.commit_index
            self._oracles.on_commit(
                self.node, core.term, core.log, first, core.commit_index, core.members
            )
        persist: Persist | None = None
        for effect in effects:
            if isinstance(effect, Send):
                self._on_send(effect)
            elif isinstance(effect, Persist):
                persist = effect
                self.disk.submit(effect, core.term)
                if effect.truncate_from is not None:
                    self._counters.truncations += 1
            elif isinstance(effect, Apply):
                self._on_applied(self.replica.apply(effect.entries))
            else:
                self._on_outcome(effect, event)
        if persist is not None and self.on_write is not None:
            self.on_write(self, persist)
        if not self.is_down:
            self._arm()

    def _on_send(self, effect: Send) -> None:
        message = effect.message
        target = number_of(effect.to)
        if isinstance(message, VoteReply):
            if message.granted and not message.pre_vote:
                self._oracles.on_vote(self.node, message.term, target, self.identity)
        elif isinstance(message, RequestVote):
            if not message.pre_vote:
                self._oracles.on_vote(self.node, message.term, self.node, self.identity)
        elif isinstance(message, AppendReply) and not message.success:
            self._counters.refusals += 1
        self._send(self.node, target, message, self.identity)

    def _on_applied(self, entries: Sequence[Entry]) -> None:
        if self._proposed:
            for entry in entries:
                proposed = self._proposed.pop(entry.index, None)
                if proposed is not None:
                    is_own = entry.term == proposed.term or "ack-wrong-term" in self._bugs
                    self._answer(proposed.operation, is_own, entry.index)
        if self._reading:
            self._serve_reads()

    def _serve_reads(self) -> None:
        waiting, self._reading = self._reading, []
        for operation, log_index in waiting:
            if self.applied_index >= log_index:
                self._answer(operation, True, self.applied_index)
            else:
                self._reading.append((operation, log_index))

    def _on_outcome(self, effect: object, event: Event) -> None:
        if isinstance(effect, Appended):
            count = len(event.payloads) if isinstance(event, Propose) else 1
            last_index = effect.first_index + count - 1
            self._proposed[last_index] = Proposed(effect.proposal, effect.term)
        elif isinstance(effect, Refused | ChangeRefused):
            self._answer(effect.proposal, False, 0)
        elif isinstance(effect, MembersKept):
            self._answer(effect.proposal, True, 0)
        elif isinstance(effect, SendSnapshot):
            if self.on_snapshot_wanted is not None:
                self.on_snapshot_wanted(self, effect.to, effect.index_min)
        elif isinstance(effect, MemberRegressed):
            raise OracleViolationError(
                "kept-entries", f"{self.name} misses {effect.match_index} on {effect.node}"
            )
        elif isinstance(effect, MembersChanged):
            self.digest = (self.digest * 31 + effect.index) & _DIGEST_MASK
        elif isinstance(effect, ReadReady):
            self._reading.append((effect.read, effect.log_index))
            self._serve_reads()
        elif isinstance(effect, ReadFailed):
            self._answer(effect.read, False, 0)
        elif isinstance(effect, LeadershipChanged):
            if effect.role is Role.LEADER:
                self._counters.elections += 1
                if self.core.members.voters == (self.name,):
                    # It asks nobody, so its vote for itself is not seen otherwise.
                    self._oracles.on_vote(self.node, effect.term, self.node, self.identity)
                self._oracles.on_leader(self.node, effect.term, self.core.log, self.core.members)
                if self.on_win is not None:
                    self.on_win(self)
        elif isinstance(effect, TransferDone):
            if effect.ok:
                self._counters.transfers += 1
        else:
            raise AssertionError(f"unknown effect {effect!r} of {event!r}")
