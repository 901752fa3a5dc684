"""Stamps and ids."""

from __future__ import annotations

import uuid

from hypothesis import given
from hypothesis import strategies as st

from atleastonce.system.broker.commands import FireTimers, decode_batch
from atleastonce.system.broker.mint import Mint
from atleastonce.system.broker.planner import Planner

INSTANTS = st.integers(0, (1 << 48) * 1000 - 1)


def stamp(planner: Planner, clock_us: int) -> int:
    return decode_batch(planner.plan(clock_us, (FireTimers(),))).now_us


def test_stamps_follow_the_clock_and_never_stand_still() -> None:
    planner = Planner(bytes)
    assert [stamp(planner, clock) for clock in (100, 100, 50, 500)] == [100, 101, 102, 500]


def test_a_planner_starts_after_what_its_machine_has_seen() -> None:
    assert stamp(Planner(bytes, last_us=1000), 7) == 1001


def test_a_batch_keeps_its_commands_in_order() -> None:
    commands = tuple(FireTimers(limit) for limit in (3, 1, 2))
    assert decode_batch(Planner(bytes).plan(1, commands)).commands == commands


@given(INSTANTS, st.integers(1, 10**9), st.binary(min_size=8, max_size=8), st.binary(max_size=8))
def test_ids_increase_inside_a_batch_and_over_batches(
    now_us: int, step_us: int, seed: bytes, other: bytes
) -> None:
    first, second = Mint(now_us, seed), Mint(now_us + step_us, other)
    ids = [first.new_id() for _ in range(300)]
    if now_us + step_us < (1 << 48) * 1000:
        ids += [second.new_id() for _ in range(3)]
    assert ids == sorted(set(ids))
    for text in ids:
        known = uuid.UUID(text)
        assert (known.version, known.variant) == (7, uuid.RFC_4122)
        assert str(known) == text


def test_an_id_begins_with_its_milliseconds() -> None:
    minted = uuid.UUID(Mint(1_800_000_000_123_456, b"12345678").new_id())
    assert minted.int >> 80 == 1_800_000_000_123
