"""Plan files: what they expand to, and the one line that each mistake in them is worth."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atleastonce.histories.ops import Json
from atleastonce.nemesis.draws import healed_s
from atleastonce.nemesis.fault import Fault
from atleastonce.nemesis.packages import PACKAGES
from atleastonce.nemesis.plan import make_plan
from atleastonce.nemesis.plan_file import (
    PlanError,
    expand_plan,
    needs_events,
    read_plan_file,
    write_plan_file,
)

SEEDS = st.integers(0, 2**32)


def expand(*draw: Json, seed: int = 3, limit_s: float = 60, faults: Json = None) -> list[Fault]:
    plan = read_plan_file(json.dumps({"draw": draw, "faults": faults or []}).encode())
    return list(expand_plan(plan, seed, limit_s))


def starts(faults: list[Fault]) -> list[tuple[float, str]]:
    return [(fault.at_s, fault.kind) for fault in faults]


def test_a_plan_that_is_written_is_read_back_whole() -> None:
    plan = make_plan(["kill-leader", "kill-worker"], 7, 60)
    text = write_plan_file(plan, 7, 60, ["kill-leader", "kill-worker"])
    file = read_plan_file(text.encode())
    assert expand_plan(file, 7, 60) == plan
    assert (file.seed, file.time_limit_s) == (7, 60)
    assert len(text.splitlines()) == len(plan) + 8


def test_a_list_of_faults_is_a_plan_too() -> None:
    plan = make_plan(["kill-leader"], 7, 60)
    file = read_plan_file(json.dumps([fault.plain() for fault in plan]).encode())
    assert expand_plan(file, 1, 60) == plan


def test_the_scenario_of_a_run_is_a_plan_too(tmp_path: Path) -> None:
    plan = make_plan(["kill-leader"], 7, 60)
    scenario = {
        "workload": "jobs",
        "seed": 7,
        "settings": {"time_limit_s": 60.0},
        "plan": [fault.plain() for fault in plan],
        "v": 1,
    }
    file = read_plan_file(json.dumps(scenario).encode())
    assert (file.seed, file.time_limit_s) == (7, 60)
    assert expand_plan(file, 7, 60) == plan


@given(SEEDS)
def test_the_same_seed_expands_to_the_same_faults(seed: int) -> None:
    node: Json = {
        "do": "mix",
        "every_s": 4,
        "jitter_s": 1,
        "of": ["kill-leader", "kill", "pause-leader"],
    }
    assert expand(node, seed=seed) == expand(node, seed=seed)


@given(SEEDS)
def test_leaving_out_the_last_node_moves_no_other_fault(seed: int) -> None:
    first: Json = {"do": "mix", "every_s": 6, "of": ["kill-leader", "pause-leader"]}
    second: Json = {"do": "every", "every_s": 7, "of": ["kill-worker"]}
    whole, part = expand(first, second, seed=seed), expand(first, seed=seed)
    assert [fault for fault in whole if fault.kind != "kill-worker"] == part


@given(SEEDS, st.integers(10, 90))
def test_combinators_leave_out_what_would_not_heal_in_time(seed: int, limit_s: int) -> None:
    nodes: list[Json] = [
        {"do": "every", "every_s": 3, "of": ["kill-leader", "kill-worker"]},
        {"do": "sequence", "of": ["kill-all", "pause-leader", "flip-log"]},
    ]
    for fault in expand(*nodes, seed=seed, limit_s=limit_s):
        assert healed_s(fault) <= limit_s


def test_every_has_all_of_its_nodes_in_each_round() -> None:
    node: Json = {
        "do": "every",
        "every_s": 10,
        "times": 2,
        "of": ["kill-worker", "kill-supervisor"],
    }
    assert starts(expand(node)) == [
        (3, "kill-supervisor"),
        (3, "kill-worker"),
        (13, "kill-supervisor"),
        (13, "kill-worker"),
    ]


def test_flip_flop_takes_its_nodes_in_turn() -> None:
    node: Json = {
        "do": "flip-flop",
        "every_s": 10,
        "from_s": 2,
        "of": ["kill-leader", "bump-clock"],
    }
    kinds = [kind for _, kind in starts(expand(node))]
    assert kinds == ["kill-leader", "bump-clock"] * 3


@given(SEEDS)
def test_mix_draws_one_node_in_each_round(seed: int) -> None:
    node: Json = {"do": "mix", "every_s": 10, "of": ["kill-leader", "bump-clock"]}
    found = starts(expand(node, seed=seed))
    assert [at for at, _ in found] == [3, 13, 23, 33, 43, 53]
    assert {kind for _, kind in found} <= {"kill-leader", "bump-clock"}


@given(SEEDS)
def test_sequence_begins_each_node_after_the_last_one_is_healed(seed: int) -> None:
    node: Json = {"do": "sequence", "pause_s": 2, "of": ["kill-all", "pause-leader", "kill-leader"]}
    found = expand(node, seed=seed)
    assert [fault.kind for fault in found] == ["kill-all", "pause-leader", "kill-leader"]
    for one, two in pairwise(found):
        assert two.at_s == pytest.approx(healed_s(one) + 2, abs=0.001)


def test_a_round_that_comes_before_the_last_one_is_healed_is_left_out() -> None:
    slow: Json = {"do": "fault", "kind": "pause-leader", "duration_s": 9}
    found = starts(expand({"do": "every", "every_s": 4, "of": [slow]}))
    assert [at for at, _ in found] == [3, 15, 27, 39]


def test_a_fault_in_full_has_what_it_says_and_draws_the_rest() -> None:
    [fault] = expand({"do": "fault", "kind": "pause-leader", "at_s": 4, "duration_s": 2.5})
    assert (fault.id, fault.target, fault.at_s, fault.duration_s) == (
        "pause-leader-1",
        "leader",
        7,
        2.5,
    )


def test_after_counts_its_times_from_the_event() -> None:
    node: Json = {
        "do": "after",
        "event": "leader-changed",
        "of": ["kill-worker", {"do": "every", "every_s": 5, "times": 2, "of": ["bump-clock"]}],
    }
    found = expand(node)
    assert {fault.after for fault in found} == {"leader-changed"}
    assert [fault.at_s for fault in found] == [0, 0, 5]
    assert needs_events(found)
    assert not needs_events(make_plan(["kill-leader"], 1, 40))


def test_ids_of_what_is_drawn_go_round_those_that_are_taken() -> None:
    fixed: Json = [{"id": "kill-leader-1", "kind": "kill-leader", "target": "leader", "at_s": 1, "duration_s": 1}]  # fmt: skip  # noqa: E501
    found = expand({"do": "every", "every_s": 9, "times": 2, "of": ["kill-leader"]}, faults=fixed)
    assert [fault.id for fault in found] == ["kill-leader-1", "kill-leader-2", "kill-leader-3"]


def test_a_package_is_one_of_its_nemeses_each_time() -> None:
    found = expand({"do": "every", "every_s": 6, "of": ["kill"]}, limit_s=120)
    kinds = {fault.kind for fault in found}
    assert len(kinds) > 1
    assert kinds <= set(PACKAGES["kill"])


FAULT = {"id": "a", "kind": "kill-leader", "target": "leader", "at_s": 1, "duration_s": 1}


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ([FAULT | {"at_s": "soon"}], 'fault a: at_s "soon" is not allowed; it takes a number'),
        ([FAULT | {"at_s": -1}], "fault a: at_s -1.0 is not allowed; 0 or more"),
        ([FAULT | {"when": 1}], "fault a: when is not known here; choose from: id, kind"),
        ([{"id": "a", "kind": "kill-leader"}], "fault a: target is missing; it takes a text"),
        ([FAULT | {"kind": "kil"}], "fault a: unknown kind 'kil'; choose from: kill-leader"),
        ([FAULT | {"target": "worker"}], "fault a: kill-leader hits 'leader', not 'worker'"),
        ([FAULT, FAULT], "two faults have the id 'a'"),
        ([FAULT | {"at_s": 59}], "fault a: at_s 59 with duration_s 1 heals at 61 s, with 1 s to"),
        (
            [FAULT | {"after": "healed:b"}, FAULT | {"id": "b", "after": "bit:a"}],
            "fault a: after 'healed:b' comes only after itself (a after b after a)",
        ),
        ([3], "faults[0] 3 is no object"),
        ({"seed": -1}, "seed -1 is not allowed; it takes an integer from 0"),
        ({"v": 2}, "v 2 is not allowed; it takes 1"),
        ({"plan": []}, "plan is not known here; choose from: v, seed"),
        ({"draw": [{"do": "mux"}]}, 'draw[0]: do "mux" is not allowed; choose from: fault, every'),
        ({"draw": [4]}, "draw[0]: do 4 is not allowed"),
        ({"draw": [{"do": "mix", "every_s": 0, "of": ["kill"]}]}, "draw[0]: every_s 0 is not"),
        ({"draw": [{"do": "mix", "every_s": 1, "of": []}]}, "draw[0]: of [] is not allowed"),
        ({"draw": [{"do": "mix", "every_s": 1, "of": ["x"]}]}, "draw[0].of[0]: unknown kind 'x'"),
        ({"draw": [{"do": "fault", "kind": "none"}]}, "draw[0]: unknown kind 'none'"),
        (
            {"draw": [{"do": "after", "event": "dawn", "of": ["kill"]}]},
            "draw[0]: event 'dawn' is no event; choose from: first-job-started, leader-changed",
        ),
        (
            {
                "draw": [
                    {
                        "do": "after",
                        "event": "leader-changed",
                        "of": [{"do": "fault", "kind": "kill-all", "after": "leader-changed"}],
                    }
                ]
            },
            "draw[0]: an after inside an after",
        ),
        ("x", "not a plan: an object with faults or draw, or a list of faults"),
    ],
)
def test_a_mistake_is_one_line_that_names_the_place_the_value_and_what_is_allowed(
    raw: Json, message: str
) -> None:
    with pytest.raises(PlanError) as caught:
        expand_plan(read_plan_file(json.dumps(raw).encode()), 1, 60)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_what_is_no_json_is_said() -> None:
    with pytest.raises(PlanError, match="not JSON"):
        read_plan_file(b"{")
