"""Processes that ended by themselves."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from atleastonce.checkers.verdict import RuleResult, Verdict
from atleastonce.histories.deaths import Death, Role, death_of
from atleastonce.histories.faults import FaultEvent, FaultStage
from atleastonce.histories.lines import write_lines
from atleastonce.verifier.breakdowns import find_breakdowns, with_breakdowns
from atleastonce.verifier.store import RunPaths, make_run_folder

CLEAN = Verdict(
    valid=True,
    rules={"lost": RuleResult(valid=True, violations=0, explained=0)},
    strength={},
    violations=[],
    reasons=[],
)


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    return make_run_folder(tmp_path, "jobs", "none")


def _death(status: int, role: Role, node: str | None = None, marker: str | None = None) -> Death:
    death = death_of(status, 4711, role, t_ns=1, wall_ns=1, host="h", boot="b")
    return msgspec.structs.replace(death, node=node, marker=marker)


def test_broken_invariant_of_a_node_is_invalid_with_its_operands(run: RunPaths) -> None:
    run.node_log("n2").write_text('{"event":"boot"}\n    | AssertionError: 7 <= 3\n    +----\n')
    write_lines(run.deaths, [_death(1 << 8, "node", "n2")])

    verdict = with_breakdowns(CLEAN, find_breakdowns(run))

    assert verdict.valid is False
    assert verdict.rules["invariant"].violations == 1
    [witness] = verdict.violations
    assert witness.sentence == "n2 stopped because an invariant broke: 7 <= 3"


def test_other_exit_status_is_unknown_and_named(run: RunPaths) -> None:
    write_lines(run.deaths, [_death(71 << 8, "node", "n2")])

    verdict = with_breakdowns(CLEAN, find_breakdowns(run))

    assert verdict.valid == "unknown"
    assert verdict.rules["invariant"].valid is True
    assert verdict.reasons == ["n2 ended by itself with exit status 71; see its log"]


def test_signals_and_planned_ends_are_no_breakdown(run: RunPaths) -> None:
    write_lines(
        run.deaths,
        [
            _death(9, "node", "n1"),
            _death(0, "node", "n1"),
            _death(0, "master"),
            _death(12 << 8, "worker", marker="memory"),
        ],
    )

    verdict = with_breakdowns(CLEAN, find_breakdowns(run))

    assert verdict.valid is True
    assert verdict.rules["invariant"] == RuleResult(valid=True, violations=0, explained=0)


def test_worker_that_broke_down_is_unknown(run: RunPaths) -> None:
    write_lines(run.deaths, [_death(1 << 8, "worker")])

    assert with_breakdowns(CLEAN, find_breakdowns(run)).reasons == [
        "worker 4711 ended by itself with exit status 1; see its log"
    ]


def test_worker_that_ends_with_its_master_is_no_breakdown(run: RunPaths) -> None:
    write_lines(run.deaths, [_death(1 << 8, "worker"), _death(9, "master")])

    assert find_breakdowns(run) == []


def _damage(run: RunPaths, kind: str, from_ns: int, until_ns: int) -> None:
    """A fault on a node, and its end."""
    stages: tuple[tuple[FaultStage, int], ...] = (("opened", from_ns), ("healed", until_ns))
    write_lines(
        run.faults,
        [
            FaultEvent(fault="f", kind=kind, target="n1", event=stage, t_ns=t_ns, wall_ns=0)
            for stage, t_ns in stages
        ],
    )


@pytest.mark.parametrize(
    ("kind", "status", "died_ns", "valid"),
    [
        ("flip-log", 70, 50, True),
        ("flip-log", 70, 150, "unknown"),
        ("flip-log", 71, 50, "unknown"),
        ("kill-all", 70, 50, "unknown"),
        ("failing-sync", 71, 50, True),
        ("failing-sync", 70, 50, "unknown"),
    ],
)
def test_a_node_may_end_itself_only_as_the_fault_that_hits_it_wants(
    run: RunPaths, kind: str, status: int, died_ns: int, valid: bool | str
) -> None:
    _damage(run, kind, 10, 100)
    death = msgspec.structs.replace(_death(status << 8, "node", "n1"), t_ns=died_ns)
    write_lines(run.deaths, [death])

    assert with_breakdowns(CLEAN, find_breakdowns(run)).valid == valid


def test_a_fault_explains_the_end_of_no_other_node_than_it_hit(run: RunPaths) -> None:
    _damage(run, "failing-sync", 0, 100)
    write_lines(run.deaths, [_death(71 << 8, "node", "n2")])

    assert with_breakdowns(CLEAN, find_breakdowns(run)).valid == "unknown"
