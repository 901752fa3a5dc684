"""From a request to its plan: files, packages and swarms, and what does not fit the run."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from atleastonce.checkers.contract import load_contract
from atleastonce.nemesis.fault import Fault
from atleastonce.nemesis.plan_file import read_plan_file
from atleastonce.nemesis.registry import NEMESES
from atleastonce.verifier.cli import main
from atleastonce.verifier.cli_options import split_targets
from atleastonce.verifier.errors import UsageError
from atleastonce.verifier.fault_kinds import with_fault_kinds
from atleastonce.verifier.judge import contract_of
from atleastonce.verifier.lane_scenario import make_any_scenario
from atleastonce.verifier.plan_command import plan_lines, plan_text
from atleastonce.verifier.planning import load_plan, time_limit_of
from atleastonce.verifier.scenario import Request, make_scenario

REQUEST = Request(
    workload="jobs",
    nemeses=(),
    nodes=3,
    workers=4,
    time_limit_s=40,
    rate=20,
    interval_s=5,
    seed=7,
    settings=(),
    bugs=(),
)
FAULT = {"id": "a", "kind": "kill-leader", "target": "leader", "at_s": 2, "duration_s": 1}


def with_plan(*faults: dict[str, object], **changes: object) -> Request:
    plan = read_plan_file(json.dumps({"seed": 5, "faults": faults}).encode())
    return dataclasses.replace(REQUEST, plan=plan, **changes)  # type: ignore[arg-type]


def test_a_plan_that_was_printed_is_the_plan_of_the_run_that_takes_it() -> None:
    first = make_scenario(dataclasses.replace(REQUEST, nemeses=("kill-leader", "kill-worker")))
    file = read_plan_file(plan_text(first).encode())

    again = make_scenario(dataclasses.replace(REQUEST, seed=None, plan=file))

    assert again.plan == first.plan
    assert again.seed == 7
    assert again.nemeses == ("plan",)
    assert time_limit_of(None, file) == 40
    assert time_limit_of(12, file) == 12


def test_a_plan_is_told_as_a_table() -> None:
    lines = list(plan_lines(make_scenario(with_plan(FAULT | {"after": "first-job-started"}))))

    assert lines[0] == "jobs under plan: seed 7, 40 s, 1 faults"
    assert lines[-1].split() == [
        "+2.0",
        "s",
        "a",
        "leader",
        "1.0",
        "s",
        "after",
        "first-job-started",
    ]


def test_a_swarm_says_what_it_drew() -> None:
    scenario = make_scenario(dataclasses.replace(REQUEST, swarm=True))

    assert scenario.nemeses == ("swarm",)
    assert scenario.notes[0].startswith("swarm 7: ")
    assert all(fault.kind in scenario.notes[0] for fault in scenario.plan)
    assert make_scenario(dataclasses.replace(REQUEST, swarm=True)).plan == scenario.plan


def test_a_swarm_of_named_nemeses_takes_of_those() -> None:
    names = ("kill-leader", "kill-worker")
    kinds = set()
    for seed in range(20):
        request = dataclasses.replace(REQUEST, swarm=True, nemeses=names, seed=seed)
        kinds.add(frozenset(fault.kind for fault in make_scenario(request).plan))
    assert kinds == {frozenset(names), frozenset(names[:1]), frozenset(names[1:])}


def test_a_package_of_a_workload_without_workers_hits_none() -> None:
    for seed in range(10):
        request = dataclasses.replace(
            REQUEST, workload="queue", nemeses=("kill",), seed=seed, time_limit_s=60
        )
        for fault in make_scenario(request).plan:
            assert NEMESES[fault.kind].target not in ("worker", "supervisor")


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (with_plan(FAULT, nemeses=("kill-all",)), "leave out 'kill-all'"),
        (with_plan(FAULT, swarm=True), "leave out --swarm"),
        (
            with_plan(FAULT | {"at_s": 39}),
            "--plan FILE: fault a: at_s 39 with duration_s 1 heals at 41",
        ),
        (with_plan(FAULT, nodes=1), "--nodes 1 leaves no quorum under kill-leader"),
        (
            with_plan(
                FAULT | {"kind": "kill-worker", "target": "worker"}, workload="queue", rate=None
            ),
            "nemesis 'kill-worker' needs a supervisor and workers",
        ),
        (
            with_plan(FAULT | {"after": "first-job-started"}, workload="queue", rate=None),
            "after 'first-job-started' needs workers",
        ),
        (with_plan(FAULT, lane="01"), "brings its own fault; leave out --plan"),
        (dataclasses.replace(REQUEST, nemeses=("kil",)), "unknown nemesis 'kil' .did you mean"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(request_: Request, message: str) -> None:
    if request_.lane:
        from atleastonce.workloads.lanes.registry import LANES

        request_ = dataclasses.replace(request_, lane=next(iter(LANES)), workload="")
    with pytest.raises(UsageError, match=message) as caught:
        make_any_scenario(request_)
    assert "\n" not in str(caught.value)


def test_a_plan_file_that_cannot_be_read_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--plan .*nowhere' cannot be read: No such file"):
        load_plan(tmp_path / "nowhere")
    file = tmp_path / "plan.json"
    file.write_text("[1", encoding="ascii")
    with pytest.raises(UsageError, match=r"plan\.json: not JSON"):
        load_plan(file)


def with_nemesis(text: str, **changes: object) -> Request:
    names, targets = split_targets(text)
    return dataclasses.replace(REQUEST, nemeses=names, targets=targets, **changes)  # type: ignore[arg-type]


def test_a_target_behind_a_name_moves_nothing_else_of_the_plan() -> None:
    drawn = make_scenario(with_nemesis("partition-one,kill-worker"))
    named = make_scenario(with_nemesis("partition-one=n2,kill-worker"))
    assert named.nemeses == drawn.nemeses == ("partition-one", "kill-worker")
    assert {fault.target for fault in named.plan} == {"n2", "worker"}
    for one, other in zip(drawn.plan, named.plan, strict=True):
        assert msgspec.structs.replace(other, target=one.target) == one


@pytest.mark.parametrize(
    "text",
    ["partition-one=follower", "kill-nodes=n1+n3", "pause-nodes=majority", "slow-links=n3"],
)
def test_targets_are_written_as_in_a_plan_file(text: str) -> None:
    plan = make_scenario(with_nemesis(text)).plan
    assert {fault.target for fault in plan} == {text.partition("=")[2]}
    again = read_plan_file(json.dumps([fault.plain() for fault in plan]).encode())
    assert make_scenario(dataclasses.replace(REQUEST, plan=again)).plan == plan


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("partition-one=n9", "target 'n9' names 'n9'; choose from: n1, n2, n3"),
        ("partition-one=n1+n2", "target 'n1\\+n2' is not one of partition-one; .*one node by name"),
        ("damage-file=n1+n2", "target 'n1\\+n2' is not one of damage-file"),
        ("kill-nodes=n1+n1", "target 'n1\\+n1' names a node twice"),
        ("kill-nodes=", "target '' is not one of kill-nodes"),
        ("kill-leader=n1", "kill-leader hits 'leader', not 'n1'"),
        ("kill=n1", "a package takes no target; name one of its nemeses: kill-leader"),
        ("none=n1", "none takes no target"),
    ],
)
def test_a_target_that_cannot_be_had_is_one_line(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=f"^--nemesis {re.escape(text)}: {message}") as caught:
        make_scenario(with_nemesis(text))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("empty", ["[]", "[ ]\n", "{}"])
def test_a_plan_that_says_nothing_of_faults_is_refused_and_one_that_has_none_is_not(
    tmp_path: Path, empty: str
) -> None:
    file = tmp_path / "plan.json"
    file.write_text(empty, encoding="ascii")
    with pytest.raises(UsageError, match=r"plan\.json: (\[\]|\{\}) holds no fault; a plan has"):
        load_plan(file)
    none = make_scenario(dataclasses.replace(REQUEST, nemeses=("none",)))
    file.write_text(plan_text(none), encoding="ascii")
    assert make_scenario(dataclasses.replace(REQUEST, plan=load_plan(file))).plan == ()


def test_combinators_that_give_no_fault_in_time_are_refused() -> None:
    late = {"do": "every", "every_s": 5, "from_s": 100, "of": ["kill"]}
    plan = read_plan_file(json.dumps({"draw": [late]}).encode())
    with pytest.raises(UsageError, match="draw gives no fault that heals within 40 s"):
        make_scenario(dataclasses.replace(REQUEST, plan=plan))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "kill-worker", "target": "worker"}, "fault a: nemesis 'kill-worker' needs a sup"),
        ({"target": "n9"}, "fault a: target 'n9' is not one of kill-leader|fault a: kill-leader"),
        ({"after": "first-job-started"}, "fault a: after 'first-job-started' needs workers"),
        ({"kind": "kill-nodes", "target": "n9"}, "fault a: target 'n9' names 'n9'"),
    ],
)
def test_what_is_wrong_with_a_fault_of_a_plan_names_the_file(
    changes: dict[str, object], message: str
) -> None:
    request = with_plan(FAULT | changes, workload="queue", plan_path="here/plan.json")
    with pytest.raises(UsageError, match=f"^--plan here/plan.json: ({message})"):
        make_scenario(request)


def test_verify_plan_prints_what_verify_run_takes(tmp_path: Path) -> None:
    done = CliRunner().invoke(
        main, ["plan", "--nemesis", "kill-leader", "--seed", "7"], standalone_mode=False
    )
    file = tmp_path / "plan.json"
    file.write_text(done.stdout, encoding="ascii")
    request = dataclasses.replace(REQUEST, nemeses=("kill-leader",))
    assert make_scenario(dataclasses.replace(REQUEST, plan=load_plan(file))).plan == (
        make_scenario(request).plan
    )


def test_the_contract_learns_what_new_kinds_take_away() -> None:
    contract = load_contract()
    plan = [Fault(id="a", kind="kill-leader", target="leader", at_s=0, duration_s=1)]
    assert with_fault_kinds(contract, plan) == contract
    told = contract_of(make_scenario(dataclasses.replace(REQUEST, nemeses=("kill-leader",))))
    assert told["faults"] == contract.to_json()["faults"]


def test_the_shipped_contract_and_the_nemeses_agree_on_what_each_takes_away() -> None:
    kinds = load_contract().faults
    for group in kinds.__struct_fields__:
        for name in getattr(kinds, group):
            assert group in NEMESES[name].takes, (name, group)
