"""The machine against an independent model of the consume rules, under random histories."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
)

from atleastonce.system.broker.administrative import SeekGroup
from atleastonce.system.broker.aging_records import Retain
from atleastonce.system.broker.commands import (
    QUEUE_MODE,
    AckItem,
    AckStatus,
    PushItem,
    Transaction,
    TransactionAck,
    TransactionPush,
)
from atleastonce.system.broker.replies import AckedItem, TransactionReply

from .broker_driver import SECOND_US, Driver
from .consume_model import Expected, Model

PARTITIONS = ("p", "r")
GROUPS = (QUEUE_MODE, "g")
RETRY_LIMIT = 1
MAX_AGE_S = 61
NAMES = st.integers(0, 59).map(lambda number: f"m{number}")
STATUSES: st.SearchStrategy[AckStatus] = st.sampled_from(
    ["completed", "completed", "completed", "failed", "retry", "dlq"]
)
ACKS = st.lists(st.tuples(st.integers(-1, 5), STATUSES), min_size=1, max_size=5)
"""(distance from the first message behind the cursor, status)"""

SIGNALS = st.tuples(
    st.sampled_from([[], [], [], ["completed"]]),
    st.sampled_from(["failed", "failed", "retry", "retry", "dlq"]),
    st.lists(st.sampled_from(["completed", "failed", "retry"]), max_size=3),
)
"""Statuses of neighbours: completed ones, what is not completed, and what follows."""

Taken = tuple[str, str]
Acks = list[tuple[str, AckStatus]]


def seen(item: AckedItem) -> Expected:
    word = next((w for w in ("consumer", "lease", "unresolv", "committed") if w in item.error), "")
    return (item.success, word, item.lease_released, item.dlq, item.noop)


class ConsumeRules(RuleBasedStateMachine):
    """Leases are kept in a bundle, so that old ones are tried again."""

    leases: Bundle[Taken] = Bundle("leases")

    delay_s = window_s = 0

    def __init__(self) -> None:
        super().__init__()
        self.driver = Driver()
        self.model = Model(RETRY_LIMIT, self.delay_s, self.window_s, MAX_AGE_S)
        self.driver.configure("q", **self.model.options)
        self.used: set[str] = set()
        self.registered: set[str] = set()
        self.requests: dict[str, tuple[str, int]] = {}

    @property
    def next_us(self) -> int:
        """The stamp of the next entry."""
        return max(self.driver.clock_us, self.driver.machine.now_us + 1)

    @initialize(target=leases, group=st.sampled_from(GROUPS))
    def some_are_there(self, group: str) -> MultipleResults[Taken] | Taken:
        self.push("p", ["m0", "m1", "m2", "m3"])
        return self.pop(group, 3, 0, 10)

    @rule(partition=st.sampled_from(PARTITIONS), names=st.lists(NAMES, min_size=1, max_size=4))
    def push(self, partition: str, names: list[str]) -> None:
        now = self.next_us
        results = self.driver.push(*names, partition=partition)
        assert [item.status for item in results] == [
            self.model.push(partition, name, now) for name in names
        ]
        log = self.model.logs[partition]
        assert [item.offset for item in results] == [log.index(name) for name in names]

    @rule(
        target=leases,
        group=st.sampled_from(GROUPS),
        batch=st.integers(1, 6),
        partitions=st.integers(0, 2),
        lease_s=st.sampled_from([1, 10, 100]),
    )
    def pop(self, group: str, batch: int, partitions: int, lease_s: int) -> MultipleResults[Taken]:
        now = self.next_us
        ready = self.model.ready(group, now)
        request = f"pop-{now}"
        reply = self.driver.pop(
            batch, group=group, partitions=partitions, lease_s=lease_s, request_id=request
        )
        self.registered.add(group)
        self.requests[reply.lease_id] = (request, lease_s)
        width = min(partitions or len(ready), len(ready))
        budget = batch
        for place, run in enumerate(reply.runs):
            waiting = ready.pop(run.partition)
            names = [message.transaction_id for message in run.messages]
            assert names == waiting[: len(names)]
            assert len(names) == min(budget, len(waiting))
            budget -= len(names)
            attempt = self.model.claim(
                run.partition, group, len(names), reply.lease_id, now, now + lease_s * SECOND_US
            )
            assert (run.attempt, place < width) == (attempt, True)
        assert len(reply.runs) == width or budget == 0
        return multiple((group, reply.lease_id)) if reply.lease_id else multiple()

    @rule(
        target=leases,
        group=st.sampled_from(GROUPS),
        partition=st.sampled_from(PARTITIONS),
        batch=st.integers(1, 6),
    )
    def pop_pinned(self, group: str, partition: str, batch: int) -> MultipleResults[Taken]:
        now = self.next_us
        waiting = self.model.ready(group, now).get(partition, [])[:batch]
        request = f"pop-{now}"
        reply = self.driver.pop(
            batch, group=group, partition=partition, lease_s=10, request_id=request
        )
        assert [[m.transaction_id for m in run.messages] for run in reply.runs] == (
            [waiting] if waiting else []
        )
        for run in reply.runs:
            self.requests[reply.lease_id] = (request, 10)
            assert run.attempt == self.model.claim(
                partition, group, len(waiting), reply.lease_id, now, now + 10 * SECOND_US
            )
        return multiple((group, reply.lease_id)) if reply.lease_id else multiple()

    @rule(group=st.sampled_from(GROUPS), batch=st.integers(1, 6))
    def pop_for_good(self, group: str, batch: int) -> None:
        ready = self.model.ready(group, self.next_us)
        reply = self.driver.pop(batch, group=group, partitions=1, auto_ack=True)
        self.registered.add(group)
        assert len(reply.runs) == min(1, len(ready))
        for run in reply.runs:
            names = [message.transaction_id for message in run.messages]
            assert names == ready[run.partition][:batch]
            assert (run.attempt, reply.lease_id) == (1, "")
            self.model.deliver(run.partition, group, len(names))

    @rule(taken=leases)
    def pop_again(self, taken: Taken) -> None:
        """The client asks once more, because it has not got an answer."""
        group, lease = taken
        now = self.next_us
        request, lease_s = self.requests.get(lease, ("", 0))
        expected = self.model.repeat(lease, now, now + lease_s * SECOND_US) if lease else {}
        if not expected:
            return
        reply = self.driver.pop(3, group=group, lease_s=lease_s, request_id=request)
        assert reply.lease_id == lease
        assert {
            run.partition: (group, [m.transaction_id for m in run.messages], run.attempt)
            for run in reply.runs
        } == expected

    @rule()
    def retain(self) -> None:
        ids = tuple(self.partition_id(partition) for partition in PARTITIONS)
        self.model.retain(self.next_us)
        self.driver.apply(Retain(ids, ("q",)))

    @rule(
        group=st.sampled_from(GROUPS),
        partition=st.sampled_from(PARTITIONS),
        to_end=st.booleans(),
    )
    def seek(self, group: str, partition: str, to_end: bool) -> None:
        self.driver.apply(SeekGroup("", group, "q", None if to_end else 0, partition))
        if partition in self.model.logs:
            self.model.seek(partition, group, to_end)

    @rule(
        taken=leases,
        partition=st.sampled_from(PARTITIONS),
        near=ACKS,
        is_fenced=st.booleans(),
    )
    def ack(
        self,
        taken: Taken,
        partition: str,
        near: list[tuple[int, AckStatus]],
        is_fenced: bool,
    ) -> None:
        group, lease = taken
        partition = self.place_of(lease, partition)
        lease = lease if is_fenced else ""
        acks = self.acks(partition, group, near)
        known = self.model.row(partition, group)
        now = self.next_us
        if lease and known.lease == lease:  # even a late ack proves that the answer arrived
            self.used.add(lease)
        expected = self.model.ack(partition, group, lease, list(acks), now, recalls=True)
        answers = self.driver.ack(
            *acks, lease=lease, group=group, partition_id=self.partition_id(partition)
        )
        assert [seen(answer) for answer in answers] == expected

    @rule(choice=st.integers(0, 3), near=SIGNALS)
    def give_up(
        self, choice: int, near: tuple[list[AckStatus], AckStatus, list[AckStatus]]
    ) -> None:
        """A consumer acks the next messages in order, under its lease if it has one."""
        known = [place for place, row in self.model.rows.items() if row.contacted]
        partition, group = known[choice % len(known)] if known else ("p", "g")
        row = self.model.row(partition, group)
        lease = row.lease if row.is_live(self.next_us) else ""
        statuses = [*near[0], near[1], *near[2]]
        self.ack((group, lease), partition, list(enumerate(statuses)), True)

    @rule(taken=leases, seconds=st.sampled_from([1, 50]))
    def extend(self, taken: Taken, seconds: int) -> None:
        expected = self.model.extend(taken[1], seconds, self.next_us)
        assert self.driver.extend(taken[1], seconds).renewed == expected
        if expected:
            self.used.add(taken[1])

    @rule(taken=consumes(leases))
    def take_back(self, taken: Taken) -> None:
        _, lease = taken
        held = any(row.lease == lease for row in self.model.rows.values()) and lease != ""
        expected = held and lease not in self.used
        assert self.driver.take_back(lease) == expected
        if expected:
            self.model.take_back(lease)

    @rule(
        taken=leases,
        partition=st.sampled_from(PARTITIONS),
        near=ACKS,
        pushes=st.lists(NAMES, max_size=2, unique=True),
    )
    def transact(
        self,
        taken: Taken,
        partition: str,
        near: list[tuple[int, AckStatus]],
        pushes: list[str],
    ) -> None:
        group, lease = taken
        partition = self.place_of(lease, partition)
        acks = self.acks(partition, group, near)
        before = self.model.row(partition, group)
        saved = Model(RETRY_LIMIT, dead=list(self.model.dead))
        saved.rows[partition, group] = type(before)(**vars(before))
        is_live = before.lease == lease and before.is_live(self.next_us)
        answers = self.model.ack(partition, group, lease, list(acks), self.next_us, recalls=False)
        log = self.model.logs.get(partition, [])
        commits = all(answer[0] for answer in answers) and not set(pushes) & set(log)
        reply = self.driver.ask(
            self.transaction(group, lease, partition, acks, pushes), TransactionReply
        )
        assert (not reply.reason) == commits
        if not commits:
            self.model.rows[partition, group] = saved.rows[partition, group]
            self.model.dead = saved.dead
            return
        if is_live and lease:
            self.used.add(lease)
        for name in pushes:
            self.model.push(partition, name, self.driver.machine.now_us)
        acked = [seen(item) for item in reply.results if isinstance(item, AckedItem)]
        assert acked == answers

    def transaction(
        self,
        group: str,
        lease: str,
        partition: str,
        acks: Acks,
        pushes: list[str],
    ) -> Transaction:
        partition_id = self.partition_id(partition)
        operations: tuple[TransactionAck | TransactionPush, ...] = (
            *(
                TransactionAck(AckItem(name, partition_id, status, lease), group)
                for name, status in acks
            ),
            *(TransactionPush(PushItem("q", partition, name, b"1")) for name in pushes),
        )
        return Transaction("", operations)

    @rule(ends=st.booleans())
    def checkpoint(self, ends: bool) -> None:
        self.driver.checkpoint()
        before = self.driver.machine.digest()
        if ends:
            self.driver.restart()
            assert self.driver.machine.digest() == before

    @rule(seconds=st.sampled_from([0.4, 5, 60]))
    def wait(self, seconds: float) -> None:
        self.driver.advance(seconds)

    @invariant()
    def depth_agrees(self) -> None:
        now = max(self.driver.clock_us, self.driver.machine.now_us)
        for group in GROUPS:
            rows = [(log, self.model.row(name, group)) for name, log in self.model.logs.items()]
            pending = sum(len(log) - row.committed - 1 for log, row in rows)
            held = sum(row.last - row.committed for _, row in rows if row.is_live(now))
            assert self.driver.depth(group=group) == (pending, held, pending - held)

    @invariant()
    def readiness_agrees(self) -> None:
        now = max(self.driver.clock_us, self.driver.machine.now_us)
        for group in GROUPS:
            if group in self.registered:
                assert self.driver.can_pop(group) == bool(self.model.ready(group, now))

    @invariant()
    def no_expiry_is_slept_through(self) -> None:
        now = max(self.driver.clock_us, self.driver.machine.now_us)
        expiries = [row.expires for row in self.model.rows.values() if row.is_live(now)]
        for group in self.registered:
            expiries += self.model.hold_ends(group, now)
        due = self.driver.machine.next_due_us(now)
        while due is not None and due not in expiries:  # a wake-up for nothing
            assert due < min(expiries, default=due + 1)
            due = self.driver.machine.next_due_us(due)
        assert due == min(expiries, default=None)

    @invariant()
    def dead_letters_agree(self) -> None:
        filed = [
            (letter.partition, letter.group, letter.message.transaction_id, letter.retry_count)
            for letter in self.driver.dead()
        ]
        assert sorted(filed) == sorted(self.model.dead)

    def place_of(self, lease: str, otherwise: str) -> str:
        """A partition where this lease is, or was."""
        places = [
            partition
            for (partition, _), row in self.model.rows.items()
            if lease and lease in (row.lease, row.old_lease)
        ]
        return otherwise if not places or otherwise in places else places[0]

    def acks(self, partition: str, group: str, near: list[tuple[int, AckStatus]]) -> Acks:
        """Acks of the messages around the cursor; beyond the log they name a ghost."""
        log = self.model.logs.get(partition, [])
        first = self.model.row(partition, group).committed + 1
        offsets = [(first + distance, status) for distance, status in near]
        return [
            (log[offset] if 0 <= offset < len(log) else "ghost", status)
            for offset, status in offsets
        ]

    def partition_id(self, partition: str) -> str:
        """The wire's id of a partition: they are numbered in the order of their first push."""
        order = list(self.model.logs)
        return str(order.index(partition) + 1) if partition in order else "99"


class ConsumeRulesWithHolds(ConsumeRules):
    """The same in a queue that hides what is young, and all of what was just written to."""

    delay_s, window_s = 7, 4


SETTINGS = settings(
    max_examples=120,
    stateful_step_count=40,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
ConsumeRules.TestCase.settings = SETTINGS
ConsumeRulesWithHolds.TestCase.settings = SETTINGS
TestConsumeRules = ConsumeRules.TestCase
TestConsumeRulesWithHolds = ConsumeRulesWithHolds.TestCase
