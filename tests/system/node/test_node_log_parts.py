"""The small parts of checkpoints: how much log is kept, what waits while a state is replaced."""

from __future__ import annotations

from itertools import pairwise

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from atleastonce.system.broker.commands import Push, PushItem
from atleastonce.system.broker.machine import Machine
from atleastonce.system.broker.planner import Planner
from atleastonce.system.node import applier
from atleastonce.system.node.applier import Applier
from atleastonce.system.node.log_meter import LogMeter, disposable_index
from atleastonce.system.raft.members import Checkpoint, Members, encode_members
from atleastonce.system.raft.messages import Entry, EntryKind

NOTHING = Checkpoint()


def filled(count: int, data_bytes: int, tail_bytes: int = 32 << 20) -> LogMeter:
    meter = LogMeter(0, tail_bytes)
    for index in range(1, count + 1):
        meter.note(index, data_bytes)
    return meter


def test_what_lies_behind_an_entry_is_at_least_what_was_asked_for() -> None:
    meter = filled(5000, 1000)
    for distance in (1, 100_000, 1 << 20, 4 << 20):
        index = meter.index_behind(distance)
        assert (5000 - index) * 1064 >= distance
        assert (5000 - index) * 1064 <= distance + 300_000


def test_nothing_lies_far_behind_a_young_log() -> None:
    assert filled(10, 1000).index_behind(1 << 20) == 0


def test_a_short_tail_is_found_though_no_checkpoint_has_marked_it() -> None:
    index = filled(60, 300, tail_bytes=4000).index_behind(4000)
    assert 4000 <= (60 - index) * 364 <= 5000


def test_small_entries_are_told_apart_where_they_were_marked() -> None:
    meter = LogMeter(7, 32 << 20)
    for index in range(8, 20):
        meter.note(index, 10)
        meter.mark()
    assert meter.index_behind(74) == 18
    assert meter.index_behind(2 * 74) == 17
    meter.forget(15)
    assert meter.index_behind(100 * 74) == 0
    assert meter.index_behind(4 * 74) == 15


@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 50), st.integers(0, 50))
def test_no_log_goes_that_the_checkpoint_lacks(
    checkpoint: int, tail: int, hold: int, floor: int
) -> None:
    for known in (None, floor):
        assert disposable_index(checkpoint, tail, hold, known) <= checkpoint


def test_log_is_held_for_a_member_as_far_as_there_is_room() -> None:
    assert disposable_index(137, 139, 140, 134) == 137
    assert disposable_index(137, 130, 100, None) == 130
    assert disposable_index(137, 130, 100, 134) == 130
    assert disposable_index(137, 130, 100, 120) == 120
    assert disposable_index(137, 130, 110, 90) == 110


def test_a_restarted_meter_knows_nothing_older() -> None:
    meter = filled(5000, 1000)
    meter.restart(9000)
    assert meter.index_behind(1 << 20) == 0
    meter.note(9001, 1 << 20)
    assert meter.index_behind(1 << 20) == 9000


def pushes(count: int) -> list[Entry]:
    planner = Planner(bytes, 0)
    entries = [Entry(1, 1, EntryKind.NOOP, b"")]
    for index in range(2, count + 1):
        push = Push(f"r{index}", (PushItem("q", "p", f"t{index}", b'"x"'),))
        entries.append(Entry(1, index, EntryKind.COMMAND, planner.plan(index, [push])))
    return entries


class Applied:
    """An applier, and what it has reported."""

    def __init__(self, machine: Machine, position: Checkpoint = NOTHING) -> None:
        self.indexes: list[int] = []
        self.applier = Applier(
            machine,
            position,
            lambda entry, _: self.indexes.append(entry.index),
            lambda: None,
            lambda _: False,
        )


class Rows:
    """The rows of a machine, as a store has them."""

    def __init__(self, machine: Machine) -> None:
        changes = machine.take_changes()
        self.content = {key: value for key, value in changes if value is not None}

    def read(self, key: bytes) -> bytes:
        return self.content[key]


def run(scenario: object) -> None:
    async def main() -> None:
        assert callable(scenario)
        scenario()

    trio.run(main)


@pytest.fixture
def no_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have an applier apply all that it is given, also where that takes longer than a slice."""
    monkeypatch.setattr(applier, "SLICE_S", float("inf"))


def test_entries_wait_while_a_state_is_replaced_and_old_ones_are_dropped(no_slices: None) -> None:
    entries = pushes(30)

    def scenario() -> None:
        source = Applied(Machine())
        source.applier.add(tuple(entries[:20]))
        behind = Applied(Machine())
        behind.applier.add(tuple(entries[:5]))
        behind.applier.hold()
        behind.applier.add(tuple(entries[5:25]))
        assert behind.indexes == list(range(1, 6))
        rows = Rows(source.applier.machine)
        received = Machine.restore(sorted(rows.content.items()), 20, messages=rows)
        behind.applier.machine.take_over(received)
        behind.applier.go_on(Checkpoint(20, 1))
        assert behind.indexes == [*range(1, 6), *range(21, 26)]
        source.applier.add(tuple(entries[20:25]))
        assert behind.applier.machine.digest() == source.applier.machine.digest()
        assert behind.applier.position == Checkpoint(25, 1)

    run(scenario)


def test_what_is_longer_than_a_slice_is_applied_beside_other_tasks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(applier, "SLICE_S", -1.0)
    applied = Applied(Machine())
    seen: list[int] = []

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(applied.applier.run)
            applied.applier.add(tuple(pushes(10)))
            while applied.applier.applied_index < 10:
                seen.append(applied.applier.applied_index)
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()

    trio.run(main)
    assert applied.indexes == list(range(1, 11))
    # Trio wakes both tasks in either order: at most two slices lie between two looks.
    assert max(later - earlier for earlier, later in pairwise([*seen, 10])) <= 2


def test_the_position_carries_the_members_as_of_the_last_entry() -> None:
    members = Members(("n1", "n2"), ("n3",))

    def scenario() -> None:
        applied = Applied(Machine(), Checkpoint(4, 1, Members(("n1",))))
        applied.applier.add((Entry(2, 5, EntryKind.NOOP, b""),))
        assert applied.applier.position == Checkpoint(5, 2, Members(("n1",)))
        applied.applier.add((Entry(2, 6, EntryKind.CONFIG, encode_members(members)),))
        assert applied.applier.position == Checkpoint(6, 2, members)

    run(scenario)
