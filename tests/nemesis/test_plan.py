"""Plans are data: from the seed alone, within bounds, and checked when they are read."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from atleastonce.nemesis.fault import Fault
from atleastonce.nemesis.nemesis import ACTS
from atleastonce.nemesis.plan import (
    DEFAULTS,
    NemesisSettings,
    decode_plan,
    encode_plan,
    make_plan,
)
from atleastonce.nemesis.registry import NEMESES, UnknownNemesisError, check_names, parse_names
from atleastonce.nemesis.selectors import is_of_many, is_of_nodes
from atleastonce.nemesis.turns import RECOVERY_S

FAULTY = [name for name in NEMESES if name != "none"]
NAMES = st.lists(st.sampled_from(FAULTY), min_size=1, max_size=4, unique=True)
SEEDS = st.integers(0, 2**63 - 1)
ONE_NODE = ["kill-leader", "term-leader", "kill-follower", "pause-leader", "bump-clock"]
MIXES = st.lists(st.sampled_from(ONE_NODE), min_size=1, max_size=3, unique=True).flatmap(
    lambda names: st.permutations([*names, "kill-all"])
)


def targets(name: str) -> set[str]:
    spec = NEMESES[name]
    return {target for target in (spec.target, *spec.drawn) if is_of_nodes(target)}


def takes_turns(names: list[str]) -> bool:
    holding = [name for name in names if not NEMESES[name].overlaps]
    return len({is_of_many(target) for name in holding for target in targets(name)}) > 1


def healed_s(fault: Fault) -> float:
    return fault.at_s + fault.duration_s + NEMESES[fault.kind].healing_s


def test_every_nemesis_has_a_sentence_and_an_act() -> None:
    assert set(ACTS) == set(FAULTY)
    assert all(len(spec.sentence) > 10 for spec in NEMESES.values())


@given(NAMES, SEEDS)
def test_the_same_seed_gives_the_same_plan(names: list[str], seed: int) -> None:
    assert make_plan(names, seed, 60) == make_plan(names, seed, 60)


def test_another_seed_gives_another_plan() -> None:
    assert make_plan(["kill-leader"], 1, 40) != make_plan(["kill-leader"], 2, 40)


def test_a_plan_stays_the_same_over_versions_and_machines() -> None:
    first = make_plan(["kill-leader"], 7, 40)[0]
    assert (first.id, first.at_s, first.duration_s) == ("kill-leader-1", 3.097, 2.187)


@given(NAMES, SEEDS, st.integers(40, 200), st.integers(1, 12))
def test_every_fault_lies_within_the_time_limit_and_heals_in_it(
    names: list[str], seed: int, limit_s: int, interval_s: int
) -> None:
    plan = make_plan(names, seed, limit_s, interval_s)
    assert [fault.at_s for fault in plan] == sorted(fault.at_s for fault in plan)
    assert len({fault.id for fault in plan}) == len(plan)
    for name in names:
        own = [fault for fault in plan if fault.kind == name]
        assert own
        assert own[0].at_s >= 3
        assert own[-1].at_s + own[-1].duration_s + 1 <= limit_s
        for one, two in pairwise(own):
            assert one.at_s + one.duration_s <= two.at_s


def test_the_first_fault_comes_at_three_seconds_and_the_others_in_the_interval() -> None:
    for seed in range(50):
        plan = make_plan(["kill-leader"], seed, 40)
        assert [3 + 5 * k <= fault.at_s < 3.5 + 5 * k for k, fault in enumerate(plan)] == [True] * 7


@given(SEEDS)
def test_down_times_and_pauses_are_within_their_bounds(seed: int) -> None:
    for fault in make_plan(["kill-leader", "pause-leader", "kill-worker"], seed, 60):
        if fault.kind == "kill-leader":
            assert 1.5 <= fault.duration_s <= 2.5
        elif fault.kind == "pause-leader":
            assert 1.5 <= fault.duration_s <= 3.0
        else:
            assert fault.duration_s == 0


@given(SEEDS, st.integers(10, 60))
def test_a_longer_run_only_adds_faults(seed: int, limit_s: int) -> None:
    short, long = make_plan(["kill-leader"], seed, limit_s), make_plan(["kill-leader"], seed, 90)
    assert long[: len(short)] == short


@given(SEEDS, NAMES.filter(lambda names: len(names) > 1 and not takes_turns(names)))
def test_leaving_out_the_last_nemesis_moves_no_other_fault(seed: int, names: list[str]) -> None:
    whole, part = make_plan(names, seed, 60), make_plan(names[:-1], seed, 60)
    assert [fault for fault in whole if fault.kind != names[-1]] == list(part)


@given(SEEDS, MIXES, st.integers(2, 10))
def test_a_fault_on_all_nodes_has_them_to_itself(
    seed: int, names: list[str], interval_s: int
) -> None:
    plan = make_plan(names, seed, 90, interval_s)
    for whole in plan:
        for other in plan:
            if whole.kind == "kill-all" and other is not whole:
                apart_s = max(whole.at_s - healed_s(other), other.at_s - healed_s(whole))
                least_s = 0 if other.kind == "kill-all" else RECOVERY_S
                assert apart_s > least_s - 0.002


@given(SEEDS, MIXES)
def test_in_a_run_of_the_default_length_every_nemesis_has_its_turns(
    seed: int, names: list[str]
) -> None:
    kinds = [fault.kind for fault in make_plan(names, seed, 40)]
    assert set(kinds) == set(names)
    assert kinds.count("kill-all") >= 2


def _plan_if_any(names: list[str], seed: int, limit_s: float) -> tuple[Fault, ...]:
    try:
        return make_plan(names, seed, limit_s)
    except ValueError:
        return ()


@given(SEEDS, MIXES)
@example(316_897_430_122, ["pause-leader", "kill-leader", "kill-all"])
def test_the_least_time_limit_of_a_mix_is_one_that_works(seed: int, names: list[str]) -> None:
    limit_s = 4.0
    for _ in names:
        with pytest.raises(ValueError, match="use at least") as e:
            make_plan(names, seed, limit_s)
        limit_s = float(str(e.value).rpartition(" ")[2])
        if len({fault.kind for fault in _plan_if_any(names, seed, limit_s)}) == len(names):
            return
    pytest.fail(f"{limit_s:g} s is not enough for {names}")


@given(NAMES, SEEDS)
def test_json_round_trip(names: list[str], seed: int) -> None:
    plan = make_plan(names, seed, 60)
    assert decode_plan(encode_plan(plan)) == plan
    assert json.loads(encode_plan(plan))[0]["kind"] in names


def test_none_is_an_empty_plan() -> None:
    assert make_plan(["none"], 1, 1) == ()


@pytest.mark.parametrize("name", FAULTY)
def test_a_time_limit_too_short_names_itself_and_the_least_that_works(name: str) -> None:
    with pytest.raises(ValueError, match=f"time limit 2 s is too short for one {name} fault") as e:
        make_plan([name], 5, 2)
    message = str(e.value)
    assert "\n" not in message
    least = float(message.rpartition(" ")[2])
    assert len(make_plan([name], 5, least)) == 1
    with pytest.raises(ValueError, match="too short"):
        make_plan([name], 5, least - 0.2)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["kill-everything"], "unknown nemesis 'kill-everything'; choose from: none, kill-leader"),
        (["none", "kill-all"], "none stands alone"),
        (["kill-all", "kill-all"], "name each one once"),
        ([], "no nemesis named"),
    ],
)
def test_names_that_make_no_sense_are_refused(names: list[str], message: str) -> None:
    with pytest.raises(UnknownNemesisError, match=message):
        check_names(names)
    with pytest.raises(ValueError, match=message):
        make_plan(names, 1, 40)


def test_names_are_split_at_commas() -> None:
    assert parse_names("kill-leader, kill-worker") == ("kill-leader", "kill-worker")


@pytest.mark.parametrize("value", [0.0, -1.0, float("inf"), float("nan")])
def test_limits_and_intervals_that_are_no_durations_are_refused(value: float) -> None:
    with pytest.raises(ValueError, match=r"time limit .* is not allowed"):
        make_plan(["kill-leader"], 1, value)
    with pytest.raises(ValueError, match=r"interval .* is not allowed"):
        make_plan(["kill-leader"], 1, 40, value)


def broken(**changes: object) -> str:
    fault: dict[str, object] = {
        "id": "a",
        "kind": "kill-leader",
        "target": "leader",
        "at_s": 1.0,
        "duration_s": 1.0,
    }
    return json.dumps([fault | changes])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            broken(kind="kill-everything"),
            "unknown kind 'kill-everything'; choose from: kill-leader",
        ),
        (broken(kind="none"), "unknown kind 'none'"),
        (broken(at_s=-1.0), "at_s -1.0 is not allowed; 0 or more"),
        (broken(duration_s=-0.5), "duration_s -0.5 is not allowed"),
        (broken(target="worker"), "kill-leader hits 'leader', not 'worker'"),
        (broken(choice=-1), "choice -1 is not allowed"),
        (broken(id=""), "a fault needs an id"),
        (broken(extra=1), "not a plan: .*extra"),
        (broken()[:-1] + "," + broken()[1:], "two faults have the id 'a'"),
        ("{", "not a plan"),
    ],
)
def test_a_stored_plan_is_checked_in_one_line(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        decode_plan(text)
    assert "\n" not in str(caught.value)


def test_a_fault_with_an_endless_time_is_refused() -> None:
    with pytest.raises(ValueError, match="at_s inf"):
        Fault(id="a", kind="kill-leader", target="leader", at_s=float("inf"), duration_s=0)


def test_settings_that_cross_are_refused() -> None:
    assert DEFAULTS.down_s == 2.0
    with pytest.raises(ValueError, match="pause_s_min 4 is above pause_s_max 3"):
        NemesisSettings(pause_s_min=4)
