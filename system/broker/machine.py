"""The replicated state machine: committed batches in, replies out; deterministic, clock-free."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ..bugs import NO_BUGS, Bugs
from .acks import ack
from .administration import configure, declare_ring, delete_queue, remove_ring
from .administrative import (
    AddTrace,
    DeleteGroup,
    PurgeDeadLetters,
    ReplayDeadLetter,
    Resubscribe,
    SeekGroup,
)
from .aging import retain
from .aging_records import Retain
from .aging_walk import AgingWalk
from .commands import (
    Ack,
    Command,
    Configure,
    Cycle,
    DeleteDeadLetter,
    DeleteQueue,
    Extend,
    FireTimers,
    Pop,
    Push,
    RegisterQuery,
    TakeBack,
    Timers,
    Transaction,
    decode_batch,
)
from .dead_letters import delete_dead_letter, purge_dead_letters, replay_dead_letter
from .digest import digest
from .ephemeral_options import DeclareRing, RemoveRing
from .foresight import finds_behind, partitions_made_ready
from .groups import delete_group, resubscribe, seek_group
from .kv import settle_kv
from .kv_operations import Kv, Locks
from .locks import settle_locks
from .mint import Mint
from .pops import extend, must_enter_log, nothing, pop, take_back
from .pushes import fire_timers, push
from .queries import Query
from .queue import Queue
from .reads import read
from .replies import PopReply, Reply, TimersReply
from .row_reading import restore_state
from .row_writing import Written, take_rows
from .rows import MessageStore, Row
from .state import State
from .streams import cycle, register_query
from .survey import Survey, survey
from .traces import add_trace
from .transactions import transact

Administrative = (
    DeleteDeadLetter
    | PurgeDeadLetters
    | ReplayDeadLetter
    | DeleteGroup
    | SeekGroup
    | Resubscribe
    | AddTrace
    | Retain
    | DeclareRing
    | RemoveRing
)


class Machine:
    """One node's copy of the broker's state.

    Only `apply` changes what replicas must agree on. Everything else may be called at any time
    between two applies, on any node. A node that becomes leader makes its
    `Planner(entropy, machine.now_us)` from this machine.

    Attributes:
        applied_index: Log index of the last entry applied, 0 before the first.
    """

    def __init__(self, bugs: Bugs = NO_BUGS, messages: MessageStore | None = None) -> None:
        """Start from nothing.

        Args:
            bugs: Planted defects.
            messages: Reads the payloads that a checkpoint has made durable, see
                `changes_durable`; None keeps all of them in memory.
        """
        self.applied_index = 0
        self._bugs = bugs
        self._state = State(bugs, messages)
        self._taken: Written | None = None
        self._aging = AgingWalk(self._state)

    @classmethod
    def restore(
        cls,
        rows: Iterable[tuple[bytes, bytes]],
        applied_index: int,
        bugs: Bugs = NO_BUGS,
        messages: MessageStore | None = None,
    ) -> Machine:
        """Rebuild a machine from the rows of a checkpoint. Cost: the rows.

        Args:
            rows: All rows, in the order of their keys. Those of payloads may be left out; they are
                read from `messages` as they are needed.
            applied_index: Log index up to which they hold.
            bugs: Planted defects.
            messages: See the class.

        Raises:
            DamagedRowError: No state can be rebuilt from these rows.
        """
        machine = cls(bugs, messages)
        machine._state = restore_state(rows, bugs, messages)
        machine._aging = AgingWalk(machine._state)
        machine.applied_index = applied_index
        return machine

    def take_over(self, other: Machine) -> None:
        """Become another machine, so that all who hold this one see that one's state.

        For a state that was received whole. The other one must not be used any more.

        Cost: the cursors that there were, which are given back.
        """
        old = self._state
        vars(self).update(vars(other))
        old.close()

    def take_changes(self) -> list[Row]:
        """Rows that differ from those taken before; all of them, after a start from nothing.

        Each key comes once; the order does not matter. Commit them in one transaction with
        `applied_index`, then call `changes_durable`, then take the next ones.

        Cost: what has changed since the last call.
        """
        assert self._taken is None, "changes were taken and are not durable yet"
        rows, self._taken = take_rows(self._state)
        return rows

    def changes_durable(self) -> None:
        """The rows taken last are committed: their payloads may leave memory."""
        assert self._taken is not None, "no changes were taken"
        state, taken = self._state, self._taken
        if state.messages is not None:
            for run in taken.runs:
                run.lose_body()
            for timer in taken.timers:
                state.timers.lose_payload(timer)
            for letter in taken.letters:
                state.lose_letter_payload(letter)
        self._taken = None

    @property
    def now_us(self) -> int:
        """The last applied stamp, UTC microseconds."""
        return self._state.now_us

    def apply(self, log_index: int, data: bytes, is_awaited: bool = True) -> list[Reply]:
        """Apply one committed COMMAND entry; one reply for each command, in order.

        Args:
            log_index: Of the entry.
            data: Of the entry.
            is_awaited: Whether somebody here waits for the replies. When nobody does, the runs of
                pops carry no messages, and no payload is read.

        Raises:
            ValueError: The data is not a batch; nothing was applied.
        """
        batch = decode_batch(data)
        state = self._state
        assert log_index > self.applied_index, f"index {log_index} after {self.applied_index}"
        assert batch.now_us > state.now_us, f"stamp {batch.now_us} after {state.now_us}"
        self.applied_index = log_index
        state.now_us = batch.now_us
        state.is_awaited = is_awaited
        state.touched.update(state.readiness.promote(batch.now_us))
        state.outcomes.forget(batch.now_us)
        state.kv.sweep(batch.now_us)
        mint = Mint(batch.now_us, batch.seed)
        return [_apply_command(state, mint, command) for command in batch.commands]

    def become_leader(self) -> None:
        """Call once this node leads and has applied the first entry of its term."""
        if "dedup-lost-on-failover" in self._bugs:
            self._state.dedup_since_us = self._state.now_us
        if "ack-forgotten-on-failover" in self._bugs:
            self._state.forget_released()

    def read(self, query: Query, now_us: int) -> Reply:
        """Answer a query as of max(now_us, last stamp)."""
        return read(self._state, query, max(now_us, self._state.now_us))

    def can_pop(self, command: Pop, now_us: int) -> bool:
        """Whether the pop must enter the log now.

        It must when it would claim something, when it would get an earlier claim of the same
        request again, and when it is a first contact (it creates its queue, registers its group or
        seeds its cursor). A first contact may still be answered empty, and so may a pop that
        another one overtook: park it and ask again when its queue is touched.

        Cost: constant, plus the leases and holds that ran out since the last apply.
        """
        return must_enter_log(self._state, command, max(now_us, self._state.now_us))

    def can_pop_behind(self, command: Pop, ahead: int, now_us: int) -> bool:
        """As `can_pop`, behind `ahead` pops of the same lane that are in the log already."""
        return finds_behind(self._state, command, ahead, max(now_us, self._state.now_us))

    def partitions_made_ready(self, push: Push, command: Pop, now_us: int) -> list[str]:
        """Partitions that a push will make ready for a waiting pop; a guess, see `foresight`."""
        return partitions_made_ready(self._state, push, command, max(now_us, self._state.now_us))

    def nothing(self, command: Pop) -> PopReply:
        """What a pop is answered that finds nothing."""
        return nothing(self._state, command)

    def take_touched(self) -> set[str]:
        """Queues whose readiness or logs may have changed since the last call."""
        touched, self._state.touched = self._state.touched, set()
        return touched

    def next_due_us(self, after_us: int = 0) -> int | None:
        """Earliest instant later than `after_us` at which time can make something ready.

        That is a lease's expiry, the end of a hold, or a timer; None when there is none. It may
        change with every apply, and it may name the expiry of a lease that is gone by now: waking
        up then finds nothing. Cost: what ran out since the last apply.
        """
        due_us = self._state.readiness.next_due_us(after_us)
        timer_us = self._state.timers.next_due_us()
        if timer_us is not None and timer_us > after_us and (due_us is None or timer_us < due_us):
            return timer_us
        return due_us

    def due_queues(self, now_us: int) -> list[str]:
        """Queues in which time alone has made something ready since the last apply."""
        overdue = self._state.readiness.overdue(now_us)
        return list(dict.fromkeys(cursor.group.queue.name for cursor in overdue))

    def due_timers(self, now_us: int) -> Command | None:
        """FireTimers when a timer is due by `now_us`, else None.

        Do not propose a second one while one is in flight. A planner never stamps earlier than the
        clock that was asked here, so the timer is due when the entry is applied.
        """
        timer_us = self._state.timers.next_due_us()
        return FireTimers() if timer_us is not None and timer_us <= now_us else None

    def due_retention(self, now_us: int) -> Command | None:
        """The next step of the search for what is too old: Retain when it has found something.

        Do not propose a second one while one is in flight. Cost: bounded, see `aging_walk`.
        """
        return self._aging.step(now_us)

    @property
    def next_retention_us(self) -> int:
        """When `due_retention` looks further; before that it does nothing."""
        return self._aging.next_us

    def survey(self, matches: Callable[[Queue], bool], now_us: int) -> Survey:
        """Add up the queues that match, in steps; see `survey`. Cost: a step at a time."""
        return survey(self._state, matches, max(now_us, self._state.now_us))

    def queue_of(self, partition_id: str) -> str | None:
        """The name of a partition's queue."""
        partition = self._state.partition_by_id(partition_id)
        return None if partition is None else partition.queue

    @property
    def declared_rings(self) -> Mapping[str, DeclareRing]:
        """What is declared of ephemeral queues, by name; a view that stays current."""
        return self._state.rings

    def digest(self) -> str:
        """Hash of the replicated state: equal on replicas that applied the same log."""
        return digest(self._state)


