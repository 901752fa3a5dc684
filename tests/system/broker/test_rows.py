"""A machine rebuilt from its rows is the machine that wrote them."""

from __future__ import annotations

import random
import sys

import msgspec
import pytest

from atleastonce.system.broker.administrative import ReplayDeadLetter
from atleastonce.system.broker.commands import (
    QUEUE_MODE,
    DeleteQueue,
    Push,
    PushItem,
    ScheduleTimer,
    Timers,
)
from atleastonce.system.broker.evicted import payload_key
from atleastonce.system.broker.inspection_replies import MessagesReply
from atleastonce.system.broker.machine import Machine
from atleastonce.system.broker.message import Message
from atleastonce.system.broker.queries import Fetch, FetchEntry, MessageList, TimerGet
from atleastonce.system.broker.replies import FetchReply, PopReply, TimerReply
from atleastonce.system.broker.retention import COMPLETED_BYTES_MAX, MESSAGE_BYTES
from atleastonce.system.broker.rows import (
    COUNTERS,
    PARTITIONS,
    PAYLOADS,
    RUNS,
    DamagedRowError,
    placed,
)
from atleastonce.system.bugs import Bugs

from .broker_driver import Driver, named
from .random_log import LogWriter
from .row_store import RowStore, difference, plain, state_of


def encoded(value: object) -> bytes:
    return msgspec.msgpack.encode(value)


def owned_payloads(machine: Machine) -> set[bytes]:
    """Keys of the payload rows that something in the state still needs."""
    state = state_of(machine)
    runs = {
        placed(PAYLOADS, partition.number, run.first)
        for partition in state.partitions.values()
        for run, _, _ in partition.runs(partition.log_start, partition.end)
    }
    timers = {payload_key(row.message_id) for row in state.timers.rows()}
    letters = {payload_key(name) for queue in state.queues.values() for name in queue.dead}
    return runs | timers | letters


def limited(machine: Machine, budget: int) -> Machine:
    """A machine that keeps so many bytes of completed messages."""
    state_of(machine).retention._budget = budget
    return machine


@pytest.mark.parametrize("budget", [COMPLETED_BYTES_MAX, 8 * MESSAGE_BYTES, 0])
@pytest.mark.parametrize("seed", range(5))
def test_a_restored_machine_is_equal_and_goes_on_equally(seed: int, budget: int) -> None:
    writer, dice = LogWriter(seed), random.Random(seed)
    writer.grow(160)
    store = RowStore()
    machine, plainly = limited(Machine(messages=store), budget), limited(Machine(), budget)
    for index, data in enumerate(writer.entries, start=1):
        expected = plainly.apply(index, data)
        assert encoded(machine.apply(index, data)) == encoded(expected)
        if dice.random() < 0.2:
            store.checkpoint(machine)
        if dice.random() < 0.06:
            store.checkpoint(machine)
            before = machine
            machine = limited(store.restored(index), budget)
            assert machine.digest() == before.digest() == plainly.digest()
            assert not difference(plain(state_of(machine)), plain(state_of(before)))
    assert machine.digest() == plainly.digest()
    store.checkpoint(machine)
    assert {key for key in store.rows if key.startswith(PAYLOADS)} == owned_payloads(machine)


@pytest.mark.parametrize("seed", range(4))
def test_changes_taken_often_are_the_changes_taken_once(seed: int) -> None:
    writer = LogWriter(seed)
    writer.grow(150)
    often, once = RowStore(), RowStore()
    machine, other = Machine(messages=often), Machine()
    for index, data in enumerate(writer.entries, start=1):
        machine.apply(index, data)
        other.apply(index, data)
        often.checkpoint(machine)
    once.checkpoint(other)
    assert sorted(often.rows) == sorted(once.rows)
    differing = {key[:2] for key in once.rows if once.rows[key] != often.rows[key]}
    assert differing <= {PARTITIONS}  # a partition's row may be behind its runs


def test_nothing_changed_writes_the_counters_alone() -> None:
    driver = Driver()
    driver.push("a", "b")
    assert driver.checkpoint() > 3
    assert [key for key, _ in driver.machine.take_changes()] == [COUNTERS]


def test_a_checkpoint_costs_what_has_changed() -> None:
    driver = Driver()
    for number in range(300):
        driver.push("a", "b", partition=f"p{number}")
    driver.pop(partition="p7")
    driver.checkpoint()
    driver.push("c", partition="p7")
    assert driver.checkpoint() <= 4


