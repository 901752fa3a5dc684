"""A machine with a clock in the test's hand: commands go through the planner's real entries."""

from __future__ import annotations

from typing import TypeVar

from atleastonce.system.broker.commands import (
    QUEUE_MODE,
    Ack,
    AckItem,
    AckStatus,
    Command,
    Configure,
    Extend,
    FireTimers,
    Pop,
    Push,
    PushItem,
    TakeBack,
)
from atleastonce.system.broker.machine import Machine
from atleastonce.system.broker.planner import Planner
from atleastonce.system.broker.queries import Depth, DlqList
from atleastonce.system.broker.replies import (
    AckedItem,
    AckReply,
    ConfigureReply,
    DeadLetter,
    DepthReply,
    DlqReply,
    ExtendReply,
    FireReply,
    PopReply,
    PushedItem,
    PushReply,
    Reply,
    TakeBackReply,
)
from atleastonce.system.bugs import NO_BUGS, Bugs

from .row_store import RowStore

START_US = 1_800_000_000_000_000
SECOND_US = 1_000_000

SomeReply = TypeVar("SomeReply", bound=Reply)


class Driver:
    """One machine, its planner, and virtual time.

    Attributes:
        machine: The machine.
        store: Where its checkpoints go.
        clock_us: What the leader's clock shows.
        entries: Every log entry so far, as (index, data).
    """

    def __init__(self, bugs: Bugs = NO_BUGS) -> None:
        self.store = RowStore()
        self.machine = Machine(bugs, self.store)
        self.clock_us = START_US
        self._bugs = bugs
        self.entries: list[tuple[int, bytes]] = []
        self._planner = Planner(lambda count: bytes(range(count)))
        self._minted = 0

    def apply(self, *commands: Command) -> list[Reply]:
        """One entry with these commands."""
        data = self._planner.plan(self.clock_us, commands)
        self.entries.append((len(self.entries) + 1, data))
        return self.machine.apply(*self.entries[-1])

    def ask(self, command: Command, kind: type[SomeReply]) -> SomeReply:
        (reply,) = self.apply(command)
        assert isinstance(reply, kind), reply
        return reply

    def advance(self, seconds: float) -> None:
        self.clock_us = max(self.clock_us, self.machine.now_us) + int(seconds * SECOND_US)

    def checkpoint(self) -> int:
        """Write what has changed; returns how many rows that is."""
        return self.store.checkpoint(self.machine)

    def restart(self) -> None:
        """Checkpoint, and go on with a machine rebuilt from the rows."""
        self.checkpoint()
        self.machine = self.store.restored(self.machine.applied_index, self._bugs)

    def request_id(self) -> str:
        self._minted += 1
        return f"request-{self._minted}"

    def push(
        self, *names: str, queue: str = "q", partition: str = "p", payload: bytes = b"1"
    ) -> list[PushedItem]:
        items = tuple(PushItem(queue, partition, name, payload) for name in names)
        return list(self.ask(Push(self.request_id(), items), PushReply).items)

    def pop(
        self,
        batch: int = 10,
        *,
        queue: str = "q",
        group: str = QUEUE_MODE,
        partition: str | None = None,
        partitions: int = 0,
        lease_s: int | None = 30,
        auto_ack: bool = False,
        request_id: str | None = None,
        asking: str = "",
        trial: int = 0,
    ) -> PopReply:
        command = Pop(
            request_id=self.request_id() if request_id is None else request_id,
            queue=queue,
            partition=partition,
            group=group,
            batch=batch,
            partitions=partitions,
            lease_s=lease_s,
            auto_ack=auto_ack,
            subscribe="all",
            asking=asking,
            trial=trial,
        )
        return self.ask(command, PopReply)

    def names(self, *arguments: int, **options: str | int | bool | None) -> list[str]:
        """Transaction ids of a pop."""
        return named(self.pop(*arguments, **options))  # type: ignore[arg-type]

    def ack(
        self,
        *acks: tuple[str, AckStatus] | str,
        lease: str = "",
        group: str = QUEUE_MODE,
        partition_id: str = "1",
        error: str = "",
        request_id: str | None = None,
    ) -> list[AckedItem]:
        """Acks in one call; a bare name is completed."""
        items = tuple(
            AckItem(ack, partition_id, "completed", lease)
            if isinstance(ack, str)
            else AckItem(ack[0], partition_id, ack[1], lease, error)
            for ack in acks
        )
        name = self.request_id() if request_id is None else request_id
        return list(self.ask(Ack(name, group, items), AckReply).items)

    def extend(self, lease: str, seconds: int) -> ExtendReply:
        return self.ask(Extend(self.request_id(), lease, seconds), ExtendReply)

    def take_back(self, lease: str, asking: str = "", trial: int = 0) -> bool:
        return self.ask(TakeBack(lease, asking, trial), TakeBackReply).taken_back

    def fire(self) -> int:
        return self.ask(FireTimers(), FireReply).fired

    def configure(self, queue: str = "q", **options: int | bool | None) -> ConfigureReply:
        return self.ask(Configure(self.request_id(), queue, options), ConfigureReply)

    def depth(self, queue: str = "q", group: str = QUEUE_MODE) -> tuple[int, int, int]:
        """(pending, processing, ready) of the queue."""
        reply = self.machine.read(Depth(queue, group), self.clock_us)
        assert isinstance(reply, DepthReply)
        counts = reply.partitions
        assert counts is not None
        return (
            sum(count.pending for count in counts),
            sum(count.processing for count in counts),
            sum(count.ready for count in counts),
        )

    def dead(self, queue: str = "q") -> list[DeadLetter]:
        """Dead letters, newest first."""
        reply = self.machine.read(DlqList(queue), self.clock_us)
        assert isinstance(reply, DlqReply)
        return list(reply.letters)

    def can_pop(self, group: str = QUEUE_MODE, queue: str = "q", request_id: str = "") -> bool:
        command = Pop(request_id=request_id, queue=queue, group=group, subscribe="all")
        return self.machine.can_pop(command, self.clock_us)


def named(reply: PopReply) -> list[str]:
    return [message.transaction_id for run in reply.runs for message in run.messages]


def attempts(reply: PopReply) -> list[int]:
    return [run.attempt for run in reply.runs]
