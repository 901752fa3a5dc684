"""Packages and swarms: which nemeses a seed takes of many."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from atleastonce.nemesis.draws import healed_s
from atleastonce.nemesis.packages import PACKAGES, fitting
from atleastonce.nemesis.plan import Order, make_order, make_plan
from atleastonce.nemesis.registry import NEMESES
from atleastonce.nemesis.swarm import KINDS_MAX, draw_swarm

SEEDS = st.integers(0, 2**32)
FAULTY = [name for name in NEMESES if name != "none"]


def order(seed: int, **changes: object) -> Order:
    base: dict[str, object] = {
        "names": ["kill", "clock"],
        "seed": seed,
        "time_limit_s": 60,
        "packages": PACKAGES,
    }
    return Order(**(base | changes))  # type: ignore[arg-type]


def test_a_family_and_a_first_word_that_several_share_are_packages() -> None:
    assert set(PACKAGES["process"]) >= {"kill-leader", "term-leader", "pause-leader"}
    assert set(PACKAGES["kill"]) >= {"kill-leader", "kill-worker", "kill-all"}
    assert not set(PACKAGES) & set(NEMESES)


def test_what_does_not_fit_is_no_part_of_a_package() -> None:
    alone = fitting("kill", lambda spec: spec.target not in ("worker", "supervisor"))
    assert "kill-worker" not in alone
    assert "kill-leader" in alone


@given(SEEDS)
def test_each_fault_of_a_package_is_one_of_its_nemeses_drawn_by_the_seed(seed: int) -> None:
    plan = make_order(order(seed))
    assert plan == make_order(order(seed))
    for fault in plan:
        package = fault.id.rpartition("-")[0]
        assert fault.kind in PACKAGES[package]
        assert healed_s(fault) <= 60
    assert {fault.id.rpartition("-")[0] for fault in plan} == {"kill", "clock"}


def test_seeds_draw_different_nemeses() -> None:
    kinds = {fault.kind for seed in range(8) for fault in make_order(order(seed))}
    assert len(kinds) >= 5


@given(SEEDS)
def test_a_swarm_takes_some_of_the_nemeses_each_at_its_own_pace(seed: int) -> None:
    drawn = draw_swarm(FAULTY, seed)
    assert drawn == draw_swarm(FAULTY, seed)
    assert 1 <= len(drawn) <= KINDS_MAX
    assert list(drawn) == [name for name in FAULTY if name in drawn]
    assert min(drawn.values()) >= 1


def test_swarms_of_many_seeds_take_every_nemesis() -> None:
    assert {name for seed in range(200) for name in draw_swarm(FAULTY, seed)} == set(FAULTY)


def test_a_slower_nemesis_has_fewer_faults_in_the_same_time() -> None:
    fast = make_plan(["kill-worker"], 3, 120)
    slow = make_order(
        order(3, names=["kill-worker"], time_limit_s=120, slower={"kill-worker": 3.0})
    )
    assert len(slow) * 2 < len(fast)
