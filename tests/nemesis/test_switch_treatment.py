"""What a link does with its frames under each rule."""

from __future__ import annotations

import itertools
import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atleastonce.nemesis.switch.treatment import PacketRule, Treatment

FRAME = bytes(100)


def treat(rule: PacketRule, frames: int = 400, pause_s: float = 0.001) -> list[tuple[float, int]]:
    """When each frame of a steady stream goes out, with its number, in the order of sending."""
    treatment = Treatment(rule, random.Random(7))
    out: list[tuple[float, int]] = []
    for number in range(frames):
        frame = number.to_bytes(4, "big") + FRAME
        for due_s, sent in treatment.treat(number * pause_s, frame):
            out.append((due_s, int.from_bytes(sent[:4], "big")))
    counts = treatment.counts
    assert counts.passed + counts.dropped == frames
    return out


def order(out: list[tuple[float, int]]) -> list[int]:
    return [number for _, number in sorted(out, key=lambda each: each[0])]


def test_no_rule_lets_everything_pass_at_once() -> None:
    assert treat(PacketRule()) == [(number * 0.001, number) for number in range(400)]


def test_drop_and_whole_loss_let_nothing_pass() -> None:
    assert treat(PacketRule(drop=True)) == []
    assert treat(PacketRule(loss=1.0)) == []


def test_shares_are_met_within_chance() -> None:
    lost = 400 - len(treat(PacketRule(loss=0.25)))
    twice = len(treat(PacketRule(duplicate=0.25))) - 400

    assert 70 <= lost <= 130
    assert 70 <= twice <= 130


def test_delay_with_jitter_stays_within_both_and_keeps_the_order() -> None:
    out = treat(PacketRule(delay_ms=20, jitter_ms=10))

    assert order(out) == list(range(400))
    late_s = [due_s - number * 0.001 for due_s, number in out]
    assert min(late_s) >= 0.01 - 1e-9
    assert max(late_s) <= 0.03 + 1e-9
    assert max(late_s) - min(late_s) > 0.005


def test_reordered_frames_are_overtaken_and_none_is_missing() -> None:
    numbers = order(treat(PacketRule(reorder=0.2)))

    assert sorted(numbers) == list(range(400))
    assert numbers != sorted(numbers)


def test_narrow_link_spreads_frames_and_drops_what_no_queue_would_hold() -> None:
    out = treat(PacketRule(rate_bytes_s=1040), frames=400)
    gaps_s = {round(b - a, 6) for (a, _), (b, _) in itertools.pairwise(out)}

    assert gaps_s == {0.1}
    assert 20 <= len(out) <= 27


@pytest.mark.parametrize("rule", [PacketRule(rate_bytes_s=1e6), PacketRule(delay_ms=1)])
def test_what_leaves_later_than_it_came_counts_as_delayed(rule: PacketRule) -> None:
    treatment = Treatment(rule, random.Random(7))
    for number in range(10):
        treatment.treat(float(number), FRAME)
    assert treatment.counts.delayed == 10


@given(
    st.builds(
        PacketRule,
        delay_ms=st.floats(0, 50),
        jitter_ms=st.floats(0, 50),
        loss=st.floats(0, 1),
        duplicate=st.floats(0, 1),
        reorder=st.floats(0, 1),
        corrupt=st.floats(0, 1),
        rate_bytes_s=st.sampled_from([0.0, 1e4, 1e6]),
    )
)
def test_no_frame_leaves_before_it_came_or_more_than_twice(rule: PacketRule) -> None:
    out = treat(rule, frames=50)

    for due_s, number in out:
        assert due_s >= number * 0.001
    assert all(sum(n == number for _, n in out) <= 2 for number in range(50))


def test_same_seed_treats_alike() -> None:
    rule = PacketRule(loss=0.3, jitter_ms=5, reorder=0.2, duplicate=0.2)

    assert treat(rule) == treat(rule)


@pytest.mark.parametrize("share", ["loss", "duplicate", "reorder", "corrupt"])
def test_count_of_each_rule_says_what_it_did(share: str) -> None:
    counted = {
        "loss": "dropped",
        "duplicate": "duplicated",
        "reorder": "reordered",
        "corrupt": "corrupted",
    }[share]
    treatment = Treatment(msgspec.convert({share: 1.0}, PacketRule), random.Random(1))
    header = bytes.fromhex("020000000002020000000001") + b"\x08\x00" + bytes([0x45, 0, 0, 60])
    frame = header + bytes([0, 0, 0, 0, 64, 6]) + bytes(10) + bytes(12) + b"\x50" + bytes(7)
    frame += b"abcdefghijklmnopqrst"

    treatment.treat(0.0, frame)

    assert getattr(treatment.counts, counted) == 1
