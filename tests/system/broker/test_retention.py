"""Completed payloads leave memory; ids stay known; nobody loses what they have not read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from atleastonce.system.broker.changes import Changes
from atleastonce.system.broker.cursors import Cursor, Group
from atleastonce.system.broker.lease import Position
from atleastonce.system.broker.message import Body, Run
from atleastonce.system.broker.options import implicit_options
from atleastonce.system.broker.partition import Partition
from atleastonce.system.broker.queue import Queue
from atleastonce.system.broker.retention import MESSAGE_BYTES, Retention

from .broker_driver import Driver

PAYLOAD = b"x" * 100
WEIGHT = MESSAGE_BYTES + len(PAYLOAD)


def partition_of(count: int) -> Partition:
    partition = Partition(1, "q", "p")
    for offset in range(count):
        names, body = f"t{offset}", Body((PAYLOAD,))
        partition.append(Run(offset, 1000 + offset, names, len(PAYLOAD), f"id{offset}", 0, body))
    return partition


def cursor_at(partition: Partition, committed: int) -> Cursor:
    group = Group(1, "g", Queue(1, "q", "id", 0, implicit_options()))
    cursor = Cursor(len(partition.cursors), partition, group, Position(committed))
    partition.cursors = (*partition.cursors, cursor)
    return cursor


def moves(cursor: Cursor, retention: Retention, offsets: Iterator[int] | range) -> None:
    for offset in offsets:
        cursor.position = Position(offset)
        retention.note(cursor.partition, 2000, 10_000)


def test_completed_payloads_stay_within_the_budget() -> None:
    partition, retention = partition_of(100), Retention(Changes(), budget=10 * WEIGHT)
    moves(cursor_at(partition, -1), retention, range(100))
    assert retention.completed_bytes <= 10 * WEIGHT
    assert (partition.log_start, partition.end) == (90, 100)
    retained = partition.messages(90, 100, None)
    assert [message.offset for message in retained] == list(range(90, 100))


def test_under_the_budget_everything_stays_readable() -> None:
    partition, retention = partition_of(10), Retention(Changes(), budget=10 * WEIGHT)
    moves(cursor_at(partition, -1), retention, range(10))
    assert partition.log_start == 0


def test_the_slowest_group_holds_its_messages() -> None:
    partition, retention = partition_of(50), Retention(Changes(), budget=0)
    fast = cursor_at(partition, -1)
    cursor_at(partition, 4)
    moves(fast, retention, range(50))
    assert partition.log_start == 5


def test_a_group_that_comes_later_keeps_what_it_has_not_read() -> None:
    partition, other, retention = (
        partition_of(5),
        partition_of(10),
        Retention(Changes(), budget=6 * WEIGHT),
    )
    moves(cursor_at(partition, -1), retention, range(5))
    late = cursor_at(partition, -1)
    moves(cursor_at(other, -1), retention, range(10))
    assert (partition.log_start, other.log_start) == (0, 4)
    moves(late, retention, range(5))
    assert retention.completed_bytes <= 6 * WEIGHT
    assert other.log_start == 9
    moves(cursor_at(partition_of(6), -1), retention, range(6))
    assert (partition.log_start, other.log_start) == (5, 10)


def test_ids_of_trimmed_messages_are_known_until_they_are_old() -> None:
    partition = partition_of(10)
    assert [(run.first, run.body) for run in partition.trim(6)] == [(n, None) for n in range(6)]
    assert partition.find("t3") == 3
    assert partition.run_at(3).id_at(3) == "id3"
    assert partition.resolve("t3", 9, 9) == 3
    assert [run.first for run in partition.forget(before_us=1004)] == [0, 1, 2, 3]
    assert partition.find("t3") is None
    assert partition.find("t4") is not None
    assert partition.find("t9") is not None


def test_trimming_keeps_offsets_slices_and_searches_right() -> None:
    partition = partition_of(10)
    for to in (2, 3, 7, 7, 9):
        partition.trim(to)
        assert (partition.log_start, partition.end) == (to, 10)
        found = partition.messages(to, 5, None)
        assert [message.offset for message in found] == list(range(to, 10))[:5]
        assert partition.name_at(9) == "t9"
        assert partition.first_since(1000) == to
        assert partition.first_since(1009) == 9
    partition.append(Run(10, 3000, "t10", len(PAYLOAD), "id10", 0, Body((PAYLOAD,))))
    assert partition.visible_end(2000, 100) == 10


@pytest.mark.parametrize("is_durable", [False, True])
def test_what_is_acked_at_delivery_and_let_go_at_once_is_delivered(is_durable: bool) -> None:
    driver = Driver()
    driver.machine._state.retention = Retention(driver.machine._state.changes, budget=0)
    driver.push("a", "b", payload=PAYLOAD)
    driver.push("c", payload=PAYLOAD)
    if is_durable:
        driver.checkpoint()
    (run,) = driver.pop(auto_ack=True).runs
    assert [message.payload for message in run.messages] == [PAYLOAD] * 3
    (partition,) = driver.machine._state.partitions.values()
    assert partition.log_start == 3


def test_a_deleted_partition_no_longer_counts() -> None:
    partition, retention = partition_of(10), Retention(Changes(), budget=100 * WEIGHT)
    moves(cursor_at(partition, -1), retention, range(10))
    retention.release({partition})
    assert retention.completed_bytes == 0