def _apply_command(state: State, mint: Mint, command: Command) -> Reply:
    match command:
        case Push():
            return push(state, mint, command)
        case Pop():
            return pop(state, mint, command)
        case Ack():
            return ack(state, mint, command)
        case Extend():
            return extend(state, command)
        case Transaction():
            return transact(state, mint, command)
        case Timers():
            return _apply_timers(state, mint, command)
        case FireTimers():
            return fire_timers(state, mint, command)
        case TakeBack():
            return take_back(state, command)
        case Configure():
            return configure(state, mint, command)
        case DeleteQueue():
            return delete_queue(state, command)
        case Kv():
            return settle_kv(state.kv, state.outcomes, command, state.now_us)
        case Locks():
            return settle_locks(state, mint, command)
        case RegisterQuery():
            return register_query(state, mint, command)
        case Cycle():
            return cycle(state, mint, command)
        case _:
            return _administer(state, mint, command)


def _administer(state: State, mint: Mint, command: Administrative) -> Reply:
    match command:
        case DeleteDeadLetter():
            return delete_dead_letter(state, command)
        case PurgeDeadLetters():
            return purge_dead_letters(state, command)
        case ReplayDeadLetter():
            return replay_dead_letter(state, mint, command)
        case DeleteGroup():
            return delete_group(state, command)
        case SeekGroup():
            return seek_group(state, command)
        case Resubscribe():
            return resubscribe(state, command)
        case AddTrace():
            return add_trace(state, mint, command)
        case Retain():
            return retain(state, command)
        case DeclareRing():
            return declare_ring(state, command)
        case RemoveRing():
            return remove_ring(state, command)


def _apply_timers(state: State, mint: Mint, command: Timers) -> TimersReply:
    first = state.outcomes.first("timers", command.request_id)
    if isinstance(first, TimersReply):
        return first
    results = [
        state.timers.apply(operation, mint, state.now_us) for operation in command.operations
    ]
    reply = TimersReply(tuple(results))
    state.outcomes.remember("timers", command.request_id, reply, state.now_us)
    return reply
