"""A soak made concrete: its schedule, its mix, and what is expected of it."""

from __future__ import annotations

from collections import Counter

import pytest

from atleastonce.checkers.contract import load_contract
from atleastonce.workloads.jobs import JobKind, arrivals
from atleastonce.workloads.soak import SoakPlan, scale_of, soak_mix


def _plan(minutes: float, rate: float = 5.0) -> SoakPlan:
    load_s = minutes * 60
    return SoakPlan(
        load_s=load_s,
        rate=rate,
        producers=2,
        nodes=("n1", "n2", "n3"),
        scale=scale_of(load_s),
        seed=7,
    )


def test_whole_soak_kills_every_ten_minutes_deploys_at_half_time_and_samples_each_minute() -> None:
    plan = _plan(45)

    assert list(plan.kills_s) == [600, 1200, 1800, 2400]
    assert (plan.restart_s, plan.deploy_s) == (675, 1350)
    assert plan.sample_s == 60


@pytest.mark.parametrize("minutes", [0.1, 0.5, 2, 5, 9, 10, 11, 20, 40, 45, 90, 600])
def test_every_soak_kills_at_least_once_apart_from_what_replaces_all_workers(
    minutes: float,
) -> None:
    plan = _plan(minutes)

    assert plan.kills_s
    assert all(0 < at_s < plan.load_s for at_s in plan.kills_s)
    apart_s = min(60, plan.load_s / 8)
    for at_s in plan.kills_s:
        assert abs(at_s - plan.deploy_s) >= apart_s
        assert abs(at_s - plan.restart_s) >= apart_s or minutes > 30


def test_mix_has_the_shares_and_times_of_the_reference() -> None:
    mix = soak_mix(1.0, 25, 0.0, 5.0)
    found = list(arrivals(mix, 1, 0, 10.0, 2000.0, 1))
    shares = {kind: count / len(found) for kind, count in Counter(a.kind for a in found).items()}

    assert shares == {
        JobKind.SHORT: pytest.approx(0.85, abs=0.005),
        JobKind.LONG: pytest.approx(0.05, abs=0.005),
        JobKind.FLAKY: pytest.approx(0.05, abs=0.005),
        JobKind.BAD: pytest.approx(0.03, abs=0.005),
        JobKind.DELAYED: pytest.approx(0.02, abs=0.005),
    }
    for kind, low, high in (
        (JobKind.SHORT, 10, 300),
        (JobKind.LONG, 5_000, 20_000),
    ):
        works = [arrival.work_ms for arrival in found if arrival.kind is kind]
        assert low <= min(works)
        assert max(works) <= high
    delays = [arrival.delay_s for arrival in found if arrival.kind is JobKind.DELAYED]
    assert min(delays) >= 10
    assert max(delays) <= 60


def test_short_soak_shrinks_long_jobs_and_delays_alike() -> None:
    mix = soak_mix(scale_of(12), 3, 0.0, 5.0)

    assert mix.work_ms[JobKind.LONG] == (500, 2000)
    assert mix.delay_ms == (1000, 6000)


def test_contract_names_the_jobs_that_the_producers_will_dispatch() -> None:
    plan, mix = _plan(2), soak_mix(1.0, 25, 0.1, 5.0)
    contract = plan.contract(load_contract(), mix)
    due = [a for n in range(2) for a in arrivals(mix, 7, n, 2.5, 120.0, 3)]

    assert contract.jobs == len(due)
    assert set(contract.bad) == {a.job for a in due if a.kind is JobKind.BAD}
    assert set(contract.growth) == {"supervisor", "fork-server", "worker", "n1", "n2", "n3"}


def test_node_may_hold_what_its_window_of_messages_holds_more_and_no_other_kind_may() -> None:
    contract = _plan(45).contract(load_contract(), soak_mix(1.0, 25, 0.1, 5.0))

    # 450 s in the middle of the first third, 900 s from the last one on: 450 s of 5.4 pushes.
    assert contract.growth["n1"].window_mib == pytest.approx(450 * 5.4 * 1000 / 2**20, abs=0.001)
    assert contract.growth["supervisor"].window_mib == 0
    assert contract.growth["worker"].window_mib == 0
    assert (contract.growth["n1"].factor, contract.growth["worker"].factor) == (1.25, 1.30)