def test_what_came_and_went_between_two_checkpoints_leaves_no_row() -> None:
    driver = Driver()
    driver.checkpoint()
    driver.push("a", queue="other")
    driver.pop(queue="other")
    driver.apply(DeleteQueue("", "other"))
    driver.advance(700)  # the answer to the deletion is forgotten too
    driver.push("b")
    rows = dict(driver.machine.take_changes())
    assert not any(b"other" in (value or b"") for value in rows.values())


def test_payloads_leave_memory_once_they_are_durable_and_are_read_again() -> None:
    driver = Driver()
    driver.push(*[f"m{number}" for number in range(10)], payload=b'"payload"')
    changes = driver.machine.take_changes()
    assert [message.payload for message in _popped(driver, "g")] == [b'"payload"'] * 10
    driver.store.commit(changes)
    assert driver.store.reads == 0
    driver.machine.changes_durable()
    (partition,) = state_of(driver.machine).partitions.values()
    assert [run.body for run in partition.remembered()] == [None]
    assert [message.payload for message in _popped(driver, "h")] == [b'"payload"'] * 10
    assert driver.store.reads == 1
    fetched = driver.machine.read(Fetch((FetchEntry("q", "p", 3),)), driver.clock_us)
    assert isinstance(fetched, FetchReply)
    assert [record.payload for record in fetched.entries[0].records] == [b'"payload"'] * 7
    listed = driver.machine.read(MessageList(0, driver.clock_us + 1, limit=2), driver.clock_us)
    assert isinstance(listed, MessagesReply)
    assert [view.message.payload for view in listed.views] == [b'"payload"'] * 2


def test_payloads_of_timers_and_dead_letters_leave_memory_too() -> None:
    driver = Driver()
    driver.push("a", payload=b'"dead"')
    driver.ack(("a", "dlq"), lease=driver.pop().lease_id)
    driver.apply(Timers("", (ScheduleTimer("q", "k", 1000, "t", b'"later"'),)))
    driver.checkpoint()
    state, before = state_of(driver.machine), driver.machine.digest()
    (letter,) = state.queues["q"].dead.values()
    assert letter.message.payload == b""
    assert [letter.message.payload for letter in driver.dead()] == [b'"dead"']
    timer = driver.machine.read(TimerGet("q", "k"), driver.clock_us)
    assert isinstance(timer, TimerReply)
    assert timer.row is not None
    assert timer.row.payload == b'"later"'
    driver.restart()
    assert driver.machine.digest() == before
    driver.advance(2)
    assert driver.fire() == 1
    assert [message.payload for message in _popped(driver, QUEUE_MODE)] == [b'"later"']
    driver.apply(ReplayDeadLetter("", letter.dead_letter_id))
    popped = [message.payload for message in _popped(driver, "g")]
    assert sorted(popped) == [b'"dead"', b'"dead"', b'"later"']
    driver.checkpoint()
    owners = [key for key in driver.store.rows if key.startswith(b"m/" + bytes(8))]
    assert owners == []


def test_a_timer_set_anew_has_one_payload_row() -> None:
    driver = Driver()
    for payload in (b"1", b"2", b"3"):
        driver.apply(Timers("", (ScheduleTimer("q", "k", 60_000, "t", payload),)))
        driver.checkpoint()
    assert [value for key, value in driver.store.rows.items() if key[:2] == b"m/"] == [b"3"]
    changes = driver.machine.take_changes()
    driver.apply(Timers("", (ScheduleTimer("q", "k", 60_000, "t", b"4"),)))
    driver.store.commit(changes)
    driver.machine.changes_durable()
    driver.restart()
    timer = driver.machine.read(TimerGet("q", "k"), driver.clock_us)
    assert isinstance(timer, TimerReply)
    assert timer.row is not None
    assert timer.row.payload == b"4"


def test_a_follower_reads_no_payload_and_agrees() -> None:
    driver, follower = Driver(), Driver()
    driver.push("a", "b")
    driver.checkpoint()
    driver.pop()
    for index, data in driver.entries:
        replies = follower.machine.apply(index, data, is_awaited=False)
        follower.checkpoint()
    (reply,) = replies
    assert isinstance(reply, PopReply)
    assert [run.messages for run in reply.runs] == [()]
    assert follower.store.reads == 0
    assert follower.machine.digest() == driver.machine.digest()


