"""A random log of every kind of command, from a seed; prints the digests that it leads to.

Run as a script by the determinism test, under several values of PYTHONHASHSEED.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator

from atleastonce.system.broker.administrative import (
    AddTrace,
    DeleteGroup,
    PurgeDeadLetters,
    ReplayDeadLetter,
    Resubscribe,
    SeekGroup,
)
from atleastonce.system.broker.aging_records import Retain
from atleastonce.system.broker.commands import (
    QUEUE_MODE,
    Ack,
    AckItem,
    CancelTimer,
    Command,
    Configure,
    Cycle,
    CycleAck,
    DeleteDeadLetter,
    DeleteQueue,
    Extend,
    FireTimers,
    Pop,
    Push,
    PushItem,
    RegisterQuery,
    ScheduleTimer,
    StateOperation,
    TakeBack,
    Timers,
    Transaction,
    TransactionAck,
    TransactionPush,
)
from atleastonce.system.broker.ephemeral_options import DeclareRing, RemoveRing, RingOptions
from atleastonce.system.broker.kv_operations import (
    AcquireLock,
    Kv,
    KvCheck,
    KvDelete,
    KvGetPrefix,
    KvIncr,
    KvOperation,
    KvPut,
    Locks,
    ReleaseLock,
    RenewLock,
)
from atleastonce.system.broker.machine import Machine
from atleastonce.system.broker.planner import Planner
from atleastonce.system.broker.position_records import Positions, SetPosition
from atleastonce.system.broker.queries import GroupList, KvRead, MessageList, QueueList
from atleastonce.system.broker.replies import PopReply
from atleastonce.system.broker.stream_replies import QueryRegistered

QUEUES = ("q", "shop.orders")
GROUPS = (QUEUE_MODE, "g", "h")
STATUSES = ("completed", "completed", "failed", "retry", "dlq")


class LogWriter:
    """Grows a log on a leader's machine, which is also asked questions between the entries."""

    def __init__(self, seed: int) -> None:
        self.machine = Machine()
        self.entries: list[bytes] = []
        self._random = random.Random(seed)
        self._planner = Planner(self._random.randbytes)
        self._clock_us = 1_800_000_000_000_000
        self._leases = ["none"]
        self._query_id = "none"

    def grow(self, count: int) -> None:
        """Append entries of one to four commands."""
        for _ in range(count):
            self._clock_us += self._random.choice((0, 1000, 900_000, 20_000_000))
            commands = [self._command() for _ in range(self._random.randint(1, 4))]
            self._ask_questions()
            self.entries.append(self._planner.plan(self._clock_us, commands))
            replies = self.machine.apply(len(self.entries), self.entries[-1])
            claims = [reply for reply in replies if isinstance(reply, PopReply)]
            self._leases += [reply.lease_id for reply in claims if reply.lease_id]
            for reply in replies:
                if isinstance(reply, QueryRegistered):
                    self._query_id = reply.query_id

    def _ask_questions(self) -> None:
        pop = Pop(request_id="", queue=self._queue(), group=self._group())
        self.machine.can_pop(pop, self._clock_us)
        self.machine.next_due_us(self._clock_us)
        self.machine.due_queues(self._clock_us)
        self.machine.due_timers(self._clock_us)
        self.machine.due_retention(self._clock_us)
        self.machine.take_touched()
        for query in (
            KvRead((KvGetPrefix("ns", "k"),)),
            QueueList(),
            GroupList(),
            Positions(self._group()),
            MessageList(0, self._clock_us, limit=3),
        ):
            self.machine.read(query, self._clock_us)

    def _queue(self) -> str:
        return self._random.choice(QUEUES)

    def _group(self) -> str:
        return self._random.choice(GROUPS)

    def _name(self) -> str:
        return f"m{self._random.randrange(40)}"

    def _request(self) -> str:
        return f"r{self._random.randrange(60)}"

    def _lease(self) -> str:
        return self._random.choice(self._leases[-6:])

    def _item(self) -> PushItem:
        partition = f"p{self._random.randrange(6)}"
        return PushItem(self._queue(), partition, self._name(), b'{"n":1}')

    def _ack_item(self) -> AckItem:
        status = self._random.choice(STATUSES)
        lease = self._lease() if self._random.random() < 0.7 else ""
        partition_id = str(self._random.randint(1, 14))
        return AckItem(self._name(), partition_id, status, lease)  # type: ignore[arg-type]

    def _pop(self) -> Pop:
        return Pop(
            request_id=self._request(),
            queue=self._queue(),
            partition=f"p{self._random.randrange(6)}" if self._random.random() < 0.2 else None,
            group=self._group(),
            batch=self._random.randint(1, 8),
            partitions=self._random.randint(0, 3),
            lease_s=self._random.choice((None, 1, 30)),
            auto_ack=self._random.random() < 0.1,
            subscribe=self._random.choice(("all", "new")),
            autopilot=self._random.choice(("", "", "both")),
            conflation=self._random.choice((None, None, None, False, True)),
        )

    def _timers(self) -> tuple[ScheduleTimer | CancelTimer, ...]:
        key = f"k{self._random.randrange(10)}"
        if self._random.random() < 0.3:
            return (CancelTimer(self._queue(), key),)
        return (ScheduleTimer(self._queue(), key, 5000, self._name(), b"1"),)

    def _positions(self) -> tuple[SetPosition, ...]:
        if self._random.random() < 0.6:
            return ()
        partition, offset = f"p{self._random.randrange(8)}", self._random.randrange(-1, 9)
        note = self._random.choice(("", "mine"))
        place = (self._queue(), partition, self._group(), None if offset < 0 else offset)
        return (SetPosition(*place, note, self._random.random() < 0.5),)

    def _kv(self) -> tuple[KvOperation, ...]:
        return tuple(self._kv_operation() for _ in range(self._random.randint(1, 3)))

    def _kv_operation(self) -> KvOperation:
        key, dice = f"k{self._random.randrange(6)}", self._random.randrange(4)
        expect = self._random.choice((None, None, 0, self._random.randrange(40)))
        required = self._random.random() < 0.3
        ttl_s = self._random.choice((None, 1, 30))
        if dice == 0:
            return KvPut("ns", key, b"1", ttl_s, expect, required)
        if dice == 1:
            return KvIncr("ns", key, self._random.choice((1, -2, 0.5)), ttl_s, -9, 9, required)
        if dice == 2:
            return KvDelete("ns", key, expect, required)
        return KvCheck("ns", key, expect or 0, required)

    def _locks(self) -> Locks:
        owner, token = self._random.choice("abc"), self._random.randrange(1, 60)
        operations = (
            AcquireLock("l", self._random.choice((1, 60)), owner, 2),
            RenewLock("l", token, 30, owner=owner),
            ReleaseLock("l", token),
        )
        return Locks(self._request(), (self._random.choice(operations),))

    def _cycle(self) -> Cycle:
        ack = CycleAck(self._name(), self._lease(), "completed", self._random.randrange(4))
        value = self._random.choice((None, b"1"))
        return Cycle(
            self._request(),
            self._query_id,
            str(self._random.randint(1, 14)),
            self._group(),
            (StateOperation("k", value),),
            (self._item(),),
            self._random.choice((None, ack)),
            self._random.random() < 0.5,
        )

    def _administration(self) -> Command:
        request, queue, group = self._request(), self._queue(), self._group()
        instant_us = self._clock_us - self._random.randrange(60_000_000)
        partition = self._random.choice((None, "p1"))
        return self._random.choice(
            (
                DeleteGroup(
                    request, group, self._random.choice((None, queue)), self._random.random() < 0.5
                ),
                SeekGroup(
                    request, group, queue, self._random.choice((None, instant_us)), partition
                ),
                Resubscribe(request, group, instant_us),
                ReplayDeadLetter(request, "", "1", self._name()),
                PurgeDeadLetters(request, queue, group),
                DeclareRing(queue, RingOptions(max_length=self._random.randrange(9)), b"{}"),
                RemoveRing(request, queue),
                Retain(tuple(str(number) for number in range(1, 15)), QUEUES, 20),
                RegisterQuery(request, "query", "h", self._random.random() < 0.2),
                self._cycle(),
                AddTrace(request, "1", self._name(), group, ("n",), "info", b"{}"),
                Pop(request_id=request, queue="", group=group, namespace="shop", batch=3),
            )
        )

    def _command(self) -> Command:
        dice = self._random.random()
        if dice < 0.1:
            return Kv(self._request(), self._kv())
        if dice < 0.14:
            return self._locks()
        if dice < 0.22:
            return self._administration()
        return next(self._choices())

    def _choices(self) -> Iterator[Command]:
        dice = self._random.randrange(100)
        if dice < 30:
            yield Push(self._request(), tuple(self._item() for _ in range(3)))
        if dice < 55:
            yield self._pop()
        if dice < 75:
            items = tuple(self._ack_item() for _ in range(self._random.randint(1, 4)))
            yield Ack(self._request(), self._group(), items)
        if dice < 80:
            yield Extend(self._request(), self._lease(), 40)
        if dice < 85:
            operations = (
                TransactionAck(self._ack_item(), self._group()),
                TransactionPush(self._item()),
            )
            yield Transaction(
                self._request(), operations, (), self._timers(), self._kv(), self._positions()
            )
        if dice < 90:
            yield Timers(self._request(), self._timers())
        if dice < 93:
            yield FireTimers()
        if dice < 96:
            yield TakeBack(self._lease())
        if dice < 98:
            window = self._random.choice((0, 1, 20))
            options: dict[str, int | bool | None] = {
                "windowBuffer": window,
                "dedupWindowSeconds": window,
                "retryLimit": 1,
                "retentionEnabled": True,
                "completedRetentionSeconds": self._random.choice((0, 5)),
                "maxWaitTimeSeconds": self._random.choice((0, 60)),
            }
            yield Configure(self._request(), self._queue(), options)
        if dice < 99:
            yield DeleteDeadLetter(self._request(), "1", self._name())
        yield DeleteQueue(self._request(), "shop.orders")


def digests(entries: list[bytes]) -> list[str]:
    """Digests of a fresh machine after every fiftieth entry and at the end."""
    machine = Machine()
    found = []
    for index, data in enumerate(entries, start=1):
        machine.apply(index, data)
        if index % 50 == 0:
            found.append(machine.digest())
    return [*found, machine.digest()]


def main() -> None:
    writer = LogWriter(int(sys.argv[1]))
    writer.grow(int(sys.argv[2]))
    sys.stdout.write("\n".join(digests(writer.entries)) + "\n")


if __name__ == "__main__":
    main()
