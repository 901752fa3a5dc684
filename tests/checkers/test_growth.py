"""Memory in the last third of a load against the first: flat, and grown in one way each."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from atleastonce.checkers.growth import Growth, measure_growth, thirds_of
from atleastonce.checkers.soak_contract import GrowthBound
from atleastonce.histories.memory import Held, MemorySample

MIB = 1024
BEGUN_NS = 1_000_000_000_000
THIRDS = thirds_of(BEGUN_NS, 90.0)
BOUNDS = {
    "supervisor": GrowthBound(factor=1.25),
    "fork-server": GrowthBound(factor=1.25),
    "worker": GrowthBound(factor=1.30),
    "n1": GrowthBound(factor=1.25),
}
FLAT = {"supervisor": 40.0, "fork-server": 30.0, "n1": 60.0, "worker 7": 20.0, "worker 8": 22.0}

Change = Callable[[float, dict[str, float]], None]


def _samples(change: Change = lambda _, __: None, measure: str = "rss") -> list[MemorySample]:
    """One sample a second; `change` may alter what each process holds, MiB, by the second."""
    found = []
    for second in range(90):
        mib = dict(FLAT)
        change(float(second), mib)
        held = {
            name: Held(
                pid=number,
                rss=round((value if measure == "rss" else FLAT.get(name, 20.0)) * MIB),
                pss=round((value if measure == "pss" else FLAT.get(name, 20.0)) * MIB),
                private=0,
            )
            for number, (name, value) in enumerate(mib.items())
        }
        at_ns = BEGUN_NS + round(second * 1e9)
        found.append(MemorySample(t_ns=at_ns, wall_ns=0, held=held))
    return found


def _measure(samples: list[MemorySample], **changes: GrowthBound) -> Growth:
    return measure_growth(samples, THIRDS, {**BOUNDS, **changes}, samples_min=3)


def _broken(growth: Growth) -> list[str]:
    return [finding.sentence.split(":")[0] for finding in growth.findings(THIRDS)]


def test_memory_that_stays_is_no_growth_and_is_told_for_every_kind() -> None:
    growth = _measure(_samples())

    assert not growth.missing
    assert _broken(growth) == []
    told = growth.to_json()
    assert set(told) == set(BOUNDS)
    assert told["worker"] == {
        "rss": {"first": 21.0, "last": 21.0, "allowed": 35.3},
        "pss": {"first": 21.0, "last": 21.0, "allowed": 35.3},
    }


@pytest.mark.parametrize("measure", ["rss", "pss"])
@pytest.mark.parametrize("kind", ["supervisor", "fork-server", "n1"])
def test_process_that_grows_all_the_time_is_named(kind: str, measure: str) -> None:
    def leak(second: float, mib: dict[str, float]) -> None:
        mib[kind] += second

    growth = _measure(_samples(leak, measure))

    assert _broken(growth) == [kind]
    (finding,) = growth.findings(THIRDS)
    assert measure.upper() in finding.sentence


def test_workers_that_all_grow_are_named_by_their_median() -> None:
    def leak(second: float, mib: dict[str, float]) -> None:
        mib["worker 7"] += second
        mib["worker 8"] += second

    assert _broken(_measure(_samples(leak))) == ["the median worker"]


def test_one_large_worker_of_three_does_not_move_the_median() -> None:
    def one(second: float, mib: dict[str, float]) -> None:
        mib["worker 9"] = 20.0 + 10 * second

    assert _broken(_measure(_samples(one))) == []


def test_workers_that_were_replaced_on_the_way_are_still_one_kind() -> None:
    def replaced(second: float, mib: dict[str, float]) -> None:
        if second >= 45:
            mib["worker 107"], mib["worker 108"] = mib.pop("worker 7"), mib.pop("worker 8")
            mib["worker 107"] += 30
            mib["worker 108"] += 30

    assert _broken(_measure(_samples(replaced))) == ["the median worker"]


def test_growth_up_to_the_bound_is_allowed_and_a_hair_more_is_not() -> None:
    def grown_to(most: float) -> Change:
        def change(second: float, mib: dict[str, float]) -> None:
            if second >= 60:
                mib["n1"] = most

        return change

    assert _broken(_measure(_samples(grown_to(60 * 1.25 + 8)))) == []
    assert _broken(_measure(_samples(grown_to(60 * 1.25 + 8.01)))) == ["n1"]


def test_what_a_full_window_explains_is_allowed_beyond_that() -> None:
    def fill(second: float, mib: dict[str, float]) -> None:
        if second >= 60:
            mib["n1"] = 60 * 1.25 + 8 + 5

    bound = GrowthBound(factor=1.25, window_mib=5)

    assert _broken(_measure(_samples(fill))) == ["n1"]
    assert _broken(_measure(_samples(fill), n1=bound)) == []


def test_spike_between_the_thirds_or_for_a_moment_is_no_growth() -> None:
    def spike(second: float, mib: dict[str, float]) -> None:
        if 31 <= second < 59 or second in (70, 80):
            mib["supervisor"] = 500.0

    assert _broken(_measure(_samples(spike))) == []


def test_kind_that_was_hardly_seen_is_missing_and_not_judged() -> None:
    def gone(second: float, mib: dict[str, float]) -> None:
        if second >= 62:
            del mib["fork-server"]

    growth = _measure(_samples(gone))

    assert "fork-server" not in growth.to_json()
    (why,) = growth.missing
    assert "memory of fork-server was sampled 30 times in the first third" in why
    assert "2 times in the last" in why


def test_samples_before_and_after_the_load_do_not_count() -> None:
    outside = [
        MemorySample(t_ns=BEGUN_NS + round(at_s * 1e9), wall_ns=0, held=_samples()[0].held)
        for at_s in (-5.0, -1.0, 91.0, 95.0, 99.0)
    ]

    assert len(_measure(outside).missing) == len(BOUNDS)
