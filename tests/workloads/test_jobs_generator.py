"""The generator of the workload `jobs`."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from atleastonce.workloads.jobs import (
    DECK_SIZE,
    SENTENCES,
    Arrival,
    JobKind,
    Mix,
    arrivals,
    make_deck,
    mean_service_s,
)

MIX = Mix(
    {
        JobKind.LONG: 0.015,
        JobKind.FLAKY: 0.08,
        JobKind.BAD: 0.06,
        JobKind.DELAYED: 0.12,
        JobKind.OVERRUN: 0.005,
    }
)


def _draw(seed: int = 1, producer: int = 0, limit_s: float = 60.0, nodes: int = 3) -> list[Arrival]:
    return list(arrivals(MIX, seed, producer, 10.0, limit_s, nodes))


def test_same_seed_gives_the_same_jobs() -> None:
    assert _draw() == _draw()


def test_seeds_and_producers_have_streams_of_their_own() -> None:
    ids = [arrival.job for seed in (1, 2) for p in (0, 1) for arrival in _draw(seed, p)]

    assert len(set(ids)) == len(ids)


def test_longer_run_begins_with_the_same_jobs() -> None:
    short, long = _draw(limit_s=20), _draw(limit_s=60)

    assert [a.job for a in long][: len(short)] == [a.job for a in short]


def test_arrivals_keep_the_rate_and_the_limit() -> None:
    found = _draw(limit_s=200)

    assert [a.at_s for a in found] == sorted(a.at_s for a in found)
    assert found[-1].at_s < 200
    assert len(found) == pytest.approx(2000, rel=0.05)


def test_every_kind_appears_in_its_share() -> None:
    kinds = Counter(make_deck(MIX, random.Random(1)))

    assert kinds.total() == DECK_SIZE
    assert kinds[JobKind.LONG] == 3
    assert kinds[JobKind.OVERRUN] == 1
    assert kinds[JobKind.FLAKY] == 16
    assert set(kinds) == set(JobKind) == set(SENTENCES)


def test_share_of_nothing_never_appears() -> None:
    assert set(make_deck(Mix({JobKind.LONG: 0.0}), random.Random(1))) == {JobKind.SHORT}


def test_kinds_have_the_work_tries_and_delay_that_the_mix_promises() -> None:
    for a in _draw(limit_s=300):
        assert (a.delay_s > 0) == (a.kind is JobKind.DELAYED)
        assert a.tries == (2 if a.kind in (JobKind.BAD, JobKind.OVERRUN) else 3)
        if a.kind is JobKind.OVERRUN:
            assert a.work_ms / 1000 > a.timeout_s
        else:
            assert a.work_ms / 1000 < a.timeout_s
        if a.kind is JobKind.SHORT:
            assert 10 <= a.work_ms <= 300
        if a.kind is JobKind.LONG:
            assert 1000 <= a.work_ms <= 3000


def test_resend_goes_through_another_node_within_the_limit() -> None:
    again = [a for a in _draw(limit_s=100) if a.resend_after_s is not None]

    assert 60 <= len(again) <= 140
    for a in again:
        assert a.resend_after_s is not None
        assert a.resend_via != a.via
        assert 0 <= a.resend_after_s <= 5
        assert a.at_s + a.resend_after_s <= 100


def test_single_node_takes_the_resend_too() -> None:
    assert {a.resend_via for a in _draw(nodes=1)} == {0}


def test_default_mix_leaves_four_workers_room_to_catch_up() -> None:
    assert 0.5 <= mean_service_s(MIX) * 20 / 4 <= 0.65