def test_payload_rows_go_with_their_messages() -> None:
    driver = Driver()
    driver.push("a", "b")
    driver.checkpoint()
    assert any(key.startswith(b"m/") for key in driver.store.rows)
    driver.apply(DeleteQueue("", "q"))
    driver.advance(700)
    driver.push("c", queue="r")
    driver.checkpoint()
    assert [key[:10] for key in driver.store.rows if key[:2] in (b"m/", b"f/")] == [
        b"f/" + (2).to_bytes(8, "big"),
        b"m/" + (2).to_bytes(8, "big"),
    ]


def test_changes_are_taken_again_only_when_the_last_are_durable(driver: Driver) -> None:
    driver.push("a")
    driver.machine.take_changes()
    with pytest.raises(AssertionError, match="not durable"):
        driver.machine.take_changes()


@pytest.mark.parametrize("key", [b"a/", b"f/", b"d/", b"e/"])
def test_a_damaged_row_is_named(key: bytes) -> None:
    driver = Driver()
    driver.push("a")
    driver.pop()
    driver.checkpoint()
    damaged = next(known for known in driver.store.rows if known.startswith(key))
    driver.store.rows[damaged] = b"\xc1"
    with pytest.raises(DamagedRowError) as caught:
        driver.store.restored(2)
    assert caught.value.key == damaged


def test_a_missing_row_of_messages_is_noticed() -> None:
    driver = Driver()
    driver.push("a")
    driver.push("b")
    driver.checkpoint()
    del driver.store.rows[max(key for key in driver.store.rows if key.startswith(RUNS))]
    with pytest.raises(DamagedRowError, match="messages"):
        driver.store.restored(2)


def test_rows_of_another_version_are_refused() -> None:
    driver = Driver()
    driver.push("a")
    driver.checkpoint()
    fields = msgspec.msgpack.decode(driver.store.rows[COUNTERS])
    driver.store.rows[COUNTERS] = encoded([99, *fields[1:]])
    with pytest.raises(DamagedRowError, match="version 99"):
        driver.store.restored(1)


def test_a_row_of_an_unknown_table_is_refused() -> None:
    with pytest.raises(DamagedRowError, match="no table"):
        Machine.restore([(b"z/1", b"")], 1)


def test_a_new_leaders_lost_memory_has_rows_too() -> None:
    bugs: Bugs = frozenset({"ack-forgotten-on-failover", "dedup-lost-on-failover"})
    driver = Driver(bugs)
    driver.push("a", "b")
    reply = driver.pop(1)
    driver.ack("a", lease=reply.lease_id)
    driver.checkpoint()
    driver.machine.become_leader()
    driver.checkpoint()
    restored = driver.store.restored(driver.machine.applied_index, bugs)
    assert restored.digest() == driver.machine.digest()
    assert not difference(plain(state_of(restored)), plain(state_of(driver.machine)))


def test_every_queue_is_to_be_looked_at_after_a_restore() -> None:
    driver = Driver()
    driver.push("a")
    driver.push("a", queue="r")
    driver.checkpoint()
    assert driver.store.restored(2).take_touched() == {"q", "r"}


def test_a_replaced_state_is_given_back() -> None:
    driver, other = Driver(), Driver()
    driver.push("a", "b")
    driver.push("a", partition="r")
    driver.pop(1)
    (cursor, _) = state_of(driver.machine).queues["q"].groups[QUEUE_MODE].cursors.values()
    partition = cursor.partition
    other.push("c")
    driver.machine.take_over(other.machine)
    del other
    assert (sys.getrefcount(cursor), sys.getrefcount(partition)) == (2, 3)
    assert named(driver.pop()) == ["c"]


def test_long_pushes_become_several_runs() -> None:
    driver = Driver()
    items = tuple(PushItem("q", "p", f"m{number}", b"1" * 1000) for number in range(400))
    driver.apply(Push("r", items))
    driver.checkpoint()
    assert sum(key.startswith(b"m/") for key in driver.store.rows) == 4
    assert named(driver.pop(400)) == [f"m{number}" for number in range(400)]


def _popped(driver: Driver, group: str) -> list[Message]:
    return [message for run in driver.pop(group=group).runs for message in run.messages]
